"""LongBench (v1) question answering from its zip, a folder, or a single file; no loading script is ever run.

Rows have ``input`` (the question), ``context``, ``answers`` (alternatives: annotators and aliases), ``dataset``, ``_id``.
"""

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from tamtrl.errors import UserError
from tamtrl.tasks.example import Example
from tamtrl.tasks.records import records
from tamtrl.tasks.typed import Record, Text, decoded, derived_id, sound, unique

# LongBench's own names; "_e" is LongBench-E, which has no NarrativeQA and no MuSiQue.
CONFIGS = ("narrativeqa", "qasper", "2wikimqa", "musique", "hotpotqa", "qasper_e", "2wikimqa_e", "hotpotqa_e")
ABSENT = {"narrativeqa_e", "musique_e"}


class Row(Record):
    id: Text = Field("", validation_alias="_id")
    input: Text
    context: Text
    answers: list[str]
    dataset: str


def load(source: Path, config: str, benchmark: str) -> Iterator[Example]:
    """The examples of one data set, in file order, ids are unique."""
    if config in ABSENT:
        raise UserError(f"LongBench has no {config}: LongBench-E leaves NarrativeQA and MuSiQue out.")
    if config not in CONFIGS:
        raise UserError(f"Unknown LongBench data set {config!r}; there are {', '.join(CONFIGS)}.")
    file = _inside(source, config) if source.is_dir() else source
    what = f"a row of LongBench's {config}"

    def example(record: object, where: str) -> Example:
        row = decoded(Row, record, what, where)
        if row.dataset != config:
            raise UserError(f"{where} belongs to {row.dataset!r}, not to {config!r}; is a wrong file cached under this name?")
        # Annotators repeat each other, with and without a trailing space.
        answers = dict.fromkeys(text for answer in row.answers if (text := answer.strip()))
        identifier = row.id or derived_id(row.input, row.context)
        return Example(identifier, row.input.strip(), row.context, (), tuple(answers), "alternatives", benchmark)

    yield from sound(records(file, f"data/{config}.jsonl"), unique(example), file, "rows")


def _inside(folder: Path, config: str) -> Path:
    """The one file of a data set in a folder: data.zip, or NAME.jsonl or parquet files at whatever depth."""
    names = (f"{config}.jsonl", f"longbench_{config}.jsonl", f"{config}.parquet")
    found = sorted(p for p in folder.rglob("*") if p.name in names or (p.suffix == ".parquet" and p.parent.name == config))
    if not found and (folder / "data.zip").exists():
        return folder / "data.zip"
    if len(found) != 1:
        what = f"{len(found)} files" if found else "no file"
        raise UserError(f"Folder {folder} holds {what} for {config}; looked for data.zip, {', '.join(names)}.")
    return found[0]
