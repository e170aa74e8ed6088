"""Scores of runs from their per-document files: means with intervals, and differences from TAMTRL."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from tamtrl import frames
from tamtrl.errors import UserError
from tamtrl.statistics import bootstrap_interval, holm, paired_bootstrap

RUN_KEYS = ["model", "method", "variant"]
COLUMNS = [*RUN_KEYS, "benchmark", "metric", "reproduced", "low", "high", "n", "seeds", "seed_sd", "p", "p_corrected"]
AVERAGE = "average"
REFERENCE = ("tamtrl", "main")  # what the paper compares every method with
MINUS = "_minus_tamtrl"
# What a table can show, and how its caption calls it. Every metric is in the long CSV.
METRICS = {
    "score": "exact match, or sub_em (any of the gold answers contained) where a document has several",
    "score_literal": "exact match, or the fraction of gold answers contained where a document has several",
    "strict": "the training verifier (the last box equal to a gold answer, case and spaces apart)",
    "em": "exact match",
    "sub_em": "sub_em: a gold answer contained",
    "f1": "F1",
}


@dataclass(frozen=True)
class Layout:
    """``columns``: benchmarks, or names in ``means``, which stand for the mean of some. ``average_over``: likewise; the
    average is there only for runs that have all of it, for a mean over other benchmarks must not stand beside the paper's."""

    columns: list[str] = field(default_factory=list)
    means: dict[str, list[str]] = field(default_factory=dict)
    average_over: list[str] = field(default_factory=list)
    metric: str = "score"
    note: str = ""

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise UserError(f"Tables can't show the metric {self.metric!r}; there are {', '.join(METRICS)}.")

    def parts(self, column: str) -> list[str]:
        return self.means.get(column, [column])

    def cells(self) -> dict[str, dict[str, float]]:
        """Every mean that is reported: its benchmarks with their weights."""
        named = {part: [part] for column in self.columns for part in self.parts(column)}
        named |= {column: self.parts(column) for column in self.columns}
        weights = {name: {part: 1 / len(parts) for part in parts} for name, parts in named.items()}
        if self.average_over:
            weights[AVERAGE] = {
                part: 1 / len(self.average_over) / len(self.parts(column))
                for column in self.average_over
                for part in self.parts(column)
            }
        return weights


def label(method: str, variant: str, ours: bool = False) -> str:
    return (method if variant == "main" else f"{method} ({variant})") + (", ours" if ours else "")


def listed(path: Path, what: str = "run", numbers: Collection[str] = (), flags: Collection[str] = ()) -> pd.DataFrame:
    """What a rule listed for a table or figure: a CSV with a row a run or file; an empty one is refused. ``numbers``
    and ``flags``: of `frames.read`."""
    table = frames.read(path, numbers, flags)
    if table.empty:
        raise UserError(f"{path} lists no {what}; check `select` in the configuration.")
    return table


Scores = dict[str, dict[str, pd.DataFrame]]  # benchmark, metric: a table of documents (id, number) x seeds
DOCUMENT = ["id", "document"]  # a data set may have one id twice; its number tells them apart


def read(runs: pd.DataFrame) -> Iterator[tuple[tuple, Scores]]:
    """Each run's key and scores. ``runs`` has a row per run, seed and benchmark: the run keys, ``seed``, ``benchmark`` and
    ``documents``, the file of per-document scores."""
    for key, group in frames.groups(runs, RUN_KEYS):
        scores: Scores = {}
        for (benchmark,), part in frames.groups(group, ["benchmark"]):
            if part["seed"].duplicated().any():
                raise UserError(f"{' '.join(key)} is listed twice with one seed for {benchmark}; leave one of them out.")
            table = pd.concat([_of_documents(Path(row.documents)).assign(seed=row.seed) for row in frames.rows(part)])
            table = table.set_index([*DOCUMENT, "seed"]).sort_index()
            scores[benchmark] = {metric: table[metric].unstack("seed") for metric in table.columns}
        yield key, scores


