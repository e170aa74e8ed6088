"""The process reward model's input: one memory turn in a BERT window.

[CLS] question [SEP] memory before [SEP] memory after [SEP] relevant part of the section [SEP]. The section itself (5,000
tokens) never fits 512; its relevant part usually does. Question and memories come first: where even they are too long,
each keeps its beginning and an equal share of the window, and what one doesn't need goes to the others. The relevant part
gets what is left.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tamtrl.reading.texts import Texts
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


def encode(texts: Texts, update: Update, window: int) -> Encoded:
    """At most ``window`` ids, whatever the lengths. ``texts``: of a BERT's tokenizer."""
    parts = [texts.encode(text) for text in (update.question, update.before, update.after, update.relevant)]
    lengths = [len(part) for part in parts]
    shares = fair_shares(lengths[:3], window - SPECIAL_TOKENS)
    shares.append(min(lengths[3], window - SPECIAL_TOKENS - sum(shares)))
    ids = [texts.tokenizer.cls_token_id]
    for part, share in zip(parts, shares, strict=True):
        ids += [*part[:share], texts.tokenizer.sep_token_id]
    return Encoded(ids, shares[:3] == lengths[:3], shares[3] == lengths[3])


def body(ids: list[int], scorer: Scorer) -> dict:
    return {"model": scorer.model, "input": ids}


def score(reply: Any) -> float:
    """P(the trajectory's answer is correct): the sigmoid of the classifier's one logit, which vLLM applies. Raises ValueError,
    which says what it is, for anything else."""
    try:
        (item,) = reply["data"]
        (probability,) = item["probs"]
    except (KeyError, TypeError, ValueError):
        raise ValueError("it has not one probability of one input") from None
    if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 <= probability <= 1:
        raise ValueError(f"{probability!r:.60} is not a probability")
    return float(probability)
