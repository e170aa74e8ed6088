"""Figures, each written as SVG and PNG with the CSV it was drawn from."""

import json
import textwrap
from collections.abc import Sequence
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
    _save(data, _draw_dynamics(data, title), output)


def calibration(folders: Sequence[Path], title: str, output: Path) -> None:
    """Of process reward models, one a seed: the share of held-out turns that led to a correct answer, by the probability they
    were given, over how many turns that was. ``folders``: what `tamtrl prm-train` wrote, with prm.yaml."""
    parts = []
    for folder in folders:
        report = json.loads((folder / "report.json").read_text())
        label = (
            f"seed {files.read_yaml(folder / 'prm.yaml')['seed']}: accuracy {report['accuracy']:.3f}, AUROC {report['auroc']:.3f}"
        )
        parts.append(pd.read_csv(folder / "calibration.csv").assign(model=label))
    data = pd.concat(parts, ignore_index=True)
    _save(data, _draw_calibration(data, title), output)


def _save(data: pd.DataFrame, figure, output: Path) -> None:
    """The drawn data as CSV, and the figure as SVG and PNG, all named like ``output``."""
    stem = output.with_suffix("")
    with files.whole(stem.with_suffix(".csv")) as temporary:
        data.to_csv(temporary, index=False)
    for suffix in (".svg", ".png"):
        with files.whole(stem.with_suffix(suffix)) as temporary:
            # No date inside: the same data give the same file.
            figure.savefig(temporary, dpi=200, metadata={"Date": None} if suffix == ".svg" else None)


def _style():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import seaborn as sns

    sns.set_theme(context="paper", style="ticks", palette="colorblind")
    plt.rcParams["svg.hashsalt"] = "tamtrl"
    return plt, sns


def _draw_calibration(data: pd.DataFrame, title: str):
    plt, sns = _style()
    figure, (above, below) = plt.subplots(2, 1, figsize=(3.6, 4.2), height_ratios=[3, 1], sharex=True, layout="constrained")
    above.plot([0, 1], [0, 1], color="0.6", linestyle=":", linewidth=1)
    sns.lineplot(data, x="probability", y="share_correct", hue="model", style="model", markers=True, ax=above)
    sns.lineplot(data, x="probability", y="turns", hue="model", style="model", markers=True, ax=below, legend=False)
    above.set(ylabel="Share that led to a correct answer", ylim=(0, 1), xlim=(0, 1))
    above.legend(title=None, frameon=False, loc="upper left")
    below.set(xlabel="Probability given by the PRM", ylabel="Turns", ylim=(0, None))
    if title:
        figure.suptitle("\n".join(textwrap.wrap(title, 50)), fontsize="small")
    sns.despine(figure)
    return figure


def _draw_dynamics(data: pd.DataFrame, title: str):
    plt, sns = _style()
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
