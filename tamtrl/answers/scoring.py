"""Evaluation metrics of one answer, as pure functions of strings. An empty prediction is wrong for every one of them, and an
empty gold answer is none.

Normalisation is HotpotQA's. What training rewards is `tamtrl.answers.verifier`, which is reported here as ``strict``.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

from tamtrl.answers.latex import plain
from tamtrl.answers.verifier import last_boxed, outcome

_ARTICLES = re.compile(r"\b(a|an|the)\b")


def as_written(response: str) -> str:
    """The answer in a response: the last box, else the last non-empty line (models that don't box)."""
    boxed = last_boxed(response)
    if boxed is not None:
        return boxed.strip()
    lines = [line.strip() for line in response.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def extract_answer(response: str) -> str:
    """The answer in a response, as plain text."""
    return plain(as_written(response))


def normalise_answer(text: str) -> str:
    """HotpotQA's and SQuAD's: lower case, ASCII punctuation deleted, articles out, white space collapsed."""
    text = "".join(character for character in text.lower() if character not in string.punctuation)
    return " ".join(_ARTICLES.sub(" ", text).split())


def comparable(text: str) -> str:
    """What is compared: the normalised text, or, where that is nothing ("The", "!!!"), the text in lower case."""
    return normalise_answer(text) or " ".join(text.lower().split())


def distinct(answers: Sequence[str]) -> list[str]:
    """The gold answers that count: not empty, and one of those that compare alike.

    >>> distinct(["the English", "English ", "", "UT"])
    ['English ', 'UT']
    """
    return list({comparable(answer): answer for answer in answers if answer.strip()}.values())


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """1 if the normalised prediction equals a normalised gold answer. Of texts that normalise to nothing only equal ones match:
    official scorers take "The" for "!!!", and a failed generation for either."""
    compared = comparable(prediction)
    return float(bool(compared) and any(compared == comparable(answer) for answer in answers))


def _contains(prediction: str, gold: str) -> bool:
    """The normalised gold answer in the normalised prediction, one way only; one that normalises to nothing must be equal."""
    normalised = normalise_answer(gold)
    return normalised in normalise_answer(prediction) if normalised else bool(exact_match(prediction, [gold]))


def sub_em(prediction: str, answers: Sequence[str], mode: str, literal: bool = False) -> float:
    """Gold answers contained in the prediction.

    ``mode`` alternatives: 1 if any is contained; conjunctive: the fraction that is. ``literal`` takes the fraction in both
    cases, which is what the paper's sentence says word for word.
    """
    found = [_contains(prediction, gold) for gold in distinct(answers)]
    return sum(found) / max(1, len(found)) if literal or mode == "conjunctive" else float(any(found))


def paper_score(prediction: str, answers: Sequence[str], mode: str, literal: bool = False) -> float:
    """What the paper reports: exact match, or sub_em where a document has several gold answers (`distinct` ones)."""
    several = len(distinct(answers)) > 1
    return sub_em(prediction, answers, mode, literal) if several else exact_match(prediction, answers)


def ruler_part(prediction: str, answers: Sequence[str]) -> float:
    """RULER's string_match_part: any answer in the prediction, case apart, nothing else normalised. Recall only: "no" is
    in "Norway"."""
    return float(any(_ruler(prediction, answers)))


def ruler_all(prediction: str, answers: Sequence[str]) -> float:
    """RULER's string_match_all: the fraction of answers in the prediction."""
    found = _ruler(prediction, answers)
    return sum(found) / max(1, len(found))


def _ruler(prediction: str, answers: Sequence[str]) -> list[bool]:
    return [answer.lower() in prediction.lower() for answer in answers if answer.strip()]


def f1(prediction: str, answers: Sequence[str], rule: str = "hotpotqa") -> float:
    """Token-multiset F1, maximum over answers, by the rule of a data set's official scorer:

    - hotpotqa: yes, no and noanswer only match themselves
    - squad (SQuAD 1.1, LongBench, Qasper): no such rule; nothing in common is 0, both normalised to nothing too
    - musique (SQuAD 2.0): where a side normalises to nothing, 1 if both do, else 0
    """
    if not prediction.strip():
        return 0.0
    normalised = normalise_answer(prediction)
    return max((_f1(normalised, normalise_answer(answer), rule) for answer in answers if answer.strip()), default=0.0)


def _f1(prediction: str, gold: str, rule: str) -> float:
    if rule == "hotpotqa" and prediction != gold and {prediction, gold} & {"yes", "no", "noanswer"}:
        return 0.0
    if rule == "musique" and not (prediction and gold):
        return float(prediction == gold)
    shared = sum((Counter(prediction.split()) & Counter(gold.split())).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(prediction.split()), shared / len(gold.split())
    return 2 * precision * recall / (precision + recall)


F1_RULES = ("hotpotqa", "squad", "musique")


def all_metrics(response: str, answers: Sequence[str], mode: str, f1_rule: str) -> dict[str, float]:
    """Every evaluation metric of one response, by name. ``strict`` reads the response itself; the others the answer in it, as
    plain text or, where that is better, as it is written: a gold answer may have LaTeX in it."""
    plainly = extract_answer(response)
    readings = [_metrics(answer, answers, mode, f1_rule) for answer in {plainly, as_written(response) if plainly else ""}]
    return {name: max(reading[name] for reading in readings) for name in readings[0]} | {"strict": outcome(response, answers)}


def _metrics(prediction: str, answers: Sequence[str], mode: str, f1_rule: str) -> dict[str, float]:
    return {
        "score": paper_score(prediction, answers, mode),
        "score_literal": paper_score(prediction, answers, mode, literal=True),
        "strict": 0.0,  # in its place, between these
        "em": exact_match(prediction, answers),
        "f1": f1(prediction, answers, f1_rule),
        "sub_em": sub_em(prediction, answers, mode),
        "sub_em_literal": sub_em(prediction, answers, mode, literal=True),
        "ruler_part": ruler_part(prediction, answers),
        "ruler_all": ruler_all(prediction, answers),
    }
