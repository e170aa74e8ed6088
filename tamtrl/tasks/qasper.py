"""Qasper: questions over whole papers, with the annotators' evidence as relevant text; official or the hub's layout."""

from collections.abc import Iterator
from pathlib import Path

from tamtrl.errors import UserError
from tamtrl.tasks.example import Example
from tamtrl.tasks.records import records

SEPARATOR = "\n\n"


def load(path: str | Path, benchmark: str, member: str | None = None) -> Iterator[Example]:
    """One example a question, in file order; ids checked to be unique."""
    seen: set[str] = set()
    for where, paper in records(path, member):
        for example in examples(paper, where, benchmark):
            if example.id in seen:
                raise UserError(f"{where}: question id {example.id} appears twice.")
            seen.add(example.id)
            yield example


def examples(paper: object, where: str, benchmark: str) -> Iterator[Example]:
    """The questions of one paper. Evidence outside the text (tables, figures) has no span; the question stays."""
    try:
        pieces = [paper["title"], paper["abstract"]]
        for section in _rows(paper["full_text"]):
            pieces += [section["section_name"] or "", *section["paragraphs"]]
        pieces = [piece for piece in pieces if piece.strip()]
        questions = []
        for row in _rows(paper["qas"]):
            annotations = [answer["answer"] for answer in _rows(row["answers"])]
            golds = dict.fromkeys(text for answer in annotations if (text := gold(answer)))
            evidence = {text for answer in annotations for text in answer["evidence"]}
            questions.append((row["question_id"], row["question"].strip(), tuple(golds), evidence))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{where} is not a labelled Qasper paper ({type(error).__name__}: {error}); the fields title, abstract, full_text "
            "and qas are needed."
        ) from None
    context = SEPARATOR.join(pieces)
    for identifier, question, golds, evidence in questions:
        spans, start = [], 0
        for piece in pieces:
            if piece in evidence:
                spans.append((start, start + len(piece)))
            start += len(piece) + len(SEPARATOR)
        yield Example(identifier, question, context, tuple(spans), golds, "alternatives", benchmark)


def gold(answer: dict) -> str:
    """An annotator's answer as text, by the official evaluator's order: unanswerable, extractive spans, free form, yes or no.
    Empty where none is given."""
    if answer["unanswerable"]:
        return "Unanswerable"
    if answer["extractive_spans"]:
        return ", ".join(answer["extractive_spans"])
    if answer["free_form_answer"]:
        return answer["free_form_answer"]
    return {True: "Yes", False: "No", None: ""}[answer["yes_no"]]


def _rows(table: list | dict) -> list[dict]:
    """The official layout has lists of dicts; the hub turns each into a dict of lists."""
    if isinstance(table, list):
        return table
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
