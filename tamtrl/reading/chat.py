"""A model's chat template, rendered once around slots, as token ids.

What fills a slot never goes through the template or the template's tokenization, so no text can speak the chat format. The
template's date is always the same, and no prompt ends in an open thought unless thinking is asked for.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tamtrl.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SLOTS = ("question", "memory", "section", "text")
_SLOT = re.compile(rf"<\|({'|'.join(SLOTS)})\|>")
# Some templates print today's date, and prompts must not depend on it. This is the one that Llama 3.1's falls back to.
DATE = datetime(2024, 7, 26)
THOUGHT, THOUGHT_END = "<think>", "</think>"


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


def template(tokenizer: "PreTrainedTokenizerFast", message: str, thinking: bool = False) -> Template:
    """A user's ``message`` with slots such as ``<|question|>``, and the beginning of the model's turn. Literal parts are
    tokenized one by one, with their control tokens."""
    rendered = _rendered(tokenizer, message, thinking)
    # re.split with one group alternates literal text and slot names.
    parts = _SLOT.split(rendered)
    if sorted(parts[1::2]) != sorted(_SLOT.findall(message)) or rendered.count(message) != 1:
        raise UserError(
            f"The chat template of {tokenizer.name_or_path} doesn't show a message once and as it is (of its parts "
            f"{', '.join(_SLOT.findall(message))} it shows {', '.join(parts[1::2]) or 'none'}); another model is needed."
        )
    if not thinking:
        parts[-1] = _closed(parts[-1])
    pieces: list[tuple[int, ...] | str] = []
    for position, part in enumerate(parts):
        if position % 2:
            pieces.append(part)
        elif part:
            pieces.append(tuple(tokenizer(part, add_special_tokens=False)["input_ids"]))
    return Template(tuple(pieces))


def _closed(end: str) -> str:
    """Some templates begin a thought whatever they are told; it is closed empty, in the form of Qwen3's template."""
    if not end.rstrip().endswith(THOUGHT):
        return end
    return f"{end.rstrip()}\n\n{THOUGHT_END}\n\n"


def _rendered(tokenizer: "PreTrainedTokenizerFast", message: str, thinking: bool) -> str:
    try:
        return tokenizer.apply_chat_template(
            [{"role": "user", "content": message}],
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=thinking,
            # Of the same names that templates know from Llama's and from transformers.
            date_string=DATE.strftime("%d %b %Y"),
            strftime_now=DATE.strftime,
        )
    except Exception as error:  # a template is a program
        raise UserError(
            f"The chat template of {tokenizer.name_or_path} can't render one user message ({' '.join(str(error).split())}); "
            "an instruction-tuned model whose template can is needed."
        ) from error
