"""Tables of published beside reproduced numbers, from CSV files only.

The long CSV is the data; Markdown and LaTeX are its views.
"""

from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from tamtrl import files
from tamtrl.errors import UserError
from tamtrl.paper.layout import DASH, Grid, cell, latex, markdown
from tamtrl.paper.statistics import bootstrap_interval

RUN_KEYS = ["model", "method", "variant"]
COLUMNS = [*RUN_KEYS, "benchmark", "metric", "paper", "source", "reproduced", "low", "high", "n", "seeds", "delta"]
AVERAGE = "average"
# What a table can show, and how its caption calls it. Every metric is in the long CSV.
METRICS = {
    "score": "exact match, or sub_em (any of the gold answers contained) where a document has several",
    "score_literal": "exact match, or the fraction of gold answers contained where a document has several",
    "em": "exact match",
    "sub_em": "sub_em: a gold answer contained",
    "f1": "F1",
}
BESIDE = ("em", "sub_em", "f1")  # shown under the table, for every benchmark by itself


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


def reproduced(runs: pd.DataFrame, layout: Layout, seed: int = 0) -> pd.DataFrame:
    """Means in percent with 95 % bootstrap intervals over documents (each document the mean over seeds).

    ``runs`` has a row per run, seed and benchmark: the run keys, ``seed``, ``benchmark`` and ``documents``, the file of
    per-document scores.
    """
    rows = []
    for key, group in runs.groupby(RUN_KEYS, sort=False):
        scores = {}
        for benchmark, part in group.groupby("benchmark", sort=False):
            frames = pd.concat([pd.read_csv(path, dtype={"id": str}) for path in part["documents"]])
            scores[benchmark] = frames.drop(columns="document").groupby("id").mean()
        for name, weights in layout.cells().items():
            if not set(weights) <= set(scores):
                continue
            for metric in scores[next(iter(weights))].columns:
                groups = [scores[benchmark][metric] for benchmark in weights]
                mean = sum(weight * part.mean() for weight, part in zip(weights.values(), groups, strict=True))
                low, high = bootstrap_interval(groups, seed, *key, name, metric, weights=list(weights.values()))
                row = {"benchmark": name, "metric": metric, "n": sum(map(len, groups)), "seeds": group["seed"].nunique()}
                row |= {"reproduced": 100 * mean, "low": 100 * low, "high": 100 * high}
                rows.append(dict(zip(RUN_KEYS, key, strict=True)) | row)
    return pd.DataFrame(rows, columns=[c for c in COLUMNS if c not in ("paper", "source", "delta")])


