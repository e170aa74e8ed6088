"""Records of public data files, read by ourselves: no loading script is run, and no types are guessed from the first rows
(lists of [title, number] and values that are null at first break Arrow's JSON reader)."""

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tamtrl.errors import UserError, shown
from tamtrl.tasks.containers import PARQUET, damaged, head, opened, same_name
from tamtrl.tasks.folders import LINES, data_files, is_folder, kind, one_file
from tamtrl.tasks.json_text import MAX_RECORD, json_records, too_long

BATCH_ROWS = 64
BATCH_BYTES = 1 << 26  # a batch of parquet is as many rows as would take these, were each as large as all of its group
BOMB = 200  # times as large as its file; text shrinks to a third


class Place(str):
    """Where a record stands, and in which ``file``."""

    file: str

    def __new__(cls, file: str, part: str) -> "Place":
        place = super().__new__(cls, f"{file} {part}")
        place.file = file
        return place


def records(path: str | Path, member: str | None = None) -> Iterator[tuple[Place, Any]]:
    """(where it stands, record) for each record, streamed; all of it is sound only once the last was read.

    JSON holds a list, or a mapping whose keys become the records' ``id``, or records one after the other (JSON lines). Of an
    archive or a folder one ``member`` is read; when None, an archive's only data file, and every one of a folder in name order.
    """
    path = Path(path)
    if not is_folder(path):
        yield from _file(path, member)
    elif member is not None:
        yield from _file(one_file(path, member), None)
    else:
        for file in data_files(path):
            yield from _file(file, None)


def _file(path: Path, member: str | None) -> Iterator[tuple[Place, Any]]:
    if head(path, 4) == PARQUET:
        same_name(path, member)
        yield from _parquet(path)
        return
    with opened(path, member) as (where, name, stream):
        for place, record in json_records(stream, where, lines=kind(name) in LINES):
            yield Place(where, place), record


def _parquet(path: Path) -> Iterator[tuple[Place, Any]]:
    numbers = itertools.count(1)
    try:
        with path.open("rb") as stream, pq.ParquetFile(stream, page_checksum_verification=True) as file:
            if twice := _twice(file.schema_arrow):
                raise UserError(f"{path} has two columns called {shown(twice, 80)}; which of them is right?")
            for number in range(file.num_row_groups):
                group = file.metadata.row_group(number)
                # Of the group as a whole: asked for a column's sizes, Arrow ends the process where their place is damaged.
                if group.total_byte_size > max(BATCH_BYTES, BOMB * path.stat().st_size):
                    raise UserError(f"{path} holds {group.total_byte_size:,} bytes of next to nothing; is it data?")
                rows = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, group.total_byte_size)))
                for batch in file.iter_batches(rows, row_groups=[number]):
                    if batch.nbytes > MAX_RECORD and any(batch.slice(n, 1).nbytes > MAX_RECORD for n in range(len(batch))):
                        raise too_long(f"A record of {path} after row {next(numbers) - 1}")
                    yield from [(Place(str(path), f"row {next(numbers)}"), row) for row in batch.to_pylist()]
            # Pages have checksums, the list of them has none.
            if (last := next(numbers) - 1) != file.metadata.num_rows:
                raise ValueError(f"{last} rows of {file.metadata.num_rows}")
    except Exception as error:  # Arrow's own, OSError, UnicodeDecodeError, MemoryError
        raise damaged(path, error) from None


def _twice(fields: pa.Schema | pa.StructType) -> str | None:
    """A name that two fields beside each other have, at whatever depth."""
    fields = list(fields)
    named = Counter(field.name for field in fields)
    for field in fields:
        if named[field.name] > 1:
            return field.name
        inner = field.type
        while pa.types.is_list(inner) or pa.types.is_large_list(inner):
            inner = inner.value_type
        if pa.types.is_struct(inner) and (found := _twice(inner)):
            return found
    return None
