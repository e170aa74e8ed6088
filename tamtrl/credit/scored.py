"""Rewards and advantages of every method that scores memory turns: a score of each turn, combined with the outcome.

A turn whose score is missing (NaN: its judgement failed) gets no advantage and counts in nobody else's: it is left out of every
minimum, maximum, mean and deviation, and its own advantage is 0.
"""

import torch

from tamtrl.credit.base import Turns
from tamtrl.credit.normalise import group_ids, min_max, span, standardise
from tamtrl.credit.settings import CreditSettings


def _score(turns: Turns) -> torch.Tensor:
    if turns.score is None:
        raise ValueError("These turns have no scores; `NEEDS` of the credit method says what computes them.")
    return turns.score


def _shaped(turns: Turns, settings: CreditSettings) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The rows that have a score (bool, (rows,)), Eq. 5's p_hat of these, and how far it may be off: where scores are stretched,
    so is their resolution."""
    score = _score(turns)
    scored = ~turns.is_answer & ~score.isnan()
    query, turn, p = turns.query[scored], turns.turn[scored], score[scored].double()
    off = torch.zeros_like(p) if turns.resolution is None else turns.resolution[scored].double()
    match settings.minmax:
        case "batch":
            groups = torch.zeros_like(query)
        case "query":
            groups = group_ids(query)
        case "query_turn":
            groups = group_ids(query, turn)
        case _:
            return scored, p, off
    width = span(p, groups, off)
    return scored, min_max(p, groups, off), torch.where(width > 0, off / width, 0.0)


def rewards(turns: Turns, settings: CreditSettings) -> torch.Tensor:
    """Eq. 5 and 6: R = p_hat * r for memory turns (``sum``: p_hat + r), R = r for the answer turn. Returns (rows,), NaN where a
    memory turn has no score."""
    result = turns.outcome.double().clone()
    result[~turns.is_answer & _score(turns).isnan()] = float("nan")
    scored, p, _ = _shaped(turns, settings)
    r = result[scored]
    result[scored] = p * r if settings.combine == "product" else p + r
    return result


def _resolution(turns: Turns, settings: CreditSettings) -> torch.Tensor:
    """How far each reward may be off, (rows,): outcomes, and products with an outcome of 0, are exact."""
    scored, _, off = _shaped(turns, settings)
    result = torch.zeros_like(turns.outcome, dtype=torch.float64)
    result[scored] = off * turns.outcome[scored] if settings.combine == "product" else off
    return result


def advantages(turns: Turns, rewards: torch.Tensor, settings: CreditSettings) -> torch.Tensor:
    """Eq. 7: (R - mean) / std over all turns and rollouts of the query (``query_turn``: over the rollouts of the same
    query and turn); 0 where they differ by no more than rounding. Returns (rows,)."""
    known = ~rewards.isnan()
    keys = [turns.query] if settings.advantage_set == "query" else [turns.query, turns.turn, turns.is_answer]
    groups = group_ids(*(key[known] for key in keys))
    result = torch.zeros_like(rewards)
    result[known] = standardise(rewards[known], groups, settings.std, _resolution(turns, settings)[known])
    return result
