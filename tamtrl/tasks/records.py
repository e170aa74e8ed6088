"""Records of public data files, read by ourselves: no loading script is run, and no types are guessed from the first rows
(lists of [title, number] and values that are null at first break Arrow's JSON reader)."""

import io
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ijson
import pyarrow.parquet as pq

from tamtrl.errors import UserError
from tamtrl.tasks.containers import damaged, head, hidden, opened

SUFFIXES = (".parquet", *(f"{kind}{packed}" for kind in (".json", ".jsonl") for packed in ("", ".gz", ".bz2", ".xz")))
MAX_DEPTH = 64  # of lists and mappings within each other; the deepest public layout (Qasper on the hub) has 8
PARQUET = b"PAR1"


class TwoValues:
    """Stands for the value of a key that a mapping has twice: of no type that a field may have."""


def records(path: str | Path, member: str | None = None) -> Iterator[tuple[str, Any]]:
    """(where it stands, record) for each record, streamed; all of it is sound only once the last was read.

    JSON holds a list, or a mapping whose keys become the records' ``id``, or records one after the other (JSON lines). Of an
    archive one ``member`` is read (the only data file when None), of a folder every data file in name order.
    """
    path = Path(path)
    if path.is_dir():
        found = (p for p in path.rglob("*") if p.name.endswith(SUFFIXES) and not p.is_dir())
        inside = sorted(p for p in found if not hidden(p.relative_to(path)))
        if not inside:
            raise UserError(f"Folder {path} holds no .json, .jsonl or .parquet file.")
        for file in inside:
            yield from records(file)
    elif not path.exists():
        raise UserError(f"Data file {path} does not exist.")
    elif head(path, 4) == PARQUET:
        yield from _parquet(path)
    else:
        with opened(path, member) as (where, stream):
            yield from _json(stream, where)


def _parquet(path: Path) -> Iterator[tuple[str, Any]]:
    numbers = itertools.count(1)
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(64):
                yield from [(f"{path} row {next(numbers)}", row) for row in batch.to_pylist()]
            # Pages have checksums, the list of them has none.
            if (last := next(numbers) - 1) != file.metadata.num_rows:
                raise ValueError(f"{last} rows of {file.metadata.num_rows}")
    except Exception as error:  # Arrow's own, OSError, UnicodeDecodeError, MemoryError
        raise damaged(path, error) from None


def plain_text(stream: io.BufferedReader, where: str) -> bytes:
    """The first bytes of UTF-8 text, whose stream is left just behind a byte order mark. What is something else is refused."""
    if stream.peek(3).startswith(b"\xef\xbb\xbf"):
        stream.read(3)
    start = stream.peek(4096)[:4096]
    if not start:
        raise UserError(f"{where} is empty.")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in start:
        raise UserError(f"{where} is not UTF-8 text but UTF-16 or binary; save it as UTF-8.")
    if start.lstrip()[:1] == b"<":
        raise UserError(f"{where} is a web page, not data: an error, a licence or a quota notice was saved under its name.")
    return start


def _json(stream: io.BufferedReader, where: str) -> Iterator[tuple[str, Any]]:
    start = plain_text(stream, where)
    if start.lstrip()[:1] not in (b"[", b"{"):
        raise UserError(f"{where} is not valid JSON: it must begin with [ or {{.")
    done = 0
    try:
        events = ijson.basic_parse(_Unicode(stream, where), use_float=True, multiple_values=True)
        for place, record in _values(events, lines=".jsonl" in Path(where).suffixes):
            yield f"{where} {place}", record
            done += 1
    except (ijson.JSONError, UnicodeDecodeError) as error:
        first = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        reason = first.strip().splitlines()[0]
        if "UTF8" in reason or isinstance(error, UnicodeDecodeError):
            raise UserError(f"{where} is not UTF-8 text (after record {done}); save it as UTF-8.") from None
        raise UserError(f"{where} is not valid JSON after record {done} ({reason}); is the download complete?") from None
    except RecursionError:
        raise UserError(f"{where} nests deeper than {MAX_DEPTH} levels after record {done}; no known layout does.") from None
    while stream.read(1 << 20):
        pass


def _values(events: Iterator, lines: bool) -> Iterator[tuple[str, Any]]:
    """The records among the events of one or more JSON values: the items of the first if it is a list, its entries if it is a
    mapping of mappings, else the values themselves."""
    numbers, first = itertools.count(1), True
    for event, value in events:
        if event == "start_array" and first and not lines:
            for event, value in events:
                if event == "end_array":
                    break
                yield f"record {next(numbers)}", _value(event, value, events)
        elif event == "start_map" and first and not lines:
            # A record begins with its id or text, a mapping of records with a record.
            start = [next(events)]
            start += [next(events)] if start[0][0] == "map_key" else []
            whole = itertools.chain(start, events)
            if start[-1][0] == "start_map":
                yield from _entries(whole)
            else:
                yield f"record {next(numbers)}", _value(event, value, whole)
        else:
            yield f"record {next(numbers)}", _value(event, value, events)
        first = False


def _entries(events: Iterator) -> Iterator[tuple[str, Any]]:
    for event, key in events:
        if event == "end_map":
            return
        record = _value(*next(events), events)
        yield f"entry {' '.join(key.split())[:80]}", {"id": key} | record if isinstance(record, dict) else record


def _value(event: str, value: Any, events: Iterator, depth: int = 1) -> Any:
    if depth > MAX_DEPTH and event in ("start_map", "start_array"):
        raise RecursionError
    if event == "start_map":
        mapping: dict[str, Any] = {}
        for event, key in events:
            if event == "end_map":
                break
            found = _value(*next(events), events, depth + 1)
            mapping[key] = TwoValues() if key in mapping else found
        return mapping
    if event == "start_array":
        return [_value(event, value, events, depth + 1) for event, value in iter(events.__next__, ("end_array", None))]
    return value


class _Unicode:
    """JSON text on its way to the parser, which turns half a surrogate pair into a question mark and says nothing."""

    ESCAPE = re.compile(rb"\\(?:u(?:([dD][89abAB]..)(\\u[dD][c-fC-F]..)?|([dD][c-fC-F]..))|.|\Z)", re.DOTALL)
    LONGEST = 12  # bytes of an escaped pair

    def __init__(self, stream: io.BufferedReader, where: str):
        self.stream, self.where, self.pending = stream, where, b""

    def read(self, size: int = -1) -> bytes:
        block = self.stream.read(max(size, 1 << 16)) if size else b""
        if not size or not (text := self.pending + block):
            return b""
        end = len(text)
        for escape in self.ESCAPE.finditer(text):
            if block and escape.start() > len(text) - self.LONGEST:
                end = escape.start()
                break
            if escape[3] or (escape[1] and not escape[2]):
                half = escape[0][:6].decode(errors="replace")
                raise UserError(f"{self.where} has half a surrogate pair ({half}), which is no character.")
        self.pending = text[end:]
        return text[:end] or self.read(size)
