"""Means and intervals of scores."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tamtrl import seeds

RESAMPLES = 2000


def bootstrap_interval(
    groups: Sequence[npt.ArrayLike],
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


def paired_bootstrap(
    differences: Sequence[np.ndarray], seed: int, *names: object, weights: Sequence[float], level: float = 0.95
) -> tuple[float, float, float]:
    """Interval and two-sided p-value of the weighted mean of differences between two methods on the same questions.

    ``differences``: an array (questions, seeds) a benchmark, one method's score minus the other's; ``weights`` sum to 1.
    Questions are resampled within their benchmark and seeds over all of them, together for both methods: what makes a
    question hard or a seed lucky for both cancels. p is twice the share of draws on the far side of 0, itself counted as
    one draw, so never below 2 / (RESAMPLES + 1). Returns (low, high, p).
    """
    rng = np.random.default_rng(seeds.derive(seed, "paired bootstrap", *names))
    runs = differences[0].shape[1]
    chosen = rng.integers(0, runs, (RESAMPLES, runs))
    share = np.stack([np.bincount(row, minlength=runs) for row in chosen], axis=1) / runs  # (seeds, resamples)
    means = np.zeros(RESAMPLES)
    for weight, one in zip(weights, differences, strict=True):
        by_question = one @ share  # (questions, resamples)
        questions = rng.integers(0, len(one), by_question.shape)
        means += weight * np.take_along_axis(by_question, questions, axis=0).mean(axis=0)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    beyond = min((means <= 0).sum(), (means >= 0).sum())
    return float(low), float(high), float(min(1.0, 2 * (beyond + 1) / (RESAMPLES + 1)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction of p-values for how many there are: the k-th smallest of n times n - k + 1, never
    smaller than the one before, at most 1."""
    corrected, reached = [0.0] * len(p_values), 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        reached = max(reached, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = reached
    return corrected
