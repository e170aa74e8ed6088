"""Which rows make an optimizer step, and which rank has which of them. Pure functions."""

import re
from collections.abc import Sequence

import torch
from verl.utils.seqlen_balancing import calculate_workload, get_seqlen_balanced_partitions


def place(key: str) -> list[int]:
    """Of a row: step, question, rollout, turn, from its key ``{step}-{question}_{rollout}_{turn}``. verl's rows of padding come
    last, in their own order."""
    numbers = [int(part) for part in re.findall(r"\d+", key)] if not key.startswith("pad") else [int(key.split("_")[-2])]
    return [int(key.startswith("pad")), *numbers]


def by_rank(tokens: Sequence[int], steps: int, ranks: int) -> list[list[int]]:
    """The rows of each rank, optimizer step after optimizer step. ``tokens``: of each row, in the order of questions.

    Rows are cut into ``steps`` equal pieces as they stand, so which of them share an optimizer step doesn't depend on how long
    they are or on the number of ranks; then each piece is dealt to ``ranks`` so that their work (verl's estimate: tokens, and
    the squares of attention) is alike. verl balances the whole batch and cuts each rank's rows afterwards, which leaves every
    step unbalanced: at its end all ranks wait for the slowest. The number of rows must be a multiple of steps x ranks.
    """
    if len(tokens) % (steps * ranks):
        raise ValueError(f"{len(tokens)} rows can't be cut into {steps} steps over {ranks} ranks.")
    size = len(tokens) // steps
    rows: list[list[int]] = [[] for _ in range(ranks)]
    for first in range(0, len(tokens), size):
        work = calculate_workload(torch.tensor(tokens[first : first + size], dtype=torch.int64))
        for own, part in zip(rows, get_seqlen_balanced_partitions(work, ranks, equal_size=True), strict=True):
            own.extend(first + row for row in part)
    return rows


def imbalance(tokens: Sequence[int], rows: Sequence[Sequence[int]], steps: int) -> float:
    """By how much of its time an update is longer than with ranks that end together: in each step all wait for the one with the
    most work."""
    work = calculate_workload(torch.tensor(tokens, dtype=torch.int64)).double()
    size = len(rows[0]) // steps
    per_step = torch.stack([work[torch.tensor(own)].view(steps, size).sum(dim=1) for own in rows])  # (ranks, steps)
    return (per_step.max(dim=0).values.sum() / per_step.mean(dim=0).sum() - 1).item()
