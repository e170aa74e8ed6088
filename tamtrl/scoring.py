"""Scores of one answer, as pure functions of strings.

``outcome`` is the training verifier (r in Eq. 6): strict on purpose. ``exact_match`` and ``f1`` are the evaluation
metrics, with HotpotQA's normalisation.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

TAIL_CHARACTERS = 300
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def last_boxed(text: str) -> str | None:
    """The content of the last ``\\boxed{...}`` (or ``\\boxed x``), braces balanced; None if there is none or it never
    closes. ``\\fbox`` is not a box here.

    >>> last_boxed(r"so \\boxed{a{b}c}")
    'a{b}c'
    """
    start = text.rfind("\\boxed")
    if start < 0:
        return None
    rest = text[start + len("\\boxed") :]
    if rest.startswith(" ") and not rest.lstrip().startswith("{"):
        return rest.strip().split("$")[0] or None
    rest = rest.lstrip()
    if not rest.startswith("{"):
        return None
    depth = 0
    for position, character in enumerate(rest):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return rest[1:position]
    return None


def outcome(response: str, answers: Sequence[str]) -> float:
    """r in {0, 1}: the last box of the final 300 characters equals a gold answer, case and spaces apart.

    MemAgent's verifier: neither articles nor punctuation are forgiven. Never raises; no box is 0.
    """
    boxed = last_boxed(response[-TAIL_CHARACTERS:])
    if boxed is None:
        return 0.0

    def strict(text: str) -> str:
        return "".join(text.lower().split())

    return float(bool(strict(boxed)) and any(strict(boxed) == strict(answer) for answer in answers))


def extract_answer(response: str) -> str:
    """The answer to be scored in evaluation: the last box, else the last non-empty line (models that don't box)."""
    boxed = last_boxed(response)
    if boxed is not None:
        return boxed.strip()
    lines = [line.strip() for line in response.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def normalise_answer(text: str) -> str:
    """HotpotQA's and SQuAD's: lower case, ASCII punctuation deleted, articles out, white space collapsed."""
    text = "".join(character for character in text.lower() if character not in string.punctuation)
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """1 if the normalised prediction equals a normalised gold answer. Nothing matches an empty prediction: a failed
    generation is wrong even where a gold answer normalises to nothing."""
    normalised = normalise_answer(prediction)
    return float(bool(normalised) and any(normalised == normalise_answer(answer) for answer in answers))


def sub_em(prediction: str, answers: Sequence[str], mode: str, literal: bool = False) -> float:
    """Normalised gold answers contained in the normalised prediction: one way only, and nothing contains an empty text.

    ``mode`` alternatives: 1 if any is contained; conjunctive: the fraction that is. ``literal`` takes the fraction in both
    cases, which is what the paper's sentence says word for word.
    """
    normalised = normalise_answer(prediction)
    found = [bool(gold) and gold in normalised for gold in map(normalise_answer, answers)]
    return sum(found) / len(found) if literal or mode == "conjunctive" else float(any(found))


def paper_score(prediction: str, answers: Sequence[str], mode: str, literal: bool = False) -> float:
    """What the paper reports: exact match, or sub_em where a document has several gold answers."""
    return exact_match(prediction, answers) if len(answers) == 1 else sub_em(prediction, answers, mode, literal)


def ruler_part(prediction: str, answers: Sequence[str]) -> float:
    """RULER's string_match_part: any answer in the prediction, case apart, nothing else normalised. Recall only: "no" is
    in "Norway"."""
    return float(any(answer.lower() in prediction.lower() for answer in answers))


def ruler_all(prediction: str, answers: Sequence[str]) -> float:
    """RULER's string_match_all: the fraction of answers in the prediction."""
    return sum(answer.lower() in prediction.lower() for answer in answers) / len(answers)


def f1(prediction: str, answers: Sequence[str], rule: str = "hotpotqa") -> float:
    """Token-multiset F1, maximum over answers, by the rule of a data set's official scorer:

    - hotpotqa: yes, no and noanswer only match themselves
    - squad (SQuAD 1.1, LongBench, Qasper): no such rule; nothing in common is 0, both empty too
    - musique (SQuAD 2.0): where a side is empty, 1 if both are, else 0
    """
    return max(_f1(normalise_answer(prediction), normalise_answer(answer), rule) for answer in answers)


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


def all_metrics(prediction: str, answers: Sequence[str], mode: str, f1_rule: str) -> dict[str, float]:
    """Every evaluation metric of one answer, by name."""
    return {
        "score": paper_score(prediction, answers, mode),
        "score_literal": paper_score(prediction, answers, mode, literal=True),
        "em": exact_match(prediction, answers),
        "f1": f1(prediction, answers, f1_rule),
        "sub_em": sub_em(prediction, answers, mode),
        "sub_em_literal": sub_em(prediction, answers, mode, literal=True),
        "ruler_part": ruler_part(prediction, answers),
        "ruler_all": ruler_all(prediction, answers),
    }
