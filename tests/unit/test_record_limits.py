"""Files that are small and ask for much: what they may take, and the sentence where they take more; all made up."""

import bz2
import gzip
import io
import json
import lzma
import subprocess
import sys
import tarfile
import time
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import REPOSITORY, hotpot_record
from test_records import content

from tamtrl.errors import UserError
from tamtrl.tasks import example, hotpotqa, json_text, multihop, records
from tamtrl.tasks.example import write_examples


@pytest.mark.parametrize(("compress", "padding"), [(gzip.compress, 4), (bz2.compress, 0), (lzma.compress, 4)])
def test_every_stream_of_a_compressed_file_counts(tmp_path, compress, padding):
    parts = [compress(b"[1]"), bytes(padding), compress(b"[2]"), bytes(padding)]
    path = tmp_path / "a.json"
    path.write_bytes(b"".join(parts))
    assert content(path) == [1, 2]
    second = bytearray(parts[2])
    second[len(second) // 2] ^= 0x55
    for damaged in (
        [*parts[:2], bytes(second)],  # Python's readers of bzip2 and xz end with the first stream where the second is no stream
        [*parts[:2], b"\0garbage" + parts[2]],
        [*parts, b"garbage"],
        [*parts[:2], parts[2][:-4]],
    ):
        path.write_bytes(b"".join(damaged))
        with pytest.raises(UserError, match=r"a.json is damaged \(.*\); is the download complete"):
            content(path)
    if compress is lzma.compress:
        path.write_bytes(parts[0] + bytes(3) + parts[2])
        with pytest.raises(UserError, match="zeros between streams that are no multiple of four"):
            content(path)


def test_a_record_has_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(json_text, "MAX_RECORD", 1 << 20)
    monkeypatch.setattr(records, "MAX_RECORD", 1 << 20)
    path = tmp_path / "a.json"
    path.write_bytes(gzip.compress(b'["x", "' + b" " * (5 << 20) + b'"]', 1))
    with pytest.raises(UserError, match=r"What follows record 1 of .*a.json takes more than 1 MiB; a record is one question"):
        content(path)
    path.write_text(json.dumps(["x" * (1 << 19)] * 8))  # more than that together
    assert len(content(path)) == 8
    pq.write_table(pa.Table.from_pylist([{"a": "x"}, {"a": "y" * (2 << 20)}]), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"A record of .*a.parquet after row 0 takes more than 1 MiB"):
        content(tmp_path / "a.parquet")


def test_long_texts_take_time_in_proportion(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('["' + "x\\n" * (3 << 20) + '"]')
    began = time.process_time()
    assert len(content(path)[0]) == 6 << 20
    assert time.process_time() - began < 3, "6 s in blocks of 64 KiB"


def test_a_small_parquet_file_takes_little_memory(tmp_path):
    path = tmp_path / "a.parquet"
    text = "x" * (3 << 20)
    pq.write_table(pa.table({"a": pa.array([text] * 64)}), path, compression="zstd")
    assert path.stat().st_size < 20_000
    tracemalloc.start()
    assert sum(len(row["a"]) for _, row in records.records(path)) == 64 * len(text)
    assert tracemalloc.get_traced_memory()[1] < 100 << 20, "192 MiB as one batch"
    tracemalloc.stop()
    pq.write_table(pa.table({"a": pa.array(["x" * (65 << 20)])}), path, compression="zstd")
    with pytest.raises(UserError, match="bytes of next to nothing; is it data"):
        content(path)


def test_row_groups_of_our_own_files_are_bounded_by_text(tmp_path, monkeypatch):
    monkeypatch.setattr(example, "BATCH_TEXT", 100)
    made = [example.Example(str(n), "q?", "x" * 60, (), ("a",), "alternatives", "x") for n in range(5)]
    assert write_examples(tmp_path / "a.parquet", made) == 5
    assert [pq.read_metadata(tmp_path / "a.parquet").row_group(n).num_rows for n in range(3)] == [2, 2, 1]
    assert list(example.ExampleFile(tmp_path / "a.parquet")) == made


def test_wrong_items_are_named_once(tmp_path):
    """A million errors took 5 GB."""
    record = hotpot_record(1)
    record["context"][0][1] = [None] * 200_000
    record["context"] += [None] * 200_000
    tracemalloc.start()
    with pytest.raises(UserError, match=r"context\[0\].sentences\[0\] is null"):
        hotpotqa.parse(record, "here")
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()


def test_numbers_of_any_size_in_fields_that_are_ignored(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(
        json.dumps([hotpot_record(1)]).replace("[{", '[{"x": [1e999, -1E400, 123456789012345678901234567890, 1.5], ', 1)
    )
    assert content(path)[0]["x"] == [float("inf"), -float("inf"), 123456789012345678901234567890, 1.5]
    assert len(multihop.load(path)) == 1


def test_too_little_memory_is_one_sentence(tmp_path, monkeypatch):
    def fail(*arguments):
        raise MemoryError

    path = tmp_path / "a.json"
    path.write_text('[{"a": 1}]')
    monkeypatch.setattr(json_text, "_value", fail)
    with pytest.raises(UserError, match=r"a.json takes more memory than there is after record 0"):
        content(path)
    monkeypatch.setattr(json_text._Unicode, "read", fail)
    with pytest.raises(UserError, match=r"a.json takes more memory than there is after record 0"):
        content(path)


def test_the_parser_is_the_same_whatever_the_environment(tmp_path):
    code = "from tamtrl.tasks import json_text; print(json_text.YAJL.backend_name)"
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, env={"IJSON_BACKEND": "python"}, capture_output=True, text=True, check=True
    )
    assert told.stdout == "yajl2_c\n"


def test_headers_of_a_tar_are_bounded(tmp_path):
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 1 << 32
    (tmp_path / "a.tar").write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(10240))
    with pytest.raises(UserError, match=r"a.tar is damaged \(one of its headers has 4294967296 bytes\)"):
        content(tmp_path / "a.tar")


def test_white_space_before_the_first_record(tmp_path):
    (tmp_path / "a.json").write_text(" \n" * 10_000 + "[7]")
    assert content(tmp_path / "a.json") == [7]


def test_what_is_packed_twice(tmp_path):
    inner = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), inner)
    for name, data in (("dev.json", gzip.compress(b"[1]")), ("dev.json", inner.getvalue())):
        with tarfile.open(tmp_path / "a.tar", "w") as archive:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        with pytest.raises(UserError, match=r"a.tar:dev.json is parquet or packed once more, .* unpack a.tar and give that file"):
            content(tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("dev.parquet"))
    with pytest.raises(UserError, match=r"a.tar holds no data file; it holds dev.parquet"):
        content(tmp_path / "a.tar")
