"""Normalisation within sets of rows: the min-max of Eq. 5 and the group advantage of Eq. 7."""

import torch


def group_ids(*keys: torch.Tensor) -> torch.Tensor:
    """Rows that agree in every key share an id. Keys and result: (rows,) integers."""
    return torch.unique(torch.stack([key.long() for key in keys], dim=1), dim=0, return_inverse=True)[1]


def _extreme(values: torch.Tensor, groups: torch.Tensor, how: str) -> torch.Tensor:
    """The group's minimum or maximum on each row: (rows,)."""
    out = values.new_zeros(int(groups.max()) + 1)
    return out.scatter_reduce(0, groups, values, how, include_self=False)[groups]


def span(values: torch.Tensor, groups: torch.Tensor, resolution: torch.Tensor | None = None) -> torch.Tensor:
    """max P - min P on each row, with P the row's group; 0 where that is within the largest ``resolution`` of the group, below
    which a difference is none. All (rows,); no ``resolution``: values are exact."""
    if not len(values):
        return values
    found = _extreme(values, groups, "amax") - _extreme(values, groups, "amin")
    if resolution is None:
        return found
    return torch.where(found > _extreme(resolution, groups, "amax"), found, torch.zeros_like(found))


def min_max(values: torch.Tensor, groups: torch.Tensor, resolution: torch.Tensor | None = None) -> torch.Tensor:
    """Eq. 5: (p - min P) / (max P - min P) with P the row's group; 1 where all of P are equal (the outcome decides).

    values (rows,) float, groups (rows,) integers, resolution as in `span` -> (rows,) in [0, 1].
    """
    if not len(values):
        return values
    low, width = _extreme(values, groups, "amin"), span(values, groups, resolution)
    return torch.where(width > 0, (values - low) / width.where(width > 0, torch.ones_like(width)), torch.ones_like(values))


def standardise(
    values: torch.Tensor, groups: torch.Tensor, std: bool = True, resolution: torch.Tensor | None = None
) -> torch.Tensor:
    """Eq. 7: (R - mean) / std over the row's group, with the population standard deviation; 0 where all are equal.

    values (rows,) float, groups (rows,) integers, resolution as in `span` -> (rows,). ``std=False`` only subtracts the mean.
    """
    if not len(values):
        return values
    size = int(groups.max()) + 1
    count = values.new_zeros(size).index_add(0, groups, torch.ones_like(values))
    mean = values.new_zeros(size).index_add(0, groups, values) / count
    centred = values - mean[groups]
    # Equal rewards may differ from their mean by a rounding error: compare the values themselves.
    differ = span(values, groups, resolution) > 0
    centred = torch.where(differ, centred, torch.zeros_like(centred))
    if not std:
        return centred
    variance = values.new_zeros(size).index_add(0, groups, centred.square()) / count
    deviation = variance.sqrt()[groups]
    return torch.where(differ, centred / deviation.where(differ, torch.ones_like(deviation)), torch.zeros_like(centred))
