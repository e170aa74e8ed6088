"""Files of questions over paragraphs, by format."""

from collections.abc import Callable
from pathlib import Path

from tamtrl.errors import UserError
from tamtrl.tasks import hotpotqa, musique, twowiki
from tamtrl.tasks.questions import Question
from tamtrl.tasks.records import records
from tamtrl.tasks.typed import Parse, sound, unique

# For a source, a function from a record and where it stands to its question, or to None where it is none.
FORMATS: dict[str, Callable[[Path], Parse[Question]]] = {
    "hotpotqa": lambda source: hotpotqa.parse,
    "2wikimultihopqa": twowiki.parser,
    "musique": lambda source: musique.parse,
}


def load(path: str | Path, form: str = "hotpotqa", member: str | None = None) -> list[Question]:
    """All questions of a file, an archive's ``member`` or a folder; ids are unique."""
    if form not in FORMATS:
        raise UserError(f"Unknown format {form!r}; there are {', '.join(FORMATS)}.")
    questions: list[Question] = []
    # The same paragraph stands in many questions of a split: keep one copy.
    kept: dict[str, str] = {}
    for question in sound(records(path, member), unique(FORMATS[form](Path(path))), path, "questions"):
        paragraphs = tuple(kept.setdefault(text, text) for text in question.paragraphs)
        questions.append(Question(question.id, question.text, question.answers, paragraphs, question.supporting))
    if not questions:
        raise UserError(f"{path} holds no {form} question.")
    return questions
