"""Reading data files of every layout, and what is wrong with them; all made up."""

import bz2
import gzip
import io
import json
import lzma
import random
import tarfile
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamtrl.errors import UserError
from tamtrl.tasks.json_text import MAX_DEPTH
from tamtrl.tasks.records import records
from tamtrl.tasks.ruler import running_text

# Arrow's JSON reader refuses both: null and then text, and lists that mix text and numbers.
ROWS = [{"a": None, "facts": [["Title", 0]]}, {"a": "text\u2028more", "facts": [["Other", 3], ["Third", 1]]}]
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)


def content(path, member=None):
    return [record for _, record in records(path, member)]


def tar(path, members: dict[str, str | None], mode="w:gz"):
    """``members``: text, or None for a folder, or the target of a link (with an arrow before it)."""
    with tarfile.open(path, mode) as archive:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            if text is None:
                member.type = tarfile.DIRTYPE
            elif text.startswith("->"):
                member.type, member.linkname = tarfile.SYMTYPE, text[2:]
            else:
                member.size = len(text.encode())
            archive.addfile(member, io.BytesIO((text or "").encode()))
    return path


@pytest.mark.trap(2, 19)
def test_every_layout_gives_the_same_records(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(ROWS))
    (tmp_path / "a.jsonl").write_text(LINES + "\n")
    (tmp_path / "lines.json").write_text(LINES)  # ships publicly: JSON lines in a file called .json
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data/dev.jsonl", LINES)
        archive.writestr("data/train.json", json.dumps(ROWS[:1]))
        archive.writestr("__MACOSX/data/._dev.jsonl", "junk")
    tar(tmp_path / "a.tgz", {"data": None, "data/dev.json": json.dumps(ROWS)})
    folder = tmp_path / "folder"
    (folder / ".cache").mkdir(parents=True)
    (folder / "1.json").write_text(json.dumps(ROWS[:1]))
    (folder / "2.jsonl.gz").write_bytes(gzip.compress(json.dumps(ROWS[1]).encode()))
    (folder / ".cache" / "3.json").write_text("junk")
    (folder / "dataset_info.json").write_text('{"features": {}}')
    assert content(tmp_path / "a.json") == content(tmp_path / "a.jsonl") == content(tmp_path / "lines.json") == ROWS
    assert content(tmp_path / "a.zip", "dev.jsonl") == content(tmp_path / "a.tgz") == content(folder) == ROWS
    pq.write_table(pa.Table.from_pylist([{"a": "x", "n": 1}]), tmp_path / "a.parquet")
    assert content(tmp_path / "a.parquet") == [{"a": "x", "n": 1}]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compression_is_told_by_content_whatever_the_name(tmp_path, compress):
    (tmp_path / "a.json").write_bytes(compress(json.dumps(ROWS).encode()))
    plain = tar(tmp_path / "plain.tar", {"x/dev.json": json.dumps(ROWS)}, "w")
    (tmp_path / "data.bin").write_bytes(compress(plain.read_bytes()))
    assert content(tmp_path / "a.json") == content(tmp_path / "data.bin") == content(plain) == ROWS
    (tmp_path / "essay.txt.x").write_bytes(compress(b"Some words."))
    assert running_text(tmp_path / "essay.txt.x") == "Some words."


def test_a_mapping_gives_its_keys_as_ids(tmp_path):
    (tmp_path / "papers.json").write_text('\ufeff{"p1": {"title": "A", "x": 1.5}, "p2": {"id": "own", "title": "B"}}')
    assert content(tmp_path / "papers.json") == [{"id": "p1", "title": "A", "x": 1.5}, {"id": "own", "title": "B"}]


