"""Means and intervals of scores."""

from collections.abc import Sequence

import numpy as np

from tamtrl import seeds

RESAMPLES = 2000


def bootstrap_interval(groups: Sequence[Sequence[float]], seed: int, *names: object, level: float = 0.95) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of group means.

    ``groups``: one sequence of per-document scores a benchmark; documents are resampled within their benchmark, so that
    an average over benchmarks weighs each alike. One group gives the plain interval of a mean. The draw is seeded by
    (seed, names).
    """
    rng = np.random.default_rng(seeds.derive(seed, "bootstrap", *names))
    means = np.zeros(RESAMPLES)
    for group in groups:
        data = np.asarray(group, dtype=float)
        means += data[rng.integers(0, len(data), (RESAMPLES, len(data)))].mean(axis=1)
    tail = (1 - level) / 2
    low, high = np.quantile(means / len(groups), [tail, 1 - tail])
    return float(low), float(high)
