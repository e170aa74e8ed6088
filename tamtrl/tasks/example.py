"""The one record every task produces and every reader consumes, and its parquet file."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tamtrl import files
from tamtrl.errors import UserError

ANSWER_MODES = ("alternatives", "conjunctive")

BATCH_TEXT = 1 << 25  # characters of a row group, beside its number of rows


def has_text(text: str) -> bool:
    """Whether there is anything to see: no text of spaces, control characters and marks of no width (U+200B, U+FEFF) alone."""
    return any(unicodedata.category(character) not in ("Cc", "Cf", "Zl", "Zp", "Zs") for character in text)


# Explicit, because inferred types differ between files (an empty list has none) and then refuse to be joined.
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("question", pa.string(), nullable=False),
        pa.field("context", pa.large_string(), nullable=False),
        pa.field("relevant_spans", pa.list_(pa.struct([("start", pa.int64()), ("stop", pa.int64())])), nullable=False),
        pa.field("answers", pa.list_(pa.string()), nullable=False),
        pa.field("answer_mode", pa.string(), nullable=False),
        pa.field("benchmark", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Example:
    """One question over one document.

    ``relevant_spans`` are half-open character ranges of ``context``, sorted and disjoint: the annotated relevant
    paragraphs (the teacher's view). ``answer_mode`` says whether ``answers`` are alternatives (any one is right) or
    conjunctive (all are asked for).
    """

    id: str
    question: str
    context: str
    relevant_spans: tuple[tuple[int, int], ...]
    answers: tuple[str, ...]
    answer_mode: str
    benchmark: str

    def __post_init__(self) -> None:
        where = f"example {self.id!r} of {self.benchmark}"
        if not has_text(self.question) or not has_text(self.context):
            raise UserError(f"{where} has an empty question or context.")
        if not self.answers:
            raise UserError(f"{where} has no answer; unlabelled test sets can't be used.")
        if not all(map(has_text, self.answers)):
            raise UserError(f"{where} has an empty answer, which any text would contain.")
        if self.answer_mode not in ANSWER_MODES:
            raise UserError(f"{where}: answer_mode {self.answer_mode!r} is not one of {', '.join(ANSWER_MODES)}.")
        end = 0
        for start, stop in self.relevant_spans:
            if not end <= start < stop <= len(self.context):
                raise UserError(f"{where}: relevant span {start}:{stop} is empty, overlapping or outside the context.")
            end = stop


def write_examples(path: str | Path, examples: Iterable[Example], batch: int = 256) -> int:
    """Write examples as they come (memory stays flat); returns how many. The file appears only when complete."""
    count, size = 0, 0
    rows: list[dict[str, Any]] = []
    with (
        files.whole(path) as temporary,
        pq.ParquetWriter(temporary, SCHEMA, compression="zstd", write_page_checksum=True) as writer,
    ):

        def flush() -> None:
            writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
            rows.clear()

        for example in examples:
            spans = [{"start": start, "stop": stop} for start, stop in example.relevant_spans]
            rows.append(vars(example) | {"relevant_spans": spans, "answers": list(example.answers)})
            count, size = count + 1, size + len(example.context)
            if len(rows) == batch or size > BATCH_TEXT:
                flush()
                size = 0
        if rows:
            flush()
        if not count:
            raise UserError(f"Nothing to write to {path}: the source gave no example.")
    return count


class ExampleFile(Sequence[Example]):
    """Random access to a written file; the table is read on first use and kept."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        if not self.path.exists():
            raise UserError(f"Data file {path} does not exist.")

    @cached_property
    def _table(self) -> pa.Table:
        try:
            table = pq.read_table(self.path, page_checksum_verification=True)
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{self.path} is not a readable parquet file ({error}).") from None
        if not table.schema.equals(SCHEMA):
            raise UserError(f"{self.path} does not have the columns of an Example file; prepare it again.")
        return table

    def __len__(self) -> int:
        return self._table.num_rows

    def __getitem__(self, index: int) -> Example:  # type: ignore[override]  # nobody needs slices
        if not 0 <= index < len(self):
            raise IndexError(index)
        row = self._table.slice(index, 1).to_pylist()[0]
        spans = tuple((span["start"], span["stop"]) for span in row["relevant_spans"])
        return Example(**row | {"relevant_spans": spans, "answers": tuple(row["answers"])})
