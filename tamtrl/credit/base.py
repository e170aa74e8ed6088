"""What every credit method is given: the rows of one rollout batch."""

from dataclasses import dataclass, fields

import torch


@dataclass(frozen=True)
class Turns:
    """The rows of a rollout batch, one per turn of every rollout; all tensors have shape (rows,).

    Rows may come in any order and trajectories may have different numbers of turns.
    """

    query: torch.Tensor  # int64: i in the paper, the question's index in the batch
    rollout: torch.Tensor  # int64: j, the rollout's index in its group
    turn: torch.Tensor  # int64: t, counted from 0
    is_answer: torch.Tensor  # bool: the last turn of a trajectory
    outcome: torch.Tensor  # float: r in {0, 1}, the trajectory's, repeated on each of its rows
    score: torch.Tensor | None = None  # float: what the method asked for; NaN on answer turns
    resolution: torch.Tensor | None = None  # float: two scores that differ by no more are equal; None: scores are exact

    def __post_init__(self) -> None:
        shapes = {f.name: tuple(getattr(self, f.name).shape) for f in fields(self) if getattr(self, f.name) is not None}
        if len(set(shapes.values())) != 1 or len(shapes["query"]) != 1:
            raise ValueError(f"Turns needs one-dimensional tensors of equal length, not {shapes}.")
