"""Qasper: questions over whole papers, with the annotators' evidence as relevant text; official or the hub's layout."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tamtrl.errors import UserError
from tamtrl.tasks.example import Example, has_text
from tamtrl.tasks.records import records
from tamtrl.tasks.typed import ListOf, Record, Text, decoded, derived_id, sound, table, unique

SEPARATOR = "\n\n"


class Section(Record):
    section_name: str | None
    paragraphs: ListOf[str]


class Answer(Record):
    unanswerable: bool
    extractive_spans: ListOf[str]
    yes_no: bool | None
    free_form_answer: str
    evidence: ListOf[str]


class Annotation(Record):
    answer: Answer


class Asked(Record):
    question_id: Text = ""
    question: Text
    answers: Annotated[ListOf[Annotation], table("answer")]


class Paper(Record):
    title: str
    abstract: str
    full_text: Annotated[ListOf[Section], table("section_name", "paragraphs"), Field(min_length=1)]
    qas: Annotated[ListOf[Asked], table("question", "answers", optional="question_id")]


def load(path: str | Path, benchmark: str, member: str | None = None) -> Iterator[Example]:
    """One example a question, in file order; ids are unique."""

    def paper(record: object, where: str) -> tuple[str, Paper]:
        return where, decoded(Paper, record, "a labelled Qasper paper", where)

    def asked() -> Iterator[tuple[str, tuple[list[str], Asked]]]:
        for where, one in sound(records(path, member), paper, path, "papers"):
            texts = [one.title, one.abstract, *(t for part in one.full_text for t in (part.section_name or "", *part.paragraphs))]
            pieces = [text for text in texts if has_text(text)]
            yield from ((where, (pieces, question)) for question in one.qas)

    yield from sound(asked(), unique(lambda pair, where: example(pair[0], pair[1], where, benchmark)), path, "questions")


def example(pieces: list[str], asked: Asked, where: str, benchmark: str) -> Example:
    """One question over a paper's ``pieces``. Evidence outside the text (tables, figures) has no span; the question stays."""
    golds = dict.fromkeys(text for one in asked.answers if has_text(text := gold(one.answer)))
    identifier = asked.question_id or derived_id(asked.question, pieces)
    if not golds:
        raise UserError(f"{where}: question {identifier} has no gold answer.")
    evidence = {text for one in asked.answers for text in one.answer.evidence}
    spans, start = [], 0
    for piece in pieces:
        if piece in evidence:
            spans.append((start, start + len(piece)))
        start += len(piece) + len(SEPARATOR)
    return Example(
        identifier, asked.question.strip(), SEPARATOR.join(pieces), tuple(spans), tuple(golds), "alternatives", benchmark
    )


def gold(answer: Answer) -> str:
    """An annotator's answer as text, by the official evaluator's order: unanswerable, extractive spans, free form, yes or no.
    Empty where none is given."""
    if answer.unanswerable:
        return "Unanswerable"
    if answer.extractive_spans:
        return ", ".join(filter(has_text, answer.extractive_spans)).strip()
    if answer.free_form_answer:
        return answer.free_form_answer.strip()
    return {True: "Yes", False: "No", None: ""}[answer.yes_no]
