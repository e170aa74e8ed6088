"""The process reward model's input: one memory turn in a BERT window.

[CLS] question [SEP] memory before [SEP] memory after [SEP] relevant part of the section [SEP]. The section itself (5,000
tokens) never fits 512; its relevant part usually does. Question and memories come first: where even they are too long,
each keeps its beginning and an equal share of the window, and what one doesn't need goes to the others. The relevant part
gets what is left.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tamtrl.settings import Scorer
from tamtrl.turn_scores.updates import Update

ROUTE = "/classify"
SPECIAL_TOKENS = 5


@dataclass(frozen=True)
class Encoded:
    ids: list[int]
    kept_whole: bool  # question and memories
    relevant_whole: bool


def fair_shares(lengths: Sequence[int], room: int) -> list[int]:
    """Tokens for each part: all it needs, or an equal share of what the shorter parts leave of ``room`` (max-min fair)."""
    shares = [0] * len(lengths)
    for done, part in enumerate(sorted(range(len(lengths)), key=lambda part: lengths[part])):
        shares[part] = min(lengths[part], room // (len(lengths) - done))
        room -= shares[part]
    return shares


def encode(tokenizer, update: Update, window: int) -> Encoded:
    """At most ``window`` ids, whatever the lengths. ``tokenizer``: a BERT one."""
    texts = [update.question, update.before, update.after, update.relevant]
    parts = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    lengths = [len(part) for part in parts]
    shares = fair_shares(lengths[:3], window - SPECIAL_TOKENS)
    shares.append(min(lengths[3], window - SPECIAL_TOKENS - sum(shares)))
    ids = [tokenizer.cls_token_id]
    for part, share in zip(parts, shares, strict=True):
        ids += [*part[:share], tokenizer.sep_token_id]
    return Encoded(ids, shares[:3] == lengths[:3], shares[3] == lengths[3])


def body(ids: list[int], scorer: Scorer) -> dict:
    return {"model": scorer.model, "input": ids}


def score(reply: dict) -> float:
    """P(the trajectory's answer is correct): the sigmoid of the classifier's one logit, which vLLM applies."""
    (probability,) = reply["data"][0]["probs"]
    if not 0 <= probability <= 1:
        raise ValueError(f"{probability} is not a probability")
    return probability
