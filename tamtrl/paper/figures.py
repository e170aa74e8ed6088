"""Figures of training: its dynamics (Figures 3 and 4 of the paper), the reward of each turn, a process reward model's
calibration."""

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from tamtrl import files, frames
from tamtrl.errors import UserError
from tamtrl.paper.scores import label, listed
from tamtrl.paper.style import lines, looks, name_ends, pyplot, save, titled

PANELS = {"outcome": "Outcome reward", "response_length": "Response length (tokens)"}
KINDS = {"relevant": "Chunks with relevant text", "other": "Chunks without"}


def read_metrics(runs: Path) -> pd.DataFrame:
    """All steps of all runs, with ``model``, ``run`` (method and variant) and ``seed``."""
    parts = []
    for row in frames.rows(listed(runs, "training run")):
        metrics = frames.read(row.metrics, text=[])
        metrics = metrics[metrics["outcome"].notna()]
        parts.append(metrics.assign(model=row.model, run=label(row.method, row.variant), seed=row.seed))
    return pd.concat(parts, ignore_index=True)


def dynamics(runs: Path, title: str, output: Path) -> None:
    """Outcome reward (mean over a rollout batch) and response length by step, a line a method, a band over seeds."""
    data = read_metrics(runs)[["model", "run", "seed", "step", *PANELS]]
    plt = pyplot()
    models = list(dict.fromkeys(data["model"]))
    figure, axes = plt.subplots(len(models), len(PANELS), figsize=(7.2, 2.6 * len(models)), squeeze=False)
    for row, model in zip(axes, models, strict=True):
        for axis, (column, text) in zip(row, PANELS.items(), strict=True):
            axis.set(xlabel="Step", ylabel=text, title=model)
            if column == "outcome":
                axis.set_ylim(0, max(1e-9, 1.05 * data[column].max()))
            axis.xaxis.get_major_locator().set_params(integer=True)
            lines(axis, data[data["model"] == model], "step", column, "run", markers=False)
    save(data, titled(figure, title), output)


def turn_rewards(runs: Path, title: str, output: Path) -> None:
    """The mean reward of each memory turn over the last half of training, by whether its chunk held relevant text."""
    metrics = read_metrics(runs)
    rows = []
    for (model, run, seed), part in frames.groups(metrics, ["model", "run", "seed"]):
        late = part[part["step"] > part["step"].max() / 2]
        for column in part.columns:
            turn, _, kind = column.removeprefix("reward_turn_").partition("_")
            if column.startswith("reward_turn_") and kind in KINDS and late[column].notna().any():
                rows.append(dict(model=model, run=run, seed=seed, turn=int(turn) + 1, kind=kind, reward=late[column].mean()))
    if not rows:
        raise UserError(f"{runs}: no run's metrics.csv has rewards by whether a chunk was relevant.")
    data = pd.DataFrame(rows)
    plt = pyplot()
    models = list(dict.fromkeys(data["model"]))
    figure, axes = plt.subplots(len(models), len(KINDS), figsize=(7.2, 2.6 * len(models)), squeeze=False, sharey="row")
    for row, model in zip(axes, models, strict=True):
        for axis, (kind, text) in zip(row, KINDS.items(), strict=True):
            part = data[(data["model"] == model) & (data["kind"] == kind)]
            axis.set(xlabel="Memory turn", ylabel="Reward", title=f"{model}: {text.lower()}", xticks=sorted(set(data["turn"])))
            axis.set_ylim(min(0, data["reward"].min()), 1.05 * max(data["reward"].max(), 1e-9))
            lines(axis, part, "turn", "reward", "run")
    save(data, titled(figure, title), output)


def calibration(folders: Sequence[Path], title: str, output: Path) -> None:
    """Of process reward models, one a seed: the share of held-out turns that led to a correct answer, by the probability they
    were given, over how many turns that was. ``folders``: what `tamtrl prm-train` wrote, with prm.yaml."""
    parts = []
    for folder in folders:
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        seed = files.read_yaml(folder / "prm.yaml")["seed"]
        text = f"seed {seed}: accuracy {report['accuracy']:.3f}, AUROC {report['auroc']:.3f}"
        parts.append(frames.read(folder / "calibration.csv", text=[]).assign(model=text))
    data = pd.concat(parts, ignore_index=True)
    plt = pyplot()
    figure, (above, below) = plt.subplots(2, 1, figsize=(4.6, 4.2), height_ratios=[3, 1], sharex=True)
    above.plot([0, 1], [0, 1], color="0.6", linestyle=":", linewidth=1)
    for name, look in looks(list(dict.fromkeys(data["model"]))).items():
        part = data[data["model"] == name]
        above.plot(part["probability"], part["share_correct"], label=name, **look)
        below.plot(part["probability"], part["turns"], **look)
    above.set(ylabel="Share that led to a correct answer", ylim=(0, 1), xlim=(0, 1))
    name_ends(above, [("as given", 1.0, 1.0, "0.4")])
    above.legend(loc="upper left", fontsize="small")
    below.set(xlabel="Probability given by the PRM", ylabel="Turns", ylim=(0, None))
    save(data, titled(figure, title, 4.6), output)
