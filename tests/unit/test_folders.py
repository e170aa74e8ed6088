"""Folders, members and names: what is read, and what is named because it isn't; all made up."""

import io
import json
import os
import subprocess
import sys
import zipfile

import pytest
from conftest import hotpot_record
from test_longbench import row
from test_questions import annotation, paper
from test_records import content, tar

from tamtrl import cli
from tamtrl.errors import DataWarning, UserError
from tamtrl.tasks import longbench, multihop, qasper
from tamtrl.tasks.folders import kind
from tamtrl.tasks.ruler import running_text


def test_a_member_of_a_folder_and_of_a_plain_file(tmp_path):
    """Splits that lie side by side are never mixed, and none is read in another's place."""
    for number, name in enumerate(("train.json", "dev.json")):
        (tmp_path / name).write_text(json.dumps([hotpot_record(number)]))
    assert [one.id for one in multihop.load(tmp_path, "2wikimultihopqa", "dev.json")] == ["q1"]
    assert [one.id for one in multihop.load(tmp_path / "dev.json", "2wikimultihopqa", "data/dev.json")] == ["q1"]
    with pytest.raises(UserError, match=r"train.json is one file and not dev.json; give that file, its folder"):
        multihop.load(tmp_path / "train.json", "2wikimultihopqa", "dev.json")
    with pytest.raises(UserError, match=r"holds no test.json; it holds dev.json, train.json"):
        multihop.load(tmp_path, "2wikimultihopqa", "test.json")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "dev.json").write_text("[]")
    with pytest.raises(UserError, match=r"holds dev.json, more/dev.json; say which"):
        multihop.load(tmp_path, "2wikimultihopqa", "dev.json")
    papers = tmp_path / "papers"
    papers.mkdir()
    (papers / "qasper-dev-v0.3.json").write_text(json.dumps([paper([annotation(yes_no=True)])]))
    (papers / "qasper-train-v0.3.json").write_text("[1]")
    assert len(list(qasper.load(papers, "x", "qasper-dev-v0.3.json"))) == 1


def test_a_folder_is_read_whole_or_says_what_it_left_out(tmp_path):
    inside, elsewhere = tmp_path / "inside", tmp_path / "elsewhere"
    inside.mkdir()
    elsewhere.mkdir()
    (inside / "A.JSON").write_text("[1]")
    (inside / "b.ndjson").write_text("{}")
    (elsewhere / "c.json").write_text("[3]")
    (inside / "link").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(inside)  # a loop
    assert content(inside) == [1, {}, 3]
    (inside / "README.md").write_text("Words.")
    (inside / "d.json.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    (inside / "e.zip").write_bytes(b"PK\x05\x06")
    os.mkfifo(inside / "f.json")
    with pytest.warns(DataWarning, match=r"inside: d.json.zst, e.zip, f.json left out, being no files"):
        assert content(inside) == [1, {}, 3]


def test_a_part_of_a_numbered_set_is_refused(tmp_path):
    for number in (0, 1):
        (tmp_path / f"train-{number:05}-of-00003.json").write_text("[1]")
    with pytest.raises(UserError, match=r"holds 2 of 3 files train-…; get all of them"):
        content(tmp_path)
    (tmp_path / "train-00002-of-00003.json").write_text("[1]")
    assert content(tmp_path) == [1, 1, 1]


def test_longbench_in_two_files_and_beside_hidden_ones(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder, hidden = tmp_path / "qasper", tmp_path / ".cache"
    folder.mkdir()
    hidden.mkdir()
    (hidden / "qasper.jsonl").write_text("junk")
    for number in (0, 1):
        pq.write_table(pa.Table.from_pylist([row(number)]), folder / f"test-0000{number}-of-00002.parquet")
    assert [one.question for one in longbench.load(tmp_path, "qasper", "x")] == ["Question 0?", "Question 1?"]
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("__MACOSX/data/qasper.jsonl", "junk")
        archive.writestr("x/data/qasper.jsonl", json.dumps(row(0)))
    assert len(list(longbench.load(tmp_path / "data.zip", "qasper", "x"))) == 1


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    for path, message in (
        (tmp_path / "pipe.json", "is a pipe or a device, not a file; save what it gives"),
        (tmp_path / ("x" * 300), r"can't be read \(File name too long\)"),
        (tmp_path / "nowhere" / "a.json", "does not exist"),
    ):
        for read in (content, multihop.load, running_text, lambda path: list(longbench.load(path, "qasper", "x"))):
            with pytest.raises(UserError, match=message):
                read(path)
    with pytest.raises(UserError, match="is a pipe or a device"):
        content(tmp_path, "pipe.json")


def test_names_of_any_bytes_are_shown_on_one_line(tmp_path):
    code = "import sys; from tamtrl.cli import main; sys.exit(main(sys.argv[1:]))"
    odd = os.fsencode(tmp_path) + b"/\xff\n\xfe.json"
    arguments = [sys.executable, "-c", code, "prepare-qasper", b"--source", odd, "--output", tmp_path / "x", "--benchmark", "x"]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.endswith("/\\udcff\\n\\udcfe.json does not exist.\n")
    names = ["\udcff\n" + "x" * 90_000 + str(number) + ".json" for number in range(30)]
    path = tar(tmp_path / "a.tgz", dict.fromkeys(names, "[1]"))
    with pytest.raises(UserError, match=r"a.tgz holds \\udcff\\nx+…x+0.json, .* and 10 more; say which") as caught:
        content(path)
    assert len(str(caught.value)) < 2500 and str(caught.value).isprintable()


def test_what_else_is_printed_may_hold_any_bytes_too(monkeypatch):
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert cli.main(["prepare-qasper", "--source", "nowhere", "--output", "x", "--benchmark", "x"]) == 2
    print("\udcff é", flush=True)
    assert sys.stdout.buffer.getvalue() == b"\\udcff \xc3\xa9\n"


@pytest.mark.parametrize(
    ("name", "found"),
    [("a.jsonl.gz", ".jsonl"), ("x.txt.json", ".json"), ("essay.txt.x", ".txt"), ("A.NDJSON", ".ndjson"), ("a.gz", "")],
)
def test_the_last_suffix_that_says_something_counts(name, found):
    assert kind(name) == found


def test_names_of_members_and_not_of_archives_say_what_is_inside(tmp_path):
    """A mapping of mappings is one record in JSON lines, and many in JSON."""
    with zipfile.ZipFile(tmp_path / "x.jsonl.zip", "w") as archive:
        archive.writestr("hotpot.json", '{"a": {"b": 1}, "c": {"b": 2}}')
    assert len(content(tmp_path / "x.jsonl.zip")) == 2
    (tmp_path / "x.jsonl").write_text('{"a": {"b": 1}, "c": {"b": 2}}')
    assert len(content(tmp_path / "x.jsonl")) == 1


@pytest.mark.parametrize("text", ["Rar! he cried.", "BZh is no word.", "<i>Slanted</i> words."])
def test_innocent_text(tmp_path, text):
    (tmp_path / "essay.txt").write_text(text)
    assert running_text(tmp_path / "essay.txt") == text
    with zipfile.ZipFile(tmp_path / "essay.zip", "w") as archive:
        archive.writestr("essay.txt", text)
    assert running_text(tmp_path / "essay.zip") == text
    (tmp_path / "x.txt.json").write_text(json.dumps([text]))
    assert running_text(tmp_path / "x.txt.json") == text
