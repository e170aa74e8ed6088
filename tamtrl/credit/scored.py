"""Rewards and advantages of every method that scores memory turns: a score of each turn, combined with the outcome.

A turn whose score is missing (NaN: its judgement failed) gets no advantage and counts in nobody else's: it is left out of every
minimum, maximum, mean and deviation, and its own advantage is 0.
"""

import torch

from tamtrl.credit.base import Turns
from tamtrl.credit.normalise import group_ids, min_max, standardise
from tamtrl.credit.settings import CreditSettings


def rewards(turns: Turns, settings: CreditSettings) -> torch.Tensor:
    """Eq. 5 and 6: R = p_hat * r for memory turns (``sum``: p_hat + r), R = r for the answer turn. Returns (rows,), NaN where a
    memory turn has no score."""
    result = turns.outcome.double().clone()
    result[~turns.is_answer & turns.score.isnan()] = float("nan")
    scored = ~turns.is_answer & ~turns.score.isnan()
    query, turn = turns.query[scored], turns.turn[scored]
    p = turns.score[scored].double()
    match settings.minmax:
        case "batch":
            p = min_max(p, torch.zeros_like(query))
        case "query":
            p = min_max(p, group_ids(query))
        case "query_turn":
            p = min_max(p, group_ids(query, turn))
    r = result[scored]
    result[scored] = p * r if settings.combine == "product" else p + r
    return result


def advantages(turns: Turns, rewards: torch.Tensor, settings: CreditSettings) -> torch.Tensor:
    """Eq. 7: (R - mean) / std over all turns and rollouts of the query (``query_turn``: over the rollouts of the same
    query and turn). Returns (rows,)."""
    known = ~rewards.isnan()
    keys = [turns.query] if settings.advantage_set == "query" else [turns.query, turns.turn, turns.is_answer]
    result = torch.zeros_like(rewards)
    result[known] = standardise(rewards[known], group_ids(*(key[known] for key in keys)), settings.std)
    return result
