"""HotpotQA questions from the official JSON or the hub's layout (JSON, JSON lines, parquet; one file or a folder).

Only the distractor setting will do: the teacher needs the annotated supporting paragraphs, and in the fullwiki setting
they are often missing from the context.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tamtrl import files
from tamtrl.errors import UserError


@dataclass(frozen=True)
class Question:
    """A question with its own paragraphs; ``supporting`` holds their indices, never titles (titles repeat)."""

    id: str
    text: str
    answer: str
    paragraphs: tuple[str, ...]
    supporting: frozenset[int]


def load(path: str | Path) -> list[Question]:
    """All questions of a file or of every data file in a folder (in name order), ids checked to be unique."""
    path = Path(path)
    questions = [parse(record, where) for where, record in _records(path)]
    if not questions:
        raise UserError(f"{path} holds no HotpotQA question.")
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise UserError(f"{path}: question id {question.id} appears twice.")
        seen.add(question.id)
    return questions


def parse(record: object, where: str) -> Question:
    """One record of either layout. ``where`` starts every error message."""
    try:
        identifier = record.get("_id") or record["id"]
        context, facts = record["context"], record["supporting_facts"]
        # The hub keeps dicts of lists where the official file has lists of pairs.
        if isinstance(context, dict):
            context = list(zip(context["title"], context["sentences"], strict=True))
        titles = facts["title"] if isinstance(facts, dict) else [title for title, _ in facts]
        question, answer = record["question"].strip(), record["answer"]
        # Sentences carry their own leading space, and some are empty: join with nothing between them.
        paragraphs = tuple(f"{title}\n{''.join(sentences)}" for title, sentences in context)
        context_titles = [title for title, _ in context]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{where} is not a labelled HotpotQA record ({type(error).__name__}: {error}); the fields question, answer, "
            "context and supporting_facts are needed."
        ) from None
    # Titles are compared as they stand: HTML entities occur in both places alike.
    missing = sorted(set(titles) - set(context_titles))
    if missing:
        raise UserError(
            f"{where}: question {identifier} lacks its supporting paragraph {missing[0]!r}. This looks like the fullwiki "
            "setting; give the distractor file (hotpot_train_v1.1.json, hotpot_dev_distractor_v1.json)."
        )
    if not titles:
        raise UserError(f"{where}: question {identifier} has no supporting facts.")
    # A title that stands twice in one context can't be told apart by its facts: both paragraphs count as supporting.
    supporting = frozenset(index for index, title in enumerate(context_titles) if title in set(titles))
    return Question(str(identifier), question, answer, paragraphs, supporting)


def _records(path: Path) -> Iterator[tuple[str, object]]:
    if path.is_dir():
        inside = sorted(p for p in path.rglob("*") if p.suffix in {".json", ".jsonl", ".parquet"})
        if not inside:
            raise UserError(f"Folder {path} holds no .json, .jsonl or .parquet file.")
        for file in inside:
            yield from _records(file)
    elif not path.exists():
        raise UserError(f"HotpotQA file {path} does not exist.")
    elif path.suffix == ".parquet":
        try:
            table = pq.ParquetFile(path)
        except pa.ArrowInvalid as error:
            raise UserError(f"{path} is not a readable parquet file ({error}).") from None
        for batch in table.iter_batches(1024):
            yield from ((str(path), row) for row in batch.to_pylist())
    elif path.suffix == ".jsonl":
        # Not splitlines, which also splits at separators that stand inside JSON strings.
        for number, line in enumerate(path.read_text().rstrip("\n").split("\n"), start=1):
            try:
                yield f"{path} line {number}", json.loads(line)
            except json.JSONDecodeError as error:
                raise UserError(f"{path} line {number} is not valid JSON ({error}).") from None
    else:
        content = files.read_json(path)
        if not isinstance(content, list):
            raise UserError(f"{path} must hold a JSON list of questions, not {type(content).__name__}.")
        yield from ((f"{path} item {number}", record) for number, record in enumerate(content))
