"""Token windows over a context, with the relevant token ranges inside each window.

The context is tokenized once and cut on ids: a window border inside a multi-byte character loses nothing, because ids
are never decoded and encoded again.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Chunk:
    """One window: its token ids, and half-open token ranges within it that are relevant."""

    ids: tuple[int, ...]
    relevant: tuple[tuple[int, int], ...]

    @property
    def relevant_ids(self) -> list[tuple[int, ...]]:
        return [self.ids[start:stop] for start, stop in self.relevant]


def token_spans(offsets: Sequence[tuple[int, int]], character_spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The half-open token range of each character range.

    ``offsets``: (start, stop) characters of each token, in order. A token belongs to a span when they share a
    character. A span that no token touches (all white space, say) is left out.
    """
    spans, token = [], 0
    for start, stop in character_spans:
        while token < len(offsets) and offsets[token][1] <= start:
            token += 1
        end = token
        while end < len(offsets) and offsets[end][0] < stop:
            end += 1
        if end > token:
            spans.append((token, end))
        token = end
    return tuple(spans)


def split(ids: Sequence[int], spans: Sequence[tuple[int, int]], size: int) -> list[Chunk]:
    """Windows of ``size`` tokens, the last one shorter. A span cut by a border gives each window the part inside it."""
    chunks = []
    for start in range(0, len(ids), size):
        stop = min(start + size, len(ids))
        inside = tuple((max(a, start) - start, min(b, stop) - start) for a, b in spans if a < stop and b > start)
        chunks.append(Chunk(tuple(ids[start:stop]), inside))
    return chunks
