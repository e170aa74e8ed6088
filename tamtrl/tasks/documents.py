"""How paragraphs become one context, with the character spans of the relevant ones."""

from collections.abc import Sequence

SEPARATOR = "\n\n"


def join_documents(paragraphs: Sequence[str], relevant: Sequence[bool]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """``Document k:`` newline paragraph, joined by a blank line (RULER's and MemAgent's layout; k counts from 1).

    Returns the context and the spans of the relevant documents, header included.
    """
    pieces, spans, position = [], [], 0
    for number, (paragraph, is_relevant) in enumerate(zip(paragraphs, relevant, strict=True), start=1):
        piece = f"Document {number}:\n{paragraph}"
        if is_relevant:
            spans.append((position, position + len(piece)))
        pieces.append(piece)
        position += len(piece) + len(SEPARATOR)
    return SEPARATOR.join(pieces), tuple(spans)
