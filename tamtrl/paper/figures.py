"""Figures, each written as SVG and PNG with the CSV it was drawn from."""

import textwrap
from pathlib import Path

import pandas as pd

from tamtrl import files
from tamtrl.errors import UserError

PANELS = {"outcome": "Outcome reward", "response_length": "Response length (tokens)"}


def dynamics(runs: Path, title: str, output: Path) -> None:
    """Training dynamics: outcome reward (mean over a rollout batch) and response length by step, a line a method, a band
    over seeds where there are several."""
    listed = pd.read_csv(runs, dtype={"model": str})
    if listed.empty:
        raise UserError(f"{runs} lists no training run; check `select` in the configuration.")
    parts = []
    for row in listed.itertuples():
        metrics = pd.read_csv(row.metrics)
        metrics = metrics.loc[metrics["outcome"].notna(), ["step", *PANELS]]
        name = row.method if row.variant == "main" else f"{row.method} ({row.variant})"
        parts.append(metrics.assign(model=row.model, run=name, seed=row.seed))
    data = pd.concat(parts, ignore_index=True)
    stem = output.with_suffix("")
    with files.whole(stem.with_suffix(".csv")) as temporary:
        data.to_csv(temporary, index=False)
    figure = _draw(data, title)
    for suffix in (".svg", ".png"):
        with files.whole(stem.with_suffix(suffix)) as temporary:
            # No date inside: the same data give the same file.
            figure.savefig(temporary, dpi=200, metadata={"Date": None} if suffix == ".svg" else None)


def _draw(data: pd.DataFrame, title: str):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import seaborn as sns

    sns.set_theme(context="paper", style="ticks", palette="colorblind")
    plt.rcParams["svg.hashsalt"] = "tamtrl"
    models = list(dict.fromkeys(data["model"]))
    figure, axes = plt.subplots(len(models), len(PANELS), figsize=(7.2, 2.6 * len(models)), squeeze=False, layout="constrained")
    runs = list(dict.fromkeys(data["run"]))
    for row, model in enumerate(models):
        part = data[data["model"] == model]
        for axis, (column, label) in zip(axes[row], PANELS.items(), strict=True):
            # Dashes as well as colours, so that the lines part in grey.
            sns.lineplot(part, x="step", y=column, hue="run", style="run", hue_order=runs, style_order=runs, ax=axis,
                         errorbar=("pi", 100), legend=axis is axes[0][0])  # fmt: skip
            axis.set(xlabel="Step", ylabel=label)
            axis.xaxis.get_major_locator().set_params(integer=True)
            axis.set_title(model, loc="left", fontsize="medium")
    axes[0][0].set_ylim(bottom=0)
    axes[0][0].legend(title=None, frameon=False)
    if title:
        figure.suptitle("\n".join(textwrap.wrap(title, 95)), fontsize="small")
    sns.despine(figure)
    return figure
