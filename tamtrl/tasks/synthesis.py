"""Long documents: a question's own paragraphs among distractors from the whole split.

The procedure of RULER and MemAgent with two repairs: positions and distractors come from a generator of the question's
own (theirs put a question's paragraphs at the same places in every document, and draw correlated distractors in forked
workers), and no draw scans the corpus.
"""

from collections.abc import Container, Iterable, Iterator

from tamtrl import seeds
from tamtrl.errors import UserError
from tamtrl.tasks.documents import join_documents
from tamtrl.tasks.example import Example
from tamtrl.tasks.questions import Question


class Corpus:
    """The distinct paragraphs of a split, sorted so that the draw does not depend on file order."""

    def __init__(self, paragraphs: Iterable[str]):
        self.paragraphs = sorted(set(paragraphs))
        self.index = {text: i for i, text in enumerate(self.paragraphs)}

    @classmethod
    def of(cls, questions: Iterable[Question]) -> "Corpus":
        return cls(text for question in questions for text in question.paragraphs)


def synthesise(question: Question, corpus: Corpus, documents: int | None, seed: int, benchmark: str = "hotpotqa") -> Example:
    """``question`` among distractors up to ``documents`` paragraphs; every choice from (seed, question id).

    Own paragraphs come first; where they outnumber ``documents``, non-supporting ones are dropped. None takes the question's
    own paragraphs and no others.
    """
    documents = documents or len(set(question.paragraphs))
    supporting = {question.paragraphs[i] for i in question.supporting}
    if len(supporting) > documents:
        raise UserError(
            f"Question {question.id} has {len(supporting)} supporting paragraphs, which don't fit "
            f"{documents} documents; raise data.documents."
        )
    rng = seeds.generator(seed, "synthesis", question.id)
    own = sorted(set(question.paragraphs) - supporting)[: documents - len(supporting)]
    chosen = sorted(supporting) + own
    missing = documents - len(chosen)
    # Draw enough that dropping every own paragraph still leaves the number needed.
    excluded = {corpus.index[text] for text in question.paragraphs if text in corpus.index}
    if missing > len(corpus.paragraphs) - len(excluded):
        raise UserError(
            f"Question {question.id} needs {missing} distractors but the corpus has only "
            f"{len(corpus.paragraphs) - len(excluded)} other paragraphs; lower data.documents or give more questions."
        )
    drawn = rng.sample(range(len(corpus.paragraphs)), min(missing + len(excluded), len(corpus.paragraphs)))
    chosen += [corpus.paragraphs[i] for i in [i for i in drawn if i not in excluded][:missing]]
    rng.shuffle(chosen)
    context, spans = join_documents(chosen, [text in supporting for text in chosen])
    return Example(question.id, question.text, context, spans, question.answers, "alternatives", benchmark)


def build(
    questions: list[Question],
    documents: int | None,
    count: int | None,
    skip: int,
    seed: int,
    benchmark: str = "hotpotqa",
    usable: Container[str] | None = None,
) -> Iterator[Example]:
    """``count`` questions (all when None) chosen by seed after passing over ``skip``, each with a document from the corpus
    of all ``questions``. ``usable`` holds the ids that may be chosen (all when None)."""
    if skip < 0 or (count or 0) < 0:
        raise UserError(f"{benchmark} asks for {count} questions after the first {skip}; neither can be negative.")
    order = [question for question in chosen_order(questions, seed) if usable is None or question.id in usable]
    if count is not None and skip + count > len(order):
        raise UserError(
            f"{benchmark} asks for {count} questions after the first {skip}, but the source has only {len(order)}"
            f"{' that the closed-book filter kept' if usable is not None else ''}; lower its count or give more."
        )
    corpus = Corpus.of(questions)
    for question in order[skip:][:count]:
        yield synthesise(question, corpus, documents, seed, benchmark)


def chosen_order(questions: Iterable[Question], seed: int) -> list[Question]:
    """The order in which questions are chosen: by seed and id, whatever the file's order."""
    return sorted(questions, key=lambda question: seeds.derive(seed, "choose", question.id))
