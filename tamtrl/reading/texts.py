"""Text that isn't ours (questions, documents, memories as text) as token ids, none of which is a control token.

A tokenizer takes whatever spells an added token for that token, also where the library doesn't call it special: Qwen3's
``<think>`` and ``<tool_call>``, BERT's ``[SEP]``. Here texts are encoded by a copy of the tokenizer in which control tokens have
names that no text spells. All else is the same, so all other texts get the very ids that the tokenizer itself gives them.
"""

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tamtrl.errors import UserError

if TYPE_CHECKING:
    from tokenizers import Encoding
    from transformers import PreTrainedTokenizerFast

# Nobody writes these: two of Unicode's noncharacters.
_NAME = "\U0010fffe{}\U0010ffff"
_BRACKETS = re.compile(r"[<>\[\]|｜◁▷]")
# What looks like a control token of some chat model: <|...|>, <｜...｜>, </think>, <start_of_turn>, <s>, <<SYS>>, [INST].
_LOOKS_LIKE_CONTROL = re.compile(
    r"[<◁](?=[|｜]|/?[^\W\d_][\w:.-]*[>▷]|<SYS>>|</SYS>>)|\[(?=[|｜]|/?[A-Za-z]*[A-Z]{2}[A-Z0-9_]*\])"
)
_CACHED_TEXTS = 256  # a section is shown to a judge once for each rollout
_PASSES = 4


def is_control(token: dict) -> bool:
    """Whether an added token, as tokenizer.json has it, is one: special ones, and others spelled with brackets or bars, of more
    than one character. Vocabularies also add plain words, letters and white space, and some pad with "!": texts need them."""
    name = token["content"].strip()
    return len(name) > 1 and (token["special"] or bool(_BRACKETS.search(name)))


def without_control(layout: dict) -> tuple[dict, dict[int, str], int | None]:
    """tokenizer.json with other names for control tokens, in the added tokens and in the model's own vocabulary (word-level and
    unigram models would look them up there); the control tokens by id; and which of them, if any, stands for what the model
    doesn't know: it keeps its name, and loses its spelling only. Ids stay.
    """
    model = layout["model"]
    unknown = model.get("unk_token")
    if isinstance(model.get("unk_id"), int):  # a unigram model's
        unknown = model["vocab"][model["unk_id"]][0]
    control = {token["id"]: token["content"] for token in layout["added_tokens"] if is_control(token)}
    names = {name: _NAME.format(number) for number, name in control.items() if name != unknown}
    added = [token | {"content": names.get(token["content"], token["content"])} for token in layout["added_tokens"]]
    added = [token for token in added if token["content"] != unknown]  # those in the model's vocabulary keep their ids
    vocabulary: dict[str | None, int] | list[list[Any]]
    if isinstance(model["vocab"], dict):
        vocabulary = {names.get(name, name): number for name, number in model["vocab"].items()}
    else:
        vocabulary = [[names.get(name, name), score] for name, score in model["vocab"]]
    model = model | {"vocab": vocabulary}
    if "merges" in model:
        model["merges"] = [pair for pair in model["merges"] if names.keys().isdisjoint({*pair, "".join(pair)})]
    layout = layout | {"added_tokens": added, "model": model, "truncation": None, "padding": None}
    return layout, control, next((number for number, name in control.items() if name == unknown), None)


def break_up_anything(text: str) -> str:
    """A space inside whatever looks like a control token, for a model whose tokenizer isn't known."""
    return _LOOKS_LIKE_CONTROL.sub(lambda found: f"{found[0]} ", text)


class Texts:
    """The encoder of texts for one (fast) tokenizer."""

    def __init__(self, tokenizer: "PreTrainedTokenizerFast") -> None:
        from tokenizers import Tokenizer

        if not tokenizer.is_fast:
            raise UserError(
                f"The tokenizer of {tokenizer.name_or_path} gives no character offsets; a model with a fast tokenizer "
                "(tokenizer.json) is needed."
            )
        self.tokenizer = tokenizer
        layout, self.control, unknown = without_control(json.loads(tokenizer.backend_tokenizer.to_str()))
        # What the model doesn't know may come out of a text, unless it reads it as the beginning or the end of one.
        ends = (tokenizer.bos_token_id, tokenizer.eos_token_id)
        self._refused = self.control.keys() - ({unknown} if unknown not in ends else set())
        self._copy = Tokenizer.from_str(json.dumps(layout))
        self.broken_up = lru_cache(_CACHED_TEXTS)(self._broken_up)

    def encode(self, text: str) -> list[int]:
        return self._encoded(text).ids

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """And the (start, stop) characters of each token."""
        encoded = self._encoded(text)
        return encoded.ids, encoded.offsets

    def encode_whole(self, text: str) -> list[int]:
        """With what the tokenizer itself puts around a text, such as the token that begins it."""
        return self._encoded(text, around=True).ids

    def _encoded(self, text: str, around: bool = False) -> "Encoding":
        encoded = self._copy.encode(text, add_special_tokens=around)
        of_text = encoded.ids
        if around:
            of_text = [token for token, extra in zip(of_text, encoded.special_tokens_mask, strict=True) if not extra]
        if found := self._refused & set(of_text):
            raise UserError(
                f"The tokenizer of {self.tokenizer.name_or_path} makes its control token {self.control[min(found)]!r} out of a "
                f"text that begins {text[:60]!r}; take that text out of the data."
            )
        return encoded

    def _broken_up(self, text: str) -> str:
        """The text with a space inside all that the tokenizer would take for a control token, for a server that has this
        tokenizer and is sent text."""
        for _ in range(_PASSES):
            encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
            pairs = zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
            found = [place for token, place in pairs if self._spelled(token, text[slice(*place)])]
            if not found:
                return text
            for start, stop in reversed(found):
                # A token may take the white space beside it.
                first = start + len(text[start:stop]) - len(text[start:stop].lstrip())
                text = f"{text[: first + 1]} {text[first + 1 :]}"
        raise UserError(
            f"The tokenizer of {self.tokenizer.name_or_path} makes control tokens out of a text even with spaces inside them; "
            f"the text begins {text[:60]!r}: take it out of the data."
        )

    def _spelled(self, token: int, text: str) -> bool:
        """Not where it stands for something unknown."""
        return token in self._refused or (token in self.control and text.strip() == self.control[token])
