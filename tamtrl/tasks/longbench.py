"""LongBench (v1) question answering from its zip, a folder, or a single file; no loading script is ever run.

Rows have ``input`` (the question), ``context``, ``answers`` (alternatives: annotators and aliases), ``dataset``, ``_id``.
"""

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from tamtrl.errors import UserError
from tamtrl.tasks.containers import members
from tamtrl.tasks.example import Example, has_text
from tamtrl.tasks.folders import files, is_folder, whole_sets
from tamtrl.tasks.records import records
from tamtrl.tasks.typed import ListOf, Record, Text, decoded, derived_id, sound, unique

# LongBench's own names; "_e" is LongBench-E, which has no NarrativeQA and no MuSiQue.
CONFIGS = ("narrativeqa", "qasper", "2wikimqa", "musique", "hotpotqa", "qasper_e", "2wikimqa_e", "hotpotqa_e")
ABSENT = {"narrativeqa_e", "musique_e"}


class Row(Record):
    id: Text = Field("", validation_alias="_id")
    input: Text
    context: Text
    answers: ListOf[str]
    dataset: str


def load(source: Path, config: str, benchmark: str) -> Iterator[Example]:
    """The examples of one data set, in file order, ids are unique."""
    if config in ABSENT:
        raise UserError(f"LongBench has no {config}: LongBench-E leaves NarrativeQA and MuSiQue out.")
    if config not in CONFIGS:
        raise UserError(f"Unknown LongBench data set {config!r}; there are {', '.join(CONFIGS)}.")
    found = _inside(source, config) if is_folder(source) else [source]
    what = f"a row of LongBench's {config}"

    def example(record: object, where: str) -> Example:
        row = decoded(Row, record, what, where)
        if row.dataset != config:
            raise UserError(f"{where} belongs to {row.dataset!r}, not to {config!r}; is a wrong file cached under this name?")
        # Annotators repeat each other, with and without a trailing space.
        answers = dict.fromkeys(answer.strip() for answer in row.answers if has_text(answer))
        identifier = row.id or derived_id(row.input, row.context)
        return Example(identifier, row.input.strip(), row.context, (), tuple(answers), "alternatives", benchmark)

    # A single file may be called anything: its rows say which data set they are of.
    rows = (row for file in found for row in records(file, f"data/{config}.jsonl" if members(file) else None))
    yield from sound(rows, unique(example), source, "rows")


def _inside(folder: Path, config: str) -> list[Path]:
    """The files of a data set in a folder: data.zip, or NAME.jsonl or parquet files at whatever depth."""
    names = (f"{config}.jsonl", f"longbench_{config}.jsonl", f"{config}.parquet")
    every = files(folder)
    if found := [path for path in every if path.name in names]:
        shards = []
    else:
        found = shards = [path for path in every if path.suffix == ".parquet" and path.parent.name == config]
    if not found and folder / "data.zip" in every:
        return [folder / "data.zip"]
    if len({path.parent for path in shards}) > 1 or (len(found) != 1 and not shards):
        what = f"{len(found)} files" if found else "no file"
        raise UserError(f"Folder {folder} holds {what} for {config}; looked for data.zip, {', '.join(names)}.")
    whole_sets(folder, shards)
    return found
