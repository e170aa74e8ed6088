"""The training verifier (r in Eq. 6), strict on purpose, and the box that it reads.

A module of its own: evaluation's metrics (`tamtrl.answers.scoring`) may change without making trained runs outdated.
"""

from collections.abc import Sequence

TAIL_CHARACTERS = 300


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
    return braced(rest.lstrip())


def braced(text: str) -> str | None:
    """The content of the group ``{...}`` that ``text`` begins with, braces balanced; None if there is none or it never closes."""
    if not text.startswith("{"):
        return None
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return text[1:position]
    return None


def outcome(response: str, answers: Sequence[str]) -> float:
    """r in {0, 1}: the last box of the final 300 characters equals a gold answer, case and spaces apart.

    MemAgent's verifier, but for spellings that docs/data.md counts: neither articles nor punctuation are forgiven. Never
    raises; no box is 0, and so is an empty one.
    """
    boxed = last_boxed(response[-TAIL_CHARACTERS:])
    if boxed is None:
        return 0.0

    def strict(text: str) -> str:
        return "".join(text.lower().split())

    return float(bool(strict(boxed)) and any(strict(boxed) == strict(answer) for answer in answers))
