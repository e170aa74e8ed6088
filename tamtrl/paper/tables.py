"""Tables of published beside reproduced numbers, from CSV files only.

The long CSV is the data; Markdown and LaTeX are its views. A number that isn't known is a dash.
"""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from tamtrl import files
from tamtrl.errors import UserError
from tamtrl.paper.statistics import bootstrap_interval

RUN_KEYS = ["model", "method", "variant"]
COLUMNS = [*RUN_KEYS, "benchmark", "metric", "paper", "source", "reproduced", "low", "high", "n", "seeds", "delta"]
AVERAGE = "average"
DASH = "–"
METRIC = "em"  # what a table shows; every metric is in the long CSV


def reproduced(runs: pd.DataFrame, average_over: list[str], seed: int = 0) -> pd.DataFrame:
    """Means in percent with 95 % bootstrap intervals over documents (each document the mean over seeds).

    ``runs`` has a row per run, seed and benchmark: the run keys, ``seed``, ``benchmark`` and ``documents``, the file of
    per-document scores. The average is there only for runs that have every benchmark of ``average_over``: a mean over other
    benchmarks must not stand beside the paper's.
    """
    rows = []
    for key, group in runs.groupby(RUN_KEYS, sort=False):
        per_benchmark = {}
        for benchmark, part in group.groupby("benchmark", sort=False):
            scores = pd.concat([pd.read_csv(path, dtype={"id": str}) for path in part["documents"]])
            per_benchmark[benchmark] = scores.drop(columns="document").groupby("id").mean()
        seeds = group["seed"].nunique()
        metrics = list(next(iter(per_benchmark.values())).columns)
        for metric in metrics:
            cells = {benchmark: [scores[metric]] for benchmark, scores in per_benchmark.items()}
            if average_over and set(average_over) <= set(cells):
                cells[AVERAGE] = [per_benchmark[benchmark][metric] for benchmark in average_over]
            for benchmark, groups in cells.items():
                low, high = bootstrap_interval(groups, seed, *key, benchmark, metric)
                mean = sum(group.mean() for group in groups) / len(groups)
                rows.append(
                    {
                        **dict(zip(RUN_KEYS, key, strict=True)),
                        "benchmark": benchmark,
                        "metric": metric,
                        "reproduced": 100 * mean,
                        "low": 100 * low,
                        "high": 100 * high,
                        "n": sum(len(group) for group in groups),
                        "seeds": seeds,
                    }
                )
    return pd.DataFrame(rows, columns=[c for c in COLUMNS if c not in ("paper", "source", "delta")])


def compare(published: pd.DataFrame, made: pd.DataFrame) -> pd.DataFrame:
    """Outer join: nothing is dropped because its other side is missing. Published ``score`` stands beside our ``em``."""
    published = published.rename(columns={"value": "paper"}).replace({"metric": {"score": METRIC}})
    keys = [*RUN_KEYS, "benchmark", "metric"]
    joined = made.merge(published, on=keys, how="outer", sort=False)
    joined["delta"] = joined["reproduced"] - joined["paper"]
    # Runs in their own order first, then what only the paper has.
    order = {key: place for place, key in enumerate(dict.fromkeys(map(tuple, pd.concat([made, published])[RUN_KEYS].values)))}
    joined["_order"] = [order[tuple(row)] for row in joined[RUN_KEYS].values]
    return joined.sort_values("_order", kind="stable")[COLUMNS].reset_index(drop=True)


