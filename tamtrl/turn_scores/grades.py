"""Reads a judge's grade, and nothing else, out of what it answers.

    answer  = [thoughts "</think>"] value, or the same in one Markdown fence (``` or ```json)
    value   = grade, or a JSON object whose "score" is a grade; its other keys are not looked at
    grade   = a whole number from 0 to 10 as 7, 7.0, 7/10 or 7.0/10, bare or as a JSON string

All else is no grade: prose of any kind ("score: 7", "I'd give 7/10"), other numbers (7.5, 11, -1, 70/100), true, null, NaN,
lists, two values, two scores in one object, a thought without an end, and a bare number that the token limit may have cut off
(1 of 10).
"""

import json
import re

BEST = 10
_FENCE = re.compile(r"```(?:json)?\s(.*)```", re.DOTALL | re.IGNORECASE)
_GRADE = re.compile(r"(10|[0-9])(?:\.0+)?(?:\s*/\s*10)?")
_THOUGHT, _THOUGHT_END = "<think>", "</think>"


def grade(content: object, cut: bool = False) -> int:
    """0 to 10. ``cut``: the answer reached the token limit. Raises ValueError, which says what it is, for what is no grade."""
    if not isinstance(content, str):
        raise ValueError(f"the answer is {_shown(content)}, not text")
    _, _, answer = content.rpartition(_THOUGHT_END)
    if _THOUGHT in answer:
        raise ValueError("the thought has no end")
    answer = answer.strip()
    if fenced := _FENCE.fullmatch(answer):
        answer = fenced[1].strip()
    if _GRADE.fullmatch(answer):
        if cut:
            raise ValueError("a bare number at the token limit may be cut off")
        return _grade(answer)
    try:
        value = json.loads(answer, object_pairs_hook=_object)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError(f"{_shown(answer)} is no grade") from None
    if isinstance(value, dict):
        if "score" not in value:
            raise ValueError('the JSON object has no "score"')
        value = value["score"]
    return _grade(value)


def _grade(value: object) -> int:
    if isinstance(value, str) and (found := _GRADE.fullmatch(value.strip())):
        return int(found[1])
    if isinstance(value, int | float) and not isinstance(value, bool) and value in range(BEST + 1):
        return int(value)
    raise ValueError(f"{_shown(value)} is no whole number from 0 to {BEST}")


def _object(pairs: list[tuple[str, object]]) -> dict:
    if sum(name == "score" for name, _ in pairs) > 1:
        raise ValueError("the JSON object has more than one score")
    return dict(pairs)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
