"""One memory turn as text: what a judge or a process reward model is shown of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tamtrl.reading.reader import Document, Reader


@dataclass(frozen=True)
class Update:
    """``relevant`` is the part of the section that the annotation calls relevant, empty if there is none."""

    question: str
    section: str
    relevant: str
    before: str
    after: str


class UpdateWriter:
    """The updates of one document's trajectories; what they share is decoded once. Control tokens are left out, so that a memory
    can't act on the chat format of whoever reads it."""

    def __init__(self, reader: Reader, document: Document):
        self.reader = reader
        self.question = self._text(document.question_ids)
        self.sections = [self._text(chunk.ids) for chunk in document.chunks]
        self.relevant = ["\n\n".join(map(self._text, chunk.relevant_ids)) for chunk in document.chunks]

    def _text(self, ids: Sequence[int]) -> str:
        return self.reader.prompts.tokenizer.decode(list(ids), skip_special_tokens=True)

    def write(self, turn: int, before: Sequence[int] | None, after: Sequence[int]) -> Update:
        """``before`` and ``after``: sampled ids of the turn before (None for the first turn) and of this one."""
        empty = self.reader.prompts.empty_memory
        memory = self._text(empty if before is None else self.reader.strip_end(list(before)))
        written = self._text(self.reader.strip_end(list(after)))
        return Update(self.question, self.sections[turn], self.relevant[turn], memory, written)

    def all(self, responses: Sequence[Sequence[int]]) -> list[Update]:
        """The memory turns of a whole trajectory, whose last response is its answer."""
        return [self.write(turn, responses[turn - 1] if turn else None, ids) for turn, ids in enumerate(responses[:-1])]
