"""Rounding makes no difference: what is the same is scored once, and scores that differ by less than rounding are equal.

A forward pass adds up in an order that depends on the rows beside a row. So one row in two micro-batches has two scores, and the
division by a deviation (Eq. 7) or a range (Eq. 5) makes whole advantages of nothing.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import torch

Row = TypeVar("Row")
Result = TypeVar("Result")

# How far a token's log-odds (a logit against all others) move with the rows beside its own, by the precision of the forward pass:
# twice or more of what benchmarks/resolution.py found (docs/benchmarks.md).
LOG_ODDS = {"fp32": 4e-5, "bf16": 0.4}
# Where a token is all but certain, its log-probability still is a difference of two float32 of up to 32.
LAST_BIT = 2.0**-19


def each_once(compute: Callable[[list[Row]], Sequence[Result]], rows: Sequence[Row], keys: Sequence[Hashable]) -> list[Result]:
    """``compute`` of the rows, where rows of equal key are computed once (the first of them) and share the result. Distinct rows
    keep their order."""
    firsts: dict[Hashable, Row] = {}
    for row, key in zip(rows, keys, strict=True):
        firsts.setdefault(key, row)
    results = dict(zip(firsts, compute(list(firsts.values())), strict=True))
    return [results[key] for key in keys]


def resolution(
    score: Callable[[list[torch.Tensor]], torch.Tensor], log_probs: Sequence[torch.Tensor], log_odds: float
) -> torch.Tensor:
    """How far each row's score may be off when each token's log-odds are off by ``log_odds``, independently of the others': the
    root of the sum of squares of what each makes of the score. A token's log-probability is off by log_odds (1 - p), since
    dp = p (1 - p) d(log-odds).

    log_probs: as for ``score``, (tokens,) a row. Returns (rows,), float64. A difference of two scores within it is none.

    A row that the score doesn't follow smoothly (no slope, or an infinite one) counts as exact. More than half of a score is
    never rounding: a product of many probabilities moves by large factors, of which a slope knows nothing.
    """
    exact = [row.detach().double().requires_grad_() for row in log_probs]
    with torch.enable_grad():
        scores = score(exact)
        slopes = torch.autograd.grad(scores.sum(), exact, allow_unused=True) if scores.requires_grad else [None] * len(exact)
    off = [log_odds * (1 - row.detach().exp()) + LAST_BIT for row in exact]
    found = [torch.zeros(()) if slope is None else (slope * by).norm() for slope, by in zip(slopes, off, strict=True)]
    limit = scores.detach().abs().double() / 2
    return torch.minimum(torch.stack(found).double().nan_to_num(0.0, 0.0, 0.0), limit)


def of_probability(probability: torch.Tensor, log_odds: float) -> torch.Tensor:
    """The same of a score that is one probability, the sigmoid of a logit: (rows,)."""
    return probability * (log_odds * (1 - probability) + LAST_BIT)
