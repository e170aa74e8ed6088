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
    value = _json(_unfenced(content))
    if not isinstance(value, dict):  # whose other keys may speak of thoughts
        _, _, answer = content.rpartition(_THOUGHT_END)
        if _THOUGHT in answer:
            raise ValueError("the thought has no end")
        value = _json(_unfenced(answer))
    if isinstance(value, dict):
        if "score" not in value:
            raise ValueError('the JSON object has no "score"')
        value = value["score"]
    elif cut and isinstance(value, _Number):
        raise ValueError("a bare number at the token limit may be cut off")
    if isinstance(value, str) and (found := _GRADE.fullmatch(value.strip())):
        return int(found[1])
    raise ValueError(f"{_shown(content if value is None else value)} is no whole number from 0 to {BEST}")


def _unfenced(text: str) -> str:
    fenced = _FENCE.fullmatch(text.strip())
    return (fenced[1] if fenced else text).strip()


class _Number(str):
    """As it is written."""


def _json(text: str) -> object:
    """The value, numbers as they are written; a bare 7/10 too. None where it is no JSON."""
    if _GRADE.fullmatch(text):
        return _Number(text)
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_Number, parse_float=_Number)
    except (json.JSONDecodeError, RecursionError):
        return None


def _object(pairs: list[tuple[str, object]]) -> dict:
    """A second score takes the first away, whatever they are."""
    twice = sum(name == "score" for name, _ in pairs) > 1
    return dict(pairs) | ({"score": "more than one score"} if twice else {})


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
