"""MuSiQue records (official JSON lines, or a copy of them on the hub)."""

from typing import Annotated

from pydantic import Field

from tamtrl.errors import UserError
from tamtrl.tasks.example import has_text
from tamtrl.tasks.questions import Question
from tamtrl.tasks.typed import ListOf, Record, Text, decoded, derived_id, table


class Paragraph(Record):
    title: str
    paragraph_text: str
    is_supporting: bool


class MuSiQue(Record):
    id: Text = ""
    question: Text
    answer: str
    answer_aliases: ListOf[str]
    answerable: bool
    paragraphs: Annotated[ListOf[Paragraph], table("title", "paragraph_text", "is_supporting"), Field(min_length=1)]


def parse(record: object, where: str) -> Question | None:
    """None for a question that its paragraphs can't answer: the full set holds each id twice, once so."""
    row = decoded(MuSiQue, record, "a labelled MuSiQue record", where)
    if not row.answerable:
        return None
    paragraphs = tuple(f"{one.title}\n{one.paragraph_text}" for one in row.paragraphs)
    # By place: half of the questions have two paragraphs of one title.
    supporting = frozenset(index for index, one in enumerate(row.paragraphs) if one.is_supporting)
    identifier = row.id or derived_id(row.question, row.answer, paragraphs)
    if not has_text(row.answer):
        raise UserError(f"{where}: question {identifier} has no gold answer.")
    if not supporting:
        raise UserError(f"{where}: question {identifier} has no supporting paragraph.")
    answers = dict.fromkeys(answer.strip() for answer in (row.answer, *row.answer_aliases) if has_text(answer))
    return Question(identifier, row.question.strip(), tuple(answers), paragraphs, supporting)
