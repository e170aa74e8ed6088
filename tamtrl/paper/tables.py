"""Tables of published beside reproduced numbers, from CSV files only.

The long CSV is the data; Markdown and LaTeX are its views.
"""

from collections.abc import Collection
from pathlib import Path

import pandas as pd

from tamtrl import frames
from tamtrl.paper.layout import DASH, Cell, Grid, Number, Section, cell
from tamtrl.paper.layout import write as write_views
from tamtrl.paper.scores import AVERAGE, METRICS, MINUS, RUN_KEYS, Layout, label, listed, reproduced

COLUMNS = [
    *RUN_KEYS,
    "ours",
    "benchmark",
    "metric",
    "paper",
    "source",
    "reproduced",
    "low",
    "high",
    "n",
    "seeds",
    "seed_sd",
    "p",
    "p_corrected",
    "delta",
]
ABOUT_SEEDS = (
    "In percent and points. Questions: bootstrap, each question the mean over seeds (differences: questions and seeds). "
    "Seeds: of the seeds' own averages, so the chance of training."
)
BESIDE = ("strict", "em", "sub_em", "f1")  # shown under the table, for every benchmark by itself


def compare(published: pd.DataFrame, made: pd.DataFrame, metric: str, ours: Collection[tuple] = frozenset()) -> pd.DataFrame:
    """Outer join: nothing is dropped because its other side is missing. Published ``score`` stands beside our ``metric``.
    ``ours``: runs that the paper doesn't have; they come last."""
    named = {"score": metric, f"score{MINUS}": metric + MINUS}
    published = published.rename(columns={"value": "paper"}).replace({"metric": named})
    keys = [*RUN_KEYS, "benchmark", "metric"]
    joined = made.merge(published, on=keys, how="outer", sort=False)
    joined["delta"] = joined["reproduced"] - joined["paper"]
    runs = [tuple(row) for row in joined[RUN_KEYS].values]
    joined["ours"] = [run in ours for run in runs]
    # Models, then the paper's runs before ours, each in its own order, then what only the paper has.
    models = list(dict.fromkeys(pd.concat([made, published])["model"]))
    order = {key: place for place, key in enumerate(dict.fromkeys(map(tuple, pd.concat([made, published])[RUN_KEYS].values)))}
    joined["_order"] = [(models.index(run[0]), run in ours, order[run]) for run in runs]
    return joined.sort_values("_order", kind="stable")[COLUMNS].reset_index(drop=True)


def write(table: str, paper: Path, runs: Path | None, layout: Layout, output: Path) -> None:
    """``output`` without its suffix gets .csv, .md, .tex and .html. Without ``runs`` the table holds published numbers only."""
    published = frames.read(paper, numbers=["value"])
    shown = pd.DataFrame(columns=[*RUN_KEYS, "seed", "benchmark", "documents", "ours"])
    if runs is not None:
        shown = listed(runs, f"run for {table}", flags=["ours"])
        published = published[published["model"].isin(shown["model"])]
    ours = set(map(tuple, shown.loc[shown["ours"].astype(bool), RUN_KEYS].values))
    joined = compare(published, reproduced(shown, layout), layout.metric, ours)
    frames.write(joined, output.with_suffix(".csv"), "%.4f")
    sections = [Section(main_grid(joined, layout), _caption(joined, layout))]
    if (compared := differences_grid(joined)).rows:
        sections.append(Section(compared, f"{_about_differences(joined)} {layout.note}".strip(), "differences from tamtrl"))
    if (repeated := seeds_grid(joined, layout)).rows:
        sections.append(Section(repeated, f"{ABOUT_SEEDS} {layout.note}".strip(), "over questions and over seeds"))
    if (beside := metrics_grid(joined, layout)).rows:
        sections.append(
            Section(
                beside,
                f"strict: {METRICS['strict']}. {layout.note}".strip(),
                "each benchmark, other metrics (reproduced)",
                printed=False,
            )
        )
    write_views(table, sections, output)


def main_grid(joined: pd.DataFrame, layout: Layout) -> Grid:
    """Model, method, then for each column what was reproduced, with paper and delta where anything is published. The best
    reproduced number of a model's column and the second are marked; our own variants stand apart and take no mark."""
    shown = joined[joined["metric"] == layout.metric]
    names = [*layout.columns, AVERAGE] if AVERAGE in set(shown["benchmark"]) else list(layout.columns)
    published = set(shown.loc[shown["paper"].notna(), "benchmark"])
    columns = [("", "model"), ("", "method")]
    for name in names:
        columns += [(name, kind) for kind in (("paper", "reproduced", "delta") if name in published else ("reproduced",))]
    ranks = _ranks(shown)
    rows: list[list[Cell]] = []
    lines, before = set(), (None, False)
    for (model, method, variant, ours), group in frames.groups(shown, [*RUN_KEYS, "ours"]):
        if before != (model, ours):
            lines.add(len(rows))
        before = (model, ours)
        row: list[Cell] = [model, label(method, variant, ours)]
        values = group.drop_duplicates("benchmark").set_index("benchmark")
        for name, kind in columns[2:]:
            mark = ranks.get((model, method, variant, name), "") if kind == "reproduced" else ""
            row.append(_shown(values.loc[[name]].iloc[0], kind, mark) if name in values.index else DASH)
        rows.append(row)
    return Grid(columns, rows, frozenset(lines))


def _ranks(shown: pd.DataFrame) -> dict[tuple, str]:
    """Which reproduced numbers are the best and the second best of their model's column, to the two places that are shown."""
    marks = {}
    rows = shown[shown["reproduced"].notna() & ~shown["ours"]].assign(value=lambda frame: frame["reproduced"].round(2))
    for (_, name), column in rows.groupby(["model", "benchmark"], dropna=False):
        for mark, value in zip(("best", "second"), sorted(set(column["value"]), reverse=True), strict=False):
            for key in column.loc[column["value"] == value, RUN_KEYS].values:
                marks[(*key, name)] = mark if len(column) > 1 else ""
    return marks


def differences_grid(joined: pd.DataFrame) -> Grid:
    """Each method's average minus tamtrl's: what the paper states, what was reproduced, and whether chance would do it."""
    compared = joined[joined["metric"].str.endswith(MINUS)]
    kinds = [("average", kind) for kind in ("paper", "reproduced", "delta", "p", "p corrected")]
    rows = [
        [row["model"], label(row["method"], row["variant"], row["ours"])]
        + [_shown(row, kind, form="{:+.2f}") for kind in ("paper", "reproduced", "delta")]
        + [cell(row["p"], "{:.3f}"), cell(row["p_corrected"], "{:.3f}")]
        for _, row in compared.iterrows()
    ]
    return Grid([("", "model"), ("", "method"), *kinds], rows)


def seeds_grid(joined: pd.DataFrame, layout: Layout) -> Grid:
    """Averages of runs that were trained with several seeds, and their differences from tamtrl, each with both spreads."""
    several = joined[(joined["seeds"] > 1) & (joined["benchmark"] == AVERAGE)]
    rows: list[list[Cell]] = []
    for _, row in several[several["metric"].isin([layout.metric, layout.metric + MINUS])].iterrows():
        minus = row["metric"].endswith(MINUS)
        what = "average minus tamtrl's" if minus else "average"
        mean = _shown(row, "reproduced", form="{:+.2f}" if minus else "{:.2f}")
        named = [row["model"], label(row["method"], row["variant"], row["ours"]), what, str(int(row["seeds"]))]
        rows.append([*named, mean, cell(row["seed_sd"])])
    heads = ("model", "method", "what", "seeds", "mean [95 % over questions]", "standard deviation over seeds")
    return Grid([("", head) for head in heads], rows)


def metrics_grid(joined: pd.DataFrame, layout: Layout) -> Grid:
    """The metrics of ``BESIDE`` for every benchmark, the parts of means among them, and for the average where there is one."""
    made = joined[joined["reproduced"].notna() & joined["metric"].isin(BESIDE)]
    names = list(dict.fromkeys(part for column in layout.columns for part in layout.parts(column)))
    names += [AVERAGE] if AVERAGE in set(made["benchmark"]) else []
    made = made[made["benchmark"].isin(names)]
    rows = []
    for (model, method, variant), group in frames.groups(made, RUN_KEYS):
        for metric in BESIDE:
            values = group[group["metric"] == metric].set_index("benchmark")["reproduced"]
            rows.append([model, label(method, variant), metric, *(cell(values.get(name, float("nan"))) for name in names)])
    return Grid([("", "model"), ("", "method"), ("", "metric"), *((name, "") for name in names)], rows)


def _shown(values: pd.Series, kind: str, mark: str = "", form: str = "{:.2f}") -> Cell:
    if kind == "delta":
        return cell(values["delta"], "{:+.2f}")
    if kind == "paper" or pd.isna(values["low"]):
        return cell(values[kind], form)
    places = form.replace("2f", "1f")
    return Number(cell(values["reproduced"], form), f" [{places.format(values['low'])}, {places.format(values['high'])}]", mark)


def _about_differences(joined: pd.DataFrame) -> str:
    compared = joined[joined["p"].notna()]
    if compared.empty:
        return "Average minus that of tamtrl, in points, as the paper states it."
    return (
        "Average minus that of tamtrl on the same model, in points; 95 % interval and two-sided p of a paired bootstrap "
        f"over questions and seeds; p corrected for {len(compared)} comparisons (Holm)."
        + (" With one seed, the chance of training itself is not in them." if (compared["seeds"] == 1).all() else "")
    )


def _caption(joined: pd.DataFrame, layout: Layout) -> str:
    text = f"In percent: {METRICS[layout.metric]}; 95 % bootstrap intervals over documents; delta = reproduced - paper."
    text += " Bold: the best reproduced number of a model, underlined: the second." if joined["reproduced"].notna().any() else ""
    for name, parts in layout.means.items():
        if name in layout.columns:
            text += f" {name} is the mean of {', '.join(parts)}." if len(parts) > 1 else f" {name} is {parts[0]}."
    counted = joined[joined["n"].notna() & joined["benchmark"].isin(layout.columns)]
    if not counted.empty:
        documents, seeds = sorted({int(n) for n in counted["n"]}), sorted({int(s) for s in counted["seeds"]})
        text += f" Documents of a column: {', '.join(map(str, documents))}; seeds: {', '.join(map(str, seeds))}."
    return f"{text} {layout.note}".strip()
