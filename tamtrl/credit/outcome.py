"""MemAgent: every turn gets the trajectory's outcome."""

import torch

from tamtrl.credit.base import Turns
from tamtrl.credit.normalise import group_ids, standardise
from tamtrl.credit.settings import CreditSettings

NEEDS = ()


def rewards(turns: Turns, settings: CreditSettings) -> torch.Tensor:
    """R = r. Returns (rows,)."""
    return turns.outcome


def advantages(turns: Turns, rewards: torch.Tensor, settings: CreditSettings) -> torch.Tensor:
    """(r - mean) / std over the *trajectories* of a query, broadcast to their turns: (rows,).

    The statistics are taken from one row a trajectory (its answer turn), so that trajectories with more turns don't
    weigh more.
    """
    trajectory = group_ids(turns.query, turns.rollout)
    final = turns.is_answer
    per_trajectory = standardise(rewards[final], group_ids(turns.query[final]), settings.std)
    table = rewards.new_zeros(int(trajectory.max()) + 1).index_copy(0, trajectory[final], per_trajectory)
    return table[trajectory]
