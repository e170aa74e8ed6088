"""The two prompts of the memory agent, as token ids.

The paper's wording isn't public; ours says what its setup implies. Prompts are assembled from ids: the template is
rendered once through the model's chat template, cut at its slots and tokenized piece by piece, so the memory fed back
is the very ids that were sampled.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tamtrl.errors import UserError

# "brief" is for models of under a million parameters, whose window is about a hundred tokens.
STYLES = {
    "full": {
        "update": (
            "Answer a question about a long text that you read section by section, keeping only a short memory. Rewrite "
            "the memory: keep what it holds that may help, add what this section tells.\n\n"
            "Question: <|question|>\n\nMemory:\n<|memory|>\n\nSection:\n<|section|>\n\nUpdated memory:"
        ),
        "answer": (
            "Answer the question from the memory of a long text. Put the final answer in \\boxed{}.\n\n"
            "Question: <|question|>\n\nMemory:\n<|memory|>\n\nAnswer:"
        ),
        "empty_memory": "No memory yet.",
    },
    "brief": {
        "update": "Update .\n<|question|>\nMemory : <|memory|>\nSection : <|section|>",
        "answer": "Answer .\n<|question|>\nMemory : <|memory|>",
        "empty_memory": "Nothing yet .",
    },
}
_SLOT = re.compile(r"<\|(question|memory|section)\|>")


@dataclass(frozen=True)
class Template:
    """Alternating literal ids and slot names, e.g. ``((1, 2), "question", (3,))``."""

    pieces: tuple[tuple[int, ...] | str, ...]

    @property
    def tokens(self) -> int:
        return sum(len(piece) for piece in self.pieces if isinstance(piece, tuple))

    def fill(self, **slots: Sequence[int]) -> list[int]:
        ids: list[int] = []
        for piece in self.pieces:
            ids.extend(slots[piece] if isinstance(piece, str) else piece)
        return ids


class Prompts:
    """Prompt builder for one tokenizer. Thinking is off wherever the chat template knows the switch."""

    def __init__(self, tokenizer, style: str = "full"):
        if style not in STYLES:
            raise UserError(f"Prompt style {style!r} is not one of {', '.join(STYLES)}.")
        if not tokenizer.is_fast:
            raise UserError("The model's tokenizer gives no character offsets; a fast tokenizer is needed.")
        if not tokenizer.chat_template:
            raise UserError("The model's tokenizer has no chat template; an instruction-tuned model is needed.")
        self.tokenizer = tokenizer
        self.update = self._template(STYLES[style]["update"])
        self.answer = self._template(STYLES[style]["answer"])
        self.empty_memory = self.encode(STYLES[style]["empty_memory"])
        self.separator = self.encode("\n\n")
        self._no_thought = self._empty_thought()

    def encode(self, text: str) -> list[int]:
        """Ids of a user's text: control tokens spelled out in it stay plain text."""
        return self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        encoded = self.tokenizer(
            text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True, verbose=False
        )
        return encoded["input_ids"], encoded["offset_mapping"]

    def with_thinking(self, prompt_ids: list[int]) -> list[int]:
        """The same prompt with thinking on: without the empty thought that switches it off."""
        if not self._no_thought:
            raise UserError("The model's chat template has no switch for thinking; set distillation.thinking to false.")
        return prompt_ids[: -len(self._no_thought)]

    @property
    def end_of_thinking(self) -> int:
        return self.tokenizer.convert_tokens_to_ids("</think>")

    def _empty_thought(self) -> list[int]:
        """What the template adds to a prompt to switch thinking off; nothing where it knows no such switch."""
        off, on = self._rendered("x", False), self._rendered("x", True)
        return self.tokenizer(off.removeprefix(on), add_special_tokens=False)["input_ids"] if off.startswith(on) else []

    def _rendered(self, text: str, thinking: bool) -> str:
        return self.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True, enable_thinking=thinking
        )

    def _template(self, text: str) -> Template:
        rendered = self._rendered(text, False)
        pieces: list[tuple[int, ...] | str] = []
        # re.split with one group alternates literal text and slot names.
        for position, part in enumerate(_SLOT.split(rendered)):
            if position % 2:
                pieces.append(part)
            elif part:
                pieces.append(tuple(self.tokenizer(part, add_special_tokens=False)["input_ids"]))
        return Template(tuple(pieces))