def compare(published: pd.DataFrame, made: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Outer join: nothing is dropped because its other side is missing. Published ``score`` stands beside our ``metric``."""
    published = published.rename(columns={"value": "paper"}).replace({"metric": {"score": metric}})
    keys = [*RUN_KEYS, "benchmark", "metric"]
    joined = made.merge(published, on=keys, how="outer", sort=False)
    joined["delta"] = joined["reproduced"] - joined["paper"]
    # Runs in their own order first, then what only the paper has.
    order = {key: place for place, key in enumerate(dict.fromkeys(map(tuple, pd.concat([made, published])[RUN_KEYS].values)))}
    joined["_order"] = [order[tuple(row)] for row in joined[RUN_KEYS].values]
    return joined.sort_values("_order", kind="stable")[COLUMNS].reset_index(drop=True)


def write(table: str, paper: Path, runs: Path | None, layout: Layout, output: Path) -> None:
    """``output`` without its suffix gets .csv, .md and .tex. Without ``runs`` the table holds published numbers only."""
    published = pd.read_csv(paper, dtype={"model": str})
    listed = pd.DataFrame(columns=[*RUN_KEYS, "seed", "benchmark", "documents"])
    if runs is not None:
        listed = pd.read_csv(runs, dtype={"model": str})
        if listed.empty:
            raise UserError(f"{runs} lists no run for {table}; check `select` in the configuration.")
        published = published[published["model"].isin(listed["model"])]
    joined = compare(published, reproduced(listed, layout), layout.metric)
    stem = output.with_suffix("")
    with files.whole(stem.with_suffix(".csv")) as temporary:
        joined.to_csv(temporary, index=False, float_format="%.4f")
    grid, caption = main_grid(joined, layout), _caption(joined, layout)
    text = f"# {table}\n\n{markdown(grid)}\n{caption}\n"
    beside = metrics_grid(joined, layout)
    if beside.rows:
        text += f"\n## Each benchmark, other metrics (reproduced)\n\n{markdown(beside)}\n{layout.note}\n"
    files.write_text(stem.with_suffix(".md"), text)
    files.write_text(stem.with_suffix(".tex"), latex(grid, f"{table}. {caption}"))


def main_grid(joined: pd.DataFrame, layout: Layout) -> Grid:
    """Model, method, then for each column what was reproduced, with paper and delta where anything is published."""
    shown = joined[(joined["metric"] == layout.metric) | joined["paper"].notna()]
    names = [*layout.columns, AVERAGE] if AVERAGE in set(shown["benchmark"]) else list(layout.columns)
    published = set(shown.loc[shown["paper"].notna(), "benchmark"])
    columns = [("", "model"), ("", "method")]
    for name in names:
        columns += [(name, kind) for kind in (("paper", "reproduced", "delta") if name in published else ("reproduced",))]
    rows = []
    for (model, method, variant, metric), group in shown.groupby([*RUN_KEYS, "metric"], sort=False):
        label = method if variant == "main" else f"{method} ({variant})"
        # The paper states some numbers otherwise than as a score, e.g. as a difference.
        row = [model, label if metric == layout.metric else f"{label}, {metric.replace('_', ' ')}"]
        values = group.drop_duplicates("benchmark").set_index("benchmark")
        for name, kind in columns[2:]:
            row.append(_shown(values.loc[name], kind) if name in values.index else DASH)
        rows.append(row)
    return Grid(columns, rows)


def metrics_grid(joined: pd.DataFrame, layout: Layout) -> Grid:
    """The metrics of ``BESIDE`` for every benchmark, the parts of means among them."""
    names = list(dict.fromkeys(part for column in layout.columns for part in layout.parts(column)))
    made = joined[joined["reproduced"].notna() & joined["metric"].isin(BESIDE) & joined["benchmark"].isin(names)]
    rows = []
    for (model, method, variant), group in made.groupby(RUN_KEYS, sort=False):
        for metric in BESIDE:
            values = group[group["metric"] == metric].set_index("benchmark")["reproduced"]
            label = method if variant == "main" else f"{method} ({variant})"
            rows.append([model, label, metric, *(cell(values.get(name, float("nan"))) for name in names)])
    return Grid([("", "model"), ("", "method"), ("", "metric"), *((name, "") for name in names)], rows)


def _shown(values: pd.Series, kind: str) -> str:
    if kind == "delta":
        return cell(values["delta"], "{:+.2f}")
    if kind == "paper" or pd.isna(values["low"]):
        return cell(values[kind])
    return f"{cell(values['reproduced'])} [{values['low']:.1f}, {values['high']:.1f}]"


def _caption(joined: pd.DataFrame, layout: Layout) -> str:
    text = f"In percent: {METRICS[layout.metric]}; 95 % bootstrap intervals over documents; delta = reproduced - paper."
    for name, parts in layout.means.items():
        if name in layout.columns:
            text += f" {name} is the mean of {', '.join(parts)}." if len(parts) > 1 else f" {name} is {parts[0]}."
    counted = joined[joined["n"].notna() & joined["benchmark"].isin(layout.columns)]
    if not counted.empty:
        documents, seeds = sorted({int(n) for n in counted["n"]}), sorted({int(s) for s in counted["seeds"]})
        text += f" Documents of a column: {', '.join(map(str, documents))}; seeds: {', '.join(map(str, seeds))}."
    return f"{text} {layout.note}".strip()