def write(
    table: str,
    paper: Path,
    runs: Path | None,
    benchmarks: list[str],
    average_over: list[str],
    note: str,
    output: Path,
) -> None:
    """``output`` without its suffix gets .csv, .md and .tex. Without ``runs`` the table holds published numbers only."""
    published = pd.read_csv(paper, dtype={"model": str})
    if runs is None:
        made = reproduced(pd.DataFrame(columns=[*RUN_KEYS, "seed", "benchmark", "documents"]), average_over)
    else:
        listed = pd.read_csv(runs, dtype={"model": str})
        if listed.empty:
            raise UserError(f"{runs} lists no run for {table}; check `select` in the configuration.")
        made = reproduced(listed, average_over)
        published = published[published["model"].isin(listed["model"])]
    joined = compare(published, made)
    columns = [*benchmarks, AVERAGE] if AVERAGE in set(joined["benchmark"]) else list(benchmarks)
    stem = output.with_suffix("")
    with files.whole(stem.with_suffix(".csv")) as temporary:
        joined.to_csv(temporary, index=False, float_format="%.4f")
    files.write_text(stem.with_suffix(".md"), markdown(joined, columns, table, note))
    files.write_text(stem.with_suffix(".tex"), latex(joined, columns, table, note))


def _cell(value: float, form: str = "{:.2f}") -> str:
    return DASH if pd.isna(value) else form.format(value)


def _rows(joined: pd.DataFrame, columns: list[str], span: Callable[[float, float], str]) -> list[list[str]]:
    """Model, method, then paper, reproduced with interval, and delta for each column."""
    shown = joined[(joined["metric"] == METRIC) | joined["paper"].notna()]
    rows = []
    for (model, method, variant, metric), group in shown.groupby([*RUN_KEYS, "metric"], sort=False):
        label = method if variant == "main" else f"{method} ({variant})"
        # The paper states some numbers otherwise than as a score, e.g. as a difference.
        row = [model, label if metric == METRIC else f"{label}, {metric.replace('_', ' ')}"]
        cells = group.drop_duplicates("benchmark").set_index("benchmark")
        for column in columns:
            if column not in cells.index:
                row += [DASH] * 3
                continue
            cell = cells.loc[column]
            interval = "" if pd.isna(cell["low"]) else " " + span(cell["low"], cell["high"])
            row += [_cell(cell["paper"]), _cell(cell["reproduced"]) + interval, _cell(cell["delta"], "{:+.2f}")]
        rows.append(row)
    return rows


def _caption(joined: pd.DataFrame, note: str) -> str:
    counted = joined.dropna(subset=["n"])
    text = f"Metric: {METRIC} in percent, with 95 % bootstrap intervals over documents; delta = reproduced - paper."
    if not counted.empty:
        documents, seeds = sorted({int(n) for n in counted["n"]}), sorted({int(s) for s in counted["seeds"]})
        text += f" Documents: {', '.join(map(str, documents))}; seeds: {', '.join(map(str, seeds))}."
    return f"{text} {note}".strip()


def markdown(joined: pd.DataFrame, columns: list[str], table: str, note: str) -> str:
    header = [
        "model",
        "method",
        *(f"{column} {kind}" for column in columns for kind in ("paper", "reproduced", "delta")),
    ]
    lines = [f"# {table}", "", "| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in _rows(joined, columns, lambda low, high: f"[{low:.1f}, {high:.1f}]")]
    return "\n".join([*lines, "", _caption(joined, note), ""])


def _escape(text: str) -> str:
    for character in "&%#_":
        text = text.replace(character, f"\\{character}")
    return text.replace(DASH, "--")


def latex(joined: pd.DataFrame, columns: list[str], table: str, note: str) -> str:
    """A booktabs table that compiles with ``\\usepackage{booktabs}``."""
    groups = " & ".join(f"\\multicolumn{{3}}{{c}}{{{_escape(column)}}}" for column in columns)
    kinds = " & ".join(["paper & reproduced & $\\Delta$"] * len(columns))
    body = [
        " & ".join(_escape(cell) for cell in row) + r" \\"
        for row in _rows(joined, columns, lambda low, high: f"[{low:.1f}, {high:.1f}]")
    ]
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_escape(table)}. {_escape(_caption(joined, note))}}}",
            rf"\begin{{tabular}}{{ll{'rrr' * len(columns)}}}",
            r"\toprule",
            rf" & & {groups} \\",
            rf"model & method & {kinds} \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )
