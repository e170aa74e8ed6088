"""The two prompts of the memory agent, as token ids.

The paper's wording isn't public; ours says what its setup implies. Prompts are assembled from ids (chat.py), so the memory
fed back is the very ids that were sampled.
"""

from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

from tamtrl.errors import UserError
from tamtrl.reading.chat import THOUGHT_END, Template, template
from tamtrl.reading.texts import Texts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_TASK = (
    "Answer a question about a long text that you read section by section, keeping only a short memory. Rewrite "
    "the memory: keep what it holds that may help, add what this section tells.\n\nQuestion: <|question|>\n\n"
)
_MEMORY, _SECTION = "Memory:\n<|memory|>\n\n", "Section:\n<|section|>\n\n"
_FULL = {
    "update": f"{_TASK}{_MEMORY}{_SECTION}Updated memory:",
    "answer": (
        "Answer the question from the memory of a long text. Put the final answer in \\boxed{}.\n\n"
        f"Question: <|question|>\n\n{_MEMORY}Answer:"
    ),
    "empty_memory": "No memory yet.",
}
STYLES = {
    "full": _FULL,
    # What the rollouts of a question share reaches to the section's end, so that an engine reads it once for all of them.
    "section_first": _FULL | {"update": f"{_TASK}{_SECTION}{_MEMORY}Updated memory:"},
    # For models of under a million parameters, whose window is about a hundred tokens.
    "brief": {
        "update": "Update .\n<|question|>\nMemory : <|memory|>\nSection : <|section|>",
        "answer": "Answer .\n<|question|>\nMemory : <|memory|>",
        "empty_memory": "Nothing yet .",
    },
}


class Prompts:
    """Prompt builder for one tokenizer. Thinking is off wherever the chat template knows the switch, and a thought that it begins
    all the same is closed empty."""

    def __init__(self, tokenizer: "PreTrainedTokenizerFast", style: str = "full") -> None:
        if style not in STYLES:
            raise UserError(f"Prompt style {style!r} is not one of {', '.join(STYLES)}.")
        self.tokenizer, self.style, self.texts = tokenizer, style, Texts(tokenizer)
        if not tokenizer.chat_template:
            raise UserError("The model's tokenizer has no chat template; an instruction-tuned model is needed.")
        self.update, self.answer = self._templates(thinking=False)
        self.empty_memory = self.encode(STYLES[style]["empty_memory"])
        self.separator = self.encode("\n\n")

    def _templates(self, thinking: bool) -> list[Template]:
        return [template(self.tokenizer, STYLES[self.style][name], thinking) for name in ("update", "answer")]

    def encode(self, text: str) -> list[int]:
        """Ids of a text; what spells a control token stays plain text."""
        return self.texts.encode(text)

    def with_thinking(self, prompt_ids: list[int]) -> list[int]:
        """The same prompt with thinking on: with the end that the chat template gives it then."""
        if not self._switch:
            raise UserError(
                "The model's chat template has no switch for thinking at the end of a prompt; set distillation.thinking to false."
            )
        off, on = self._switch
        return [*prompt_ids[: len(prompt_ids) - len(off)], *on]

    @property
    def end_of_thinking(self) -> int:
        ids = self.tokenizer(THOUGHT_END, add_special_tokens=False)["input_ids"]
        if len(ids) != 1:
            raise UserError(f"The model's tokenizer has no token {THOUGHT_END}; set distillation.thinking to false.")
        return ids[0]

    @cached_property
    def _switch(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The last ids of a prompt without thinking, and what stands in their place with it; None where the two differ in
        nothing, or elsewhere."""
        ends = set()
        for off, on in zip((self.update, self.answer), self._templates(thinking=True), strict=True):
            *before, last_off = off.pieces
            *same_before, last_on = on.pieces
            if before != same_before or isinstance(last_off, str) or isinstance(last_on, str):
                return None
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(last_off, last_on, strict=False)))
            ends.add((last_off[same:], last_on[same:]))
        found = ends.pop()
        return found if not ends and found != ((), ()) else None
