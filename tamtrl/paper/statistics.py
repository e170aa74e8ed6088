"""Means and intervals of scores."""

from collections.abc import Sequence

import numpy as np

from tamtrl import seeds

RESAMPLES = 2000


def bootstrap_interval(
    groups: Sequence[Sequence[float]],
    seed: int,
    *names: object,
    weights: Sequence[float] | None = None,
    level: float = 0.95,
) -> tuple[float, float]:
    """Percentile bootstrap interval of the weighted mean of group means.

    ``groups``: one sequence of per-document scores a benchmark; documents are resampled within their benchmark, so that
    an average over benchmarks weighs each by its weight (alike when None; weights sum to 1), whatever its size. One group
    gives the plain interval of a mean. The draw is seeded by (seed, names).
    """
    weights = weights or [1 / len(groups)] * len(groups)
    rng = np.random.default_rng(seeds.derive(seed, "bootstrap", *names))
    means = np.zeros(RESAMPLES)
    for weight, group in zip(weights, groups, strict=True):
        data = np.asarray(group, dtype=float)
        means += weight * data[rng.integers(0, len(data), (RESAMPLES, len(data)))].mean(axis=1)
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)
