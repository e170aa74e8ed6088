"""The turn loop: read a document chunk by chunk, rewrite the memory, answer from the last memory.

Runs over any ``generate`` coroutine: verl's rollout server in training, vLLM in evaluation. Each document is a
coroutine of its own, so documents never wait for each other.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tamtrl.errors import UserError
from tamtrl.reading.budgets import Budgets
from tamtrl.reading.chunks import Chunk, split, token_spans
from tamtrl.reading.prompts import Prompts
from tamtrl.tasks.example import Example

VIEWS = ("chunk", "global")


@dataclass(frozen=True)
class Generation:
    """What the model sampled: ids (with the end-of-turn token where one was sampled) and whatever the engine adds."""

    ids: list[int]
    log_probs: list[float] | None = None
    extra: dict = field(default_factory=dict)


Generate = Callable[[list[int], int, int], Awaitable[Generation]]
"""``generate(prompt_ids, max_tokens, turn)``."""


@dataclass(frozen=True)
class Turn:
    """One row: a prompt and what was sampled. ``teacher_prompt_ids`` is None for the answer turn; ``relevant``: whether its chunk
    holds relevant text."""

    index: int
    is_answer: bool
    prompt_ids: list[int]
    teacher_prompt_ids: list[int] | None
    generation: Generation
    relevant: bool = False


@dataclass(frozen=True)
class Document:
    """An example as the reader needs it: question ids and chunks. ``dropped_tokens`` of either were cut."""

    question_ids: list[int]
    chunks: list[Chunk]
    dropped_tokens: int


class Reader:
    def __init__(self, prompts: Prompts, budgets: Budgets, view: str = "chunk"):
        if view not in VIEWS:
            raise UserError(f"Teacher view {view!r} is not one of {', '.join(VIEWS)}.")
        budgets.check(prompts.update.tokens, prompts.answer.tokens)
        if len(prompts.empty_memory) > budgets.memory_tokens:
            raise UserError(
                f"reading.memory_tokens is {budgets.memory_tokens} but the empty memory alone takes "
                f"{len(prompts.empty_memory)} tokens."
            )
        self.prompts, self.budgets, self.view = prompts, budgets, view
        self._end_ids = set(prompts.tokenizer.all_special_ids)

    def prepare(self, example: Example) -> Document:
        """Tokenize and cut; an over-long question or document is an error unless truncation is switched on."""
        budgets = self.budgets
        question = self.prompts.encode(example.question)
        question_dropped = max(0, len(question) - budgets.query_tokens)
        if question_dropped and not budgets.truncate:
            raise UserError(
                f"The question of example {example.id} has {len(question)} tokens but reading.query_tokens is "
                f"{budgets.query_tokens}; raise it, or set reading.truncate to cut."
            )
        ids, offsets = self.prompts.texts.encode_with_offsets(example.context)
        limit = budgets.chunk_tokens * budgets.max_chunks
        dropped = max(0, len(ids) - limit)
        if dropped and not budgets.truncate:
            raise UserError(
                f"Example {example.id} has {len(ids)} tokens, more than {budgets.max_chunks} chunks of "
                f"{budgets.chunk_tokens}; raise reading.max_chunks, or set reading.truncate to cut."
            )
        spans = token_spans(offsets, example.relevant_spans)
        chunks = split(ids[:limit], spans, budgets.chunk_tokens)
        return Document(question[: budgets.query_tokens], chunks, question_dropped + dropped)

    async def read(self, document: Document, generate: Generate) -> list[Turn]:
        """n memory turns and the answer turn, in order."""
        prompts, budgets = self.prompts, self.budgets
        turns: list[Turn] = []
        memory = prompts.empty_memory
        for index, chunk in enumerate(document.chunks):
            slots = {"question": document.question_ids, "memory": memory}
            prompt = prompts.update.fill(section=chunk.ids, **slots)
            teacher = prompts.update.fill(section=self.relevant(document, chunk), **slots)
            generation = await generate(prompt, budgets.memory_tokens, index)
            turns.append(Turn(index, False, prompt, teacher, generation, bool(chunk.relevant)))
            memory = self.strip_end(generation.ids)
        prompt = prompts.answer.fill(question=document.question_ids, memory=memory)
        generation = await generate(prompt, budgets.output_tokens, len(document.chunks))
        turns.append(Turn(len(document.chunks), True, prompt, None, generation))
        return turns

    def strip_end(self, ids: list[int]) -> list[int]:
        """Drop the end-of-turn token(s); what is left is the memory (or the answer) itself."""
        end = len(ids)
        while end and ids[end - 1] in self._end_ids:
            end -= 1
        return list(ids[:end])

    def relevant(self, document: Document, chunk: Chunk) -> list[int]:
        """C_t: the chunk without all but its relevant parts (or, in the global view, the document's), blank-line joined."""
        chunks = [chunk] if self.view == "chunk" else document.chunks
        parts = [part for one in chunks for part in one.relevant_ids]
        joined: list[int] = []
        for part in parts:
            joined.extend(([*self.prompts.separator] if joined else []) + list(part))
        return joined[: self.budgets.chunk_tokens]
