"""MuSiQue records (official JSON lines, or a copy of them on the hub)."""

from tamtrl.errors import UserError
from tamtrl.tasks.questions import Question


def parse(record: object, where: str) -> Question | None:
    """None for a question that its paragraphs can't answer: the full set holds each id twice, once so."""
    try:
        if not record.get("answerable", True):
            return None
        paragraphs = tuple(f"{p['title']}\n{p['paragraph_text']}" for p in record["paragraphs"])
        # By place: half of the questions have two paragraphs of one title.
        supporting = frozenset(index for index, p in enumerate(record["paragraphs"]) if p["is_supporting"])
        answers = dict.fromkeys(answer.strip() for answer in (record["answer"], *record.get("answer_aliases", [])))
        question = Question(str(record["id"]), record["question"].strip(), tuple(answers), paragraphs, supporting)
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{where} is not a labelled MuSiQue record ({type(error).__name__}: {error}); the fields id, question, answer and "
            "paragraphs are needed."
        ) from None
    if not supporting:
        raise UserError(f"{where}: question {question.id} has no supporting paragraph.")
    return question
