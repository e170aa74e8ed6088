"""Reading data files of every layout, and what is wrong with them; all made up."""

import io
import json
import tarfile
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamtrl.errors import UserError
from tamtrl.tasks.records import records

# Arrow's JSON reader refuses both: null and then text, and lists that mix text and numbers.
ROWS = [{"a": None, "facts": [["Title", 0]]}, {"a": "text\u2028more", "facts": [["Other", 3], ["Third", 1]]}]


def content(path, member=None):
    return [record for _, record in records(path, member)]


@pytest.mark.trap(2, 19)
def test_every_layout_gives_the_same_records(tmp_path):
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)
    (tmp_path / "a.json").write_text(json.dumps(ROWS))
    (tmp_path / "a.jsonl").write_text(lines + "\n")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("data/dev.jsonl", lines)
        archive.writestr("data/train.json", json.dumps(ROWS[:1]))
        archive.writestr("__MACOSX/data/._dev.jsonl", "junk")
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as archive:
        member = tarfile.TarInfo("data/dev.json")
        member.size = len(json.dumps(ROWS))
        archive.addfile(member, io.BytesIO(json.dumps(ROWS).encode()))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "1.json").write_text(json.dumps(ROWS[:1]))
    (folder / "2.jsonl").write_text(json.dumps(ROWS[1]))
    assert content(tmp_path / "a.json") == content(tmp_path / "a.jsonl") == ROWS
    assert content(tmp_path / "a.zip", "dev.jsonl") == content(tmp_path / "a.tgz") == content(folder) == ROWS
    pq.write_table(pa.Table.from_pylist([{"a": "x", "n": 1}]), tmp_path / "a.parquet")
    assert content(tmp_path / "a.parquet") == [{"a": "x", "n": 1}]


def test_a_mapping_gives_its_keys_as_ids(tmp_path):
    (tmp_path / "papers.json").write_text('\ufeff{"p1": {"title": "A", "x": 1.5}, "p2": {"title": "B"}}')
    assert content(tmp_path / "papers.json") == [{"title": "A", "x": 1.5, "id": "p1"}, {"title": "B", "id": "p2"}]


@pytest.mark.trap(1, 4)
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.zip", "<html>quota exceeded</html>", "not a zip archive; was an error page saved under its name"),
        ("a.tgz", "<html>quota exceeded</html>", "not a tgz archive; was an error page saved"),
        ("a.json", " <!DOCTYPE html><html>", "is a web page, not data"),
        ("a.jsonl", "<html>", "is a web page, not data"),
        ("a.parquet", "<html>", "not a readable parquet file"),
        ("a.json", '[{"a": 1}, {"a"', "not valid JSON .*; is the download complete"),
        ("a.jsonl", '{"a": 1}\n{"a"', "line 2 is not valid JSON .*; is the download complete"),
        ("a.json", "words", "must begin with"),
    ],
)
def test_what_is_not_data(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        content(tmp_path / name)


def test_archives_name_what_they_hold(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x/train.json", "[]")
        archive.writestr("x/dev.json", "[]")
    with pytest.raises(UserError, match=r"holds x/train.json, x/dev.json; say which with `member`"):
        content(tmp_path / "a.zip")
    with pytest.raises(UserError, match=r"holds no test.json; there are x/train.json, x/dev.json"):
        content(tmp_path / "a.zip", "test.json")


@pytest.mark.trap(1)
def test_a_damaged_archive(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.jsonl", '{"text": "some words"}\n' * 50)
    path.write_bytes(path.read_bytes().replace(b"some words", b"other wrds", 1))
    with pytest.raises(UserError, match=r"a.jsonl is damaged .*; is the download complete"):
        content(path)
    with pytest.raises(UserError, match=r"nowhere.zip does not exist"):
        content(tmp_path / "nowhere.zip")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"holds no \.json"):
        content(tmp_path / "empty")
