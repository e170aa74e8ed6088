"""Questions over paragraphs of which some are annotated as supporting."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """A question with its own paragraphs; ``supporting`` holds their indices, never titles (titles repeat)."""

    id: str
    text: str
    answers: tuple[str, ...]
    paragraphs: tuple[str, ...]
    supporting: frozenset[int]
