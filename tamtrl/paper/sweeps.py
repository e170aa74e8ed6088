"""Figures 5 to 7: one setting varied, in training or in the test."""

from pathlib import Path

import pandas as pd

from tamtrl.paper.scores import AVERAGE, Layout, listed, reproduced
from tamtrl.paper.style import lines, pyplot, save, titled


def points(runs: Path, layout: Layout) -> pd.DataFrame:
    """Scores in percent with intervals for each method and ``value`` of what is varied. ``runs``: the keys of `scores.read`, and
    ``value``."""
    parts = []
    for value, part in listed(runs, numbers=["value"]).groupby("value", dropna=False):
        made = reproduced(part, layout)
        parts.append(
            made[(made["metric"] == layout.metric) & made["benchmark"].isin([*layout.columns, AVERAGE])].assign(value=value)
        )
    return pd.concat(parts, ignore_index=True)


def draw(panels: dict[str, tuple[Path, str]], layout: Layout, title: str, output: Path) -> None:
    """A panel for each ``heading: (runs, name of what is varied)``; a line a method on the first benchmark of the layout,
    and one on the average where all of it was measured."""
    plt = pyplot()
    parts = {heading: points(runs, layout).assign(panel=heading) for heading, (runs, _) in panels.items()}
    data = pd.concat(parts.values(), ignore_index=True)
    models = list(dict.fromkeys(data["model"]))
    shown = [(heading, name) for heading, part in parts.items() for name in dict.fromkeys(part["benchmark"])]
    # The average is drawn where there is room for it.
    shown = shown if len(panels) == 1 else [(heading, layout.columns[0]) for heading in panels]
    figure, axes = plt.subplots(len(models), len(shown), figsize=(7.2, 2.6 * len(models)), squeeze=False)
    for row, model in zip(axes, models, strict=True):
        for axis, (heading, name) in zip(row, shown, strict=True):
            part = parts[heading]
            part = part[(part["model"] == model) & (part["benchmark"] == name)].sort_values("value", kind="stable")
            varied, ticks = panels[heading][1], sorted(set(part["value"]))
            axis.set(xlabel=varied, ylabel=f"{name} ({layout.metric}, %)", title=f"{model}: {heading}")
            if len(ticks) > 2 and ticks[0] and ticks[-1] / ticks[0] >= 8:  # values that double
                axis.set_xscale("log")
                axis.minorticks_off()
            axis.set_xticks(ticks, [f"{value:g}" for value in ticks])
            low, high = part["low"].min(), part["high"].max()
            axis.set_ylim(max(0, low - 0.1 * (high - low) - 1), high + 0.1 * (high - low) + 1)
            lines(axis, part, "value", "reproduced", "method", "low", "high")
    save(data, titled(figure, title), output)
