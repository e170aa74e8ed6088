"""Files of questions over paragraphs, by format."""

from pathlib import Path

from tamtrl.errors import UserError
from tamtrl.tasks import hotpotqa, musique
from tamtrl.tasks.questions import Question
from tamtrl.tasks.records import records

# A function from a record and where it stands to its question, or to None where it is none. 2WikiMultihopQA has HotpotQA's keys
# (and more, not needed here).
FORMATS = {"hotpotqa": hotpotqa.parse, "2wikimultihopqa": hotpotqa.parse, "musique": musique.parse}


def load(path: str | Path, form: str = "hotpotqa", member: str | None = None) -> list[Question]:
    """All questions of a file, an archive's ``member`` or a folder; ids checked to be unique."""
    if form not in FORMATS:
        raise UserError(f"Unknown format {form!r}; there are {', '.join(FORMATS)}.")
    questions: dict[str, Question] = {}
    # The same paragraph stands in many questions of a split: keep one copy.
    kept: dict[str, str] = {}
    for where, record in records(path, member):
        question = FORMATS[form](record, where)
        if question is None:
            continue
        if question.id in questions:
            raise UserError(f"{where}: question id {question.id} appears twice.")
        paragraphs = tuple(kept.setdefault(text, text) for text in question.paragraphs)
        questions[question.id] = Question(question.id, question.text, question.answers, paragraphs, question.supporting)
    if not questions:
        raise UserError(f"{path} holds no {form} question.")
    return list(questions.values())
