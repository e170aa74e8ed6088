"""Records of public data files, read by ourselves: no loading script is run, and no types are guessed from the first rows
(lists of [title, number] and values that are null at first break Arrow's JSON reader)."""

import json
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

import ijson
import pyarrow as pa
import pyarrow.parquet as pq

from tamtrl.errors import UserError

TEXT = (".json", ".jsonl")
ARCHIVES = (".zip", ".tgz", ".tar")


def records(path: str | Path, member: str | None = None) -> Iterator[tuple[str, object]]:
    """(where it stands, record) for each record, streamed.

    JSON holds a list, or a mapping whose keys become the records' ``id``; JSON lines and parquet one record a row. Of a zip or
    tar archive one ``member`` is read (the only data file when None), of a folder every data file in name order.
    """
    path = Path(path)
    if path.is_dir():
        inside = sorted(p for p in path.rglob("*") if p.suffix in (*TEXT, ".parquet"))
        if not inside:
            raise UserError(f"Folder {path} holds no .json, .jsonl or .parquet file.")
        for file in inside:
            yield from records(file)
    elif not path.exists():
        raise UserError(f"Data file {path} does not exist.")
    elif path.suffix == ".parquet":
        yield from _parquet(path)
    elif path.suffix in ARCHIVES:
        with _member(path, member) as (name, stream):
            yield from _text(stream, f"{path}:{name}")
    else:
        with path.open("rb") as stream:
            yield from _text(stream, str(path))


def _parquet(path: Path) -> Iterator[tuple[str, object]]:
    try:
        for batch in pq.ParquetFile(path).iter_batches(64):
            yield from ((str(path), row) for row in batch.to_pylist())
    except pa.ArrowInvalid as error:
        raise UserError(f"{path} is not a readable parquet file ({error}); is the download complete?") from None


@contextmanager
def _member(path: Path, member: str | None) -> Iterator[tuple[str, BinaryIO]]:
    with ExitStack() as stack:
        try:
            if path.suffix == ".zip":
                archive = stack.enter_context(zipfile.ZipFile(path))
                names, open_member = archive.namelist(), archive.open
            else:
                archive = stack.enter_context(tarfile.open(path))
                names, open_member = archive.getnames(), archive.extractfile
        except (zipfile.BadZipFile, tarfile.ReadError):
            raise UserError(f"{path} is not a {path.suffix[1:]} archive; was an error page saved under its name?") from None
        data = [name for name in names if name.endswith(TEXT) and not Path(name).name.startswith("._")]
        chosen = [name for name in data if member is None or name == member or name.endswith(f"/{member}")]
        if not chosen:
            raise UserError(f"{path} holds no {member or 'data file'}; there are {', '.join(data[:20]) or 'no data files'}.")
        if len(chosen) > 1:
            raise UserError(f"{path} holds {', '.join(chosen[:20])}; say which with `member`.")
        (name,) = chosen
        try:
            yield name, open_member(name)
        except (zipfile.BadZipFile, EOFError) as error:
            raise UserError(f"{path}:{name} is damaged ({error}); is the download complete?") from None


def _text(stream: BinaryIO, where: str) -> Iterator[tuple[str, object]]:
    # Enough to tell the layout; archive members can't be rewound cheaply, so the start is put back in front.
    start = stream.read(4096).removeprefix(b"\xef\xbb\xbf")
    first = start.lstrip()[:1]
    rest = _Joined(start, stream)
    if first == b"<":
        raise UserError(f"{where} is a web page, not data: an error, a licence or a quota notice was saved under its name.")
    if where.endswith(".jsonl"):
        yield from _lines(rest, where)
    elif first in (b"[", b"{"):
        try:
            if first == b"[":
                for number, record in enumerate(ijson.items(rest, "item", use_float=True)):
                    yield f"{where} item {number}", record
            else:
                for key, record in ijson.kvitems(rest, "", use_float=True):
                    yield f"{where} entry {key}", record | {"id": key} if isinstance(record, dict) else record
        except ijson.JSONError as error:
            reason = " ".join(str(error).split())
            raise UserError(f"{where} is not valid JSON ({reason}); is the download complete?") from None
    else:
        raise UserError(f"{where} is not valid JSON: it must begin with [ or {{.")


def _lines(stream: "_Joined", where: str) -> Iterator[tuple[str, object]]:
    # Split at line feeds only: JSON strings may hold other separators as they are.
    for number, line in enumerate(stream.lines(), start=1):
        if not line.strip():
            continue
        try:
            yield f"{where} line {number}", json.loads(line)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise UserError(f"{where} line {number} is not valid JSON ({error}); is the download complete?") from None


class _Joined:
    """Bytes that were read already, then the rest of their stream."""

    def __init__(self, start: bytes, stream: BinaryIO):
        self._start, self._stream = start, stream

    def read(self, size: int = -1) -> bytes:
        if not self._start:
            return self._stream.read(size)
        size = len(self._start) if size < 0 else size
        start, self._start = self._start[:size], self._start[size:]
        return start

    def lines(self) -> Iterator[bytes]:
        pending = b""
        while block := self.read(1 << 20):
            *whole, pending = (pending + block).split(b"\n")
            yield from whole
        yield pending