def _of_documents(path: Path) -> pd.DataFrame:
    """What `tamtrl score` wrote: a row a document, a column a metric."""
    table = frames.read(path, text=["id"])
    if (twice := table[DOCUMENT].duplicated()).any():
        first = table[twice].iloc[0]
        raise UserError(f"{path} has document {first['document']} ({first['id']!r}) twice; score the predictions again.")
    return table


def reproduced(runs: pd.DataFrame, layout: Layout, seed: int = 0) -> pd.DataFrame:
    """Means in percent with 95 % bootstrap intervals over documents (each document the mean over seeds), and each
    method's average minus TAMTRL's (`differences`)."""
    scored = list(read(runs))
    rows = []
    for key, scores in scored:
        run = dict(zip(RUN_KEYS, key, strict=True))
        for name, weights in layout.cells().items():
            if not set(weights) <= set(scores):
                continue
            for metric in scores[next(iter(weights))]:
                groups = [scores[benchmark][metric].mean(axis=1) for benchmark in weights]
                mean = sum(weight * part.mean() for weight, part in zip(weights.values(), groups, strict=True))
                low, high = bootstrap_interval(groups, seed, *key, name, metric, weights=list(weights.values()))
                by_seed = averages_by_seed({benchmark: scores[benchmark][metric] for benchmark in weights}, weights)
                row = {"benchmark": name, "metric": metric, "n": sum(map(len, groups)), "seeds": len(by_seed)}
                row["seed_sd"] = 100 * by_seed.std(ddof=1)
                rows.append(run | row | {"reproduced": 100 * mean, "low": 100 * low, "high": 100 * high})
    return pd.DataFrame([*rows, *differences(scored, layout, seed)], columns=COLUMNS)


def averages_by_seed(scores: dict[str, pd.DataFrame], weights: dict[str, float]) -> pd.Series:
    """The weighted mean of benchmarks for each seed. Its standard deviation is the chance of training, which the bootstrap over
    documents doesn't hold: there each document is a mean over seeds."""
    return pd.DataFrame({name: weight * scores[name].mean(axis=0) for name, weight in weights.items()}).sum(axis=1, skipna=False)


def difference(
    first: Scores, second: Scores, weights: dict[str, float], metric: str, key: tuple, seed: int = 0
) -> dict[str, float]:
    """The first run's average minus the second's, in points, over the seeds that both have. ``key`` names the comparison, for the
    draw of the bootstrap and for UserError where they were scored on different documents."""
    pairs = {name: (first[name][metric] - second[name][metric]).dropna(axis=1, how="all") for name in weights}
    if any(pair.empty or pair.isna().any(axis=None) for pair in pairs.values()):
        raise UserError(f"{' '.join(key)}: the runs compared were not scored on the same documents; score both again.")
    values, shares = [pair.to_numpy(dtype=float) for pair in pairs.values()], list(weights.values())
    low, high, p = paired_bootstrap(values, seed, *key, weights=shares)
    by_seed = averages_by_seed(pairs, weights)
    return {
        "reproduced": 100 * float(np.dot(shares, [one.mean() for one in values])), "low": 100 * low, "high": 100 * high,
        "n": sum(map(len, values)), "seeds": values[0].shape[1], "seed_sd": 100 * by_seed.std(ddof=1), "p": p,
    }  # fmt: skip


def differences(scored: list[tuple[tuple, Scores]], layout: Layout, seed: int = 0) -> list[dict]:
    """Each run's average minus that of TAMTRL on the same model, in points, with the paired bootstrap over questions and
    seeds; p_corrected is Holm's, over all comparisons of the table."""
    by_key, rows = dict(scored), []
    weights = layout.cells().get(AVERAGE, {})
    for key, scores in scored:
        reference = by_key.get((key[0], *REFERENCE), {})
        if key[1:] == REFERENCE or not weights or not set(weights) <= set(scores) & set(reference):
            continue
        row = difference(scores, reference, weights, layout.metric, key, seed)
        rows.append(dict(zip(RUN_KEYS, key, strict=True)) | {"benchmark": AVERAGE, "metric": layout.metric + MINUS} | row)
    for row, corrected in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_corrected"] = corrected
    return rows