def test_concatenated_json_is_read_whole_or_refused(tmp_path):
    path = tmp_path / "a.json"
    for text, found in (("[1] [2, 3]", [1, 2, 3]), ('{"a": {"x": 1}}\n{"b": {}}', [{"id": "a", "x": 1}, {"id": "b"}])):
        path.write_text(text)
        assert content(path) == found
    for text, message in (
        ('[1] {"a": 2}', "has a record after a list; give lists"),
        ('{"a": 1} [2]', "has a list after a record; give lists"),
        ('{"a": {}} {"b": 1}', "has a record after a mapping of records"),
        ('{"a": {}, "b": {}, "a": {"x": 1}}', "has the entry a twice; which of them is right"),
        ('{"a": {}} {"a": {"x": 1}}', "has the entry a twice"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            content(path)
    (tmp_path / "a.jsonl").write_text("[1]\n[2, 3]")
    assert content(tmp_path / "a.jsonl") == [1, 2, 3]


def test_two_columns_of_one_name(tmp_path):
    column, path = pa.array(["x"]), tmp_path / "a.parquet"
    inner = pa.StructArray.from_arrays([column, column], ["b", "b"])
    for table in (pa.table([column, column], ["b", "b"]), pa.table({"a": pa.ListArray.from_arrays([0, 1], inner)})):
        pq.write_table(table, path)
        with pytest.raises(UserError, match=r"a.parquet has two columns called b; which"):
            content(path)


@pytest.mark.trap(1, 4)
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.zip", "<html>quota exceeded</html>", "is a web page, not data"),
        ("a.tgz", "<html>quota exceeded</html>", "is a web page, not data"),
        ("a.json", " <!DOCTYPE html><html>", "is a web page, not data"),
        ("a.jsonl", "<html>", "is a web page, not data"),
        ("a.parquet", "<html>", "is a web page, not data"),
        ("a.json", '[{"a": 1}, {"a"', r"not valid JSON after record 1 \(.*\); is the download complete"),
        ("a.jsonl", '{"a": 1}\n{"a"', r"not valid JSON after record 1 \(.*\); is the download complete"),
        ("a.json", '[{"a": 1}] x', "not valid JSON after record 1"),
        ("a.json", '[{"a": NaN}]', "not valid JSON after record 0"),
        ("a.json", '[{"a": ' + 5000 * "9" + "}]", "has a number after record 0 that is too long"),
        ("a.json", "words", "must begin with"),
        ("a.json", "", "is empty"),
        ("a.json", b"\x89PNG\r\n\x1a\n\0", "is not UTF-8 text but UTF-16 or binary"),
        ("a.json", '[{"a": "é"}]'.encode("utf-16"), "is not UTF-8 text but UTF-16"),
        ("a.json", '[{"a": "é"}]'.encode("utf-16-be"), "is not UTF-8 text but UTF-16"),
        ("a.json", '[{"a": "é"}]'.encode("latin-1"), r"is not UTF-8 text \(after record 0\)"),
        ("a.json", b'[{"a": "\xed\xa0\x80"}]', r"is not UTF-8 text \(after record 0\)"),
        ("a.json", r'[{"a": "\ud83d"}]', r"has half a surrogate pair \(\\ud83d\)"),
        ("a.json", r'[{"a": "\ud83dx"}]', "has half a surrogate pair"),
        ("a.json", r'[{"a": "\ude00\ud83d"}]', "has half a surrogate pair"),
        ("a.7z", b"7z\xbc\xaf\x27\x1c00", "is a 7-Zip archive, which isn't read here; unpack it"),
        ("a.json.zst", b"\x28\xb5\x2f\xfd00", "is compressed with Zstandard, which isn't read here"),
    ],
)
def test_what_is_not_data(tmp_path, name, text, message):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError, match=message) as caught:
        content(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_surrogate_pairs_and_what_only_looks_like_them(tmp_path):
    """At every place of the blocks in which a file is read."""
    text = "\U0001f600\\ud83d\\\U0001f600\\" * 12_000
    path = tmp_path / "a.json"
    for before in range(12):
        path.write_text(json.dumps([" " * before + text]))
        assert content(path) == [" " * before + text]


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_has_a_limit_and_takes_no_memory(tmp_path, opening, closing):
    path = tmp_path / "a.json"
    for depth, inside in ((MAX_DEPTH, True), (MAX_DEPTH + 1, False), (200_000, False)):
        path.write_text(f'{{"id": "x", "b": {opening * (depth - 1)}1{closing * (depth - 1)}}}')
        if inside:
            assert len(content(path)) == 1
            continue
        with pytest.raises(UserError, match=f"nests deeper than {MAX_DEPTH} levels after record 0"):
            content(path)


def test_archives_name_what_they_hold(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x/train.json", "[]")
        archive.writestr("x/dev.json", "[]")
    with pytest.raises(UserError, match=r"holds x/train.json, x/dev.json; say which with `member`"):
        content(tmp_path / "a.zip")
    with pytest.raises(UserError, match=r"holds no test.json; it holds x/train.json, x/dev.json"):
        content(tmp_path / "a.zip", "test.json")


def test_members_that_are_no_files(tmp_path):
    path = tar(
        tmp_path / "a.tar",
        {
            "folder.json": None,
            "away.json": "->nowhere.json",
            "here.json": "->b.json",
            "b.json": "[7]",
            "in.json": "->folder.json",
            "twice.json": "[1]",
        },
        "w",
    )
    with tarfile.open(path, "a") as archive:
        archive.addfile(tarfile.TarInfo("twice.json"))
    with pytest.raises(UserError, match=r"in.json is a link to a folder, not a file"):
        content(path, "in.json")
    with pytest.raises(UserError, match=r"holds twice.json, twice.json; say which"):
        content(path, "twice.json")
    assert content(path, "here.json") == [7]
    with pytest.raises(UserError, match=r"folder.json is a folder, not a file"):
        content(path, "folder.json")
    with pytest.raises(UserError, match=r"away.json is a link to nowhere.json, which the archive does not hold"):
        content(path, "away.json")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("folder.json/", "")
        link = zipfile.ZipInfo("link.json")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "b.json")
    with pytest.raises(UserError, match=r"folder.json is a folder, not a file"):
        content(tmp_path / "a.zip", "folder.json")
    with pytest.raises(UserError, match=r"link.json is a link, not a file"):
        content(tmp_path / "a.zip", "link.json")


@pytest.mark.parametrize(
    ("flags", "method", "message"), [(1, 8, "is encrypted; unpack it with its password"), (0, 9, "is compressed with deflate64")]
)
def test_zip_members_that_are_not_read(tmp_path, flags, method, message):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", "[]")
    raw = bytearray(path.read_bytes())
    for header, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = raw.index(header) + place
        raw[start : start + 4] = flags.to_bytes(2, "little") + method.to_bytes(2, "little")
    path.write_bytes(raw)
    with pytest.raises(UserError, match=f"a.zip:a.json {message}"):
        content(path)


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


def test_a_tar_that_breaks_off(tmp_path):
    """Without compression nothing but its last block says that a list of members is whole."""
    path = tar(tmp_path / "a.tar", {"a.json": "[1]", "b.json": "[2]"}, "w")
    path.write_bytes(path.read_bytes()[:1024])  # the first member, whole
    with pytest.raises(UserError, match=r"is damaged .*its list of members breaks off"):
        content(path, "a.json")


@pytest.mark.parametrize("kind", ["zip", "tgz", "json.gz", "json.bz2", "json.xz", "parquet"])
def test_a_flipped_bit_is_never_read_as_other_text(tmp_path, kind):
    """What has a checksum is the same or refused, wherever the bit."""
    rows = [{"text": f"Number {n} is {n * n}."} for n in range(300)]
    text, path = json.dumps(rows), tmp_path / f"a.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.json", text)
    elif kind == "tgz":
        tar(path, {"a.json": text})
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, write_page_checksum=True)
    else:
        path.write_bytes({"json.gz": gzip.compress, "json.bz2": bz2.compress, "json.xz": lzma.compress}[kind](text.encode()))
    # Parquet's own column names have no checksum: a changed one is refused where records are typed.
    read = running_text if kind == "parquet" else content
    expected, sound, rng, refused = read(path), path.read_bytes(), random.Random(kind), 0
    assert content(path) == rows
    for _ in range(60):
        place = rng.randrange(len(sound))
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1 << rng.randrange(8)]) + sound[place + 1 :])
        try:
            assert read(path) == expected
        except UserError:
            refused += 1
    assert refused > 30


def test_running_text_that_is_none(tmp_path):
    for text, message in ((b"<html>Quota</html>", "is a web page"), ("né".encode("latin-1"), r"not UTF-8 text \(byte 1\)")):
        (tmp_path / "essay.txt").write_bytes(text)
        with pytest.raises(UserError, match=message):
            running_text(tmp_path / "essay.txt")
