"""HotpotQA records, official or the hub's layout, and 2WikiMultihopQA's, which have the same keys.

Only the distractor setting will do: the teacher needs the annotated supporting paragraphs, and in the fullwiki setting
they are often missing from the context.
"""

import warnings
from typing import Annotated

from pydantic import AliasChoices, Field

from tamtrl.errors import DataWarning, UserError
from tamtrl.tasks.example import has_text
from tamtrl.tasks.questions import Question
from tamtrl.tasks.typed import ListOf, Pair, Record, Text, decoded, derived_id, table


class Paragraph(Pair):
    title: str
    sentences: ListOf[str]


class Fact(Pair):
    title: str
    sent_id: int


class HotpotQA(Record):
    id: Text = Field("", validation_alias=AliasChoices("_id", "id"))
    question: Text
    answer: Text
    context: Annotated[ListOf[Paragraph], table("title", "sentences")]
    supporting_facts: Annotated[ListOf[Fact], table("title", "sent_id"), Field(min_length=1)]


class TwoWiki(HotpotQA):
    answer_id: str | None = None  # of Wikidata; only the archive with ids has it, and only for answers that are entities


def parse(record: object, where: str, model: type[HotpotQA] = HotpotQA, aliases: dict[str, list[str]] | None = None) -> Question:
    """One record of either layout. ``where`` starts every error message; ``aliases``: further answers, by the answer's id."""
    row = decoded(model, record, "a labelled record of HotpotQA's layout", where)
    # Sentences carry their own leading space, and some are empty: join with nothing between them.
    paragraphs = tuple(f"{one.title}\n{''.join(one.sentences)}" for one in row.context)
    lengths: dict[str, int] = {}
    for one in row.context:
        lengths[one.title] = max(len(one.sentences), lengths.get(one.title, 0))
    # Titles are compared as they stand: HTML entities occur in both places alike.
    titles = {fact.title for fact in row.supporting_facts}
    identifier = row.id or derived_id(row.question, row.answer, paragraphs)
    if missing := sorted(titles - set(lengths)):
        raise UserError(
            f"{where}: question {identifier} lacks its supporting paragraph {missing[0]!r}. This looks like the fullwiki "
            "setting; give the distractor file (hotpot_train_v1.1.json, hotpot_dev_distractor_v1.json)."
        )
    if any(not 0 <= fact.sent_id < lengths[fact.title] for fact in row.supporting_facts):  # said once, by Python's own filter
        warnings.warn(
            "Some supporting facts name a sentence that their paragraph does not have. Whole paragraphs are used, so "
            "nothing is lost.",
            DataWarning,
            stacklevel=1,
        )
    # Facts name titles. One that stands twice in a context can't be told apart by them: both paragraphs support.
    supporting = frozenset(index for index, one in enumerate(row.context) if one.title in titles)
    known = (aliases or {}).get(getattr(row, "answer_id", None) or "", [])
    answers = dict.fromkeys(answer.strip() for answer in (row.answer, *known) if has_text(answer))
    return Question(identifier, row.question.strip(), tuple(answers), paragraphs, supporting)
