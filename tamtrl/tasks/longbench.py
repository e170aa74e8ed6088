"""LongBench (v1) question answering from its zip, a folder, or a single file; no loading script is ever run.

Rows have ``input`` (the question), ``context``, ``answers`` (alternatives: annotators and aliases), ``dataset``, ``_id``.
"""

from collections.abc import Iterator
from pathlib import Path

from tamtrl.errors import UserError
from tamtrl.tasks.example import Example
from tamtrl.tasks.records import records

# LongBench's own names; "_e" is LongBench-E, which has no NarrativeQA and no MuSiQue.
CONFIGS = ("narrativeqa", "qasper", "2wikimqa", "musique", "hotpotqa", "qasper_e", "2wikimqa_e", "hotpotqa_e")
ABSENT = {"narrativeqa_e", "musique_e"}


def load(source: Path, config: str, benchmark: str) -> Iterator[Example]:
    """The examples of one data set, in file order, ids checked to be unique."""
    if config in ABSENT:
        raise UserError(f"LongBench has no {config}: LongBench-E leaves NarrativeQA and MuSiQue out.")
    if config not in CONFIGS:
        raise UserError(f"Unknown LongBench data set {config!r}; there are {', '.join(CONFIGS)}.")
    file = _inside(source, config) if source.is_dir() else source
    seen: set[str] = set()
    for where, row in records(file, f"data/{config}.jsonl"):
        example = _example(row, where, config, benchmark)
        if example.id in seen:
            raise UserError(f"{where}: id {example.id} appears twice.")
        seen.add(example.id)
        yield example


def _example(row: object, where: str, config: str, benchmark: str) -> Example:
    try:
        identifier, question, context = str(row["_id"]), row["input"].strip(), row["context"]
        answers, dataset = list(row["answers"]), row["dataset"]
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{where} is not a LongBench row ({type(error).__name__}: {error}).") from None
    if dataset != config:
        raise UserError(f"{where} belongs to {dataset!r}, not to {config!r}; is a wrong file cached under this name?")
    # Annotators repeat each other, with and without a trailing space.
    answers = list(dict.fromkeys(stripped for answer in answers if (stripped := answer.strip())))
    return Example(identifier, question, context, (), tuple(answers), "alternatives", benchmark)


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
