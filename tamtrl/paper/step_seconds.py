"""Where the seconds of a training step should go, by arithmetic, as one mend after another is made; beside them what the paper's
step took."""

from pathlib import Path

import pandas as pd

from tamtrl import frames
from tamtrl.paper.style import pyplot, save, titled

PHASES = {
    "prefill": "#56B4E9", "sampling": "#0072B2", "log-probabilities": "#E69F00", "teacher": "#D55E00", "update": "#009E73"
}  # fmt: skip
PAPER = "the paper's step, measured"


def draw(planned: Path, paper: Path, steps: int, title: str, output: Path) -> None:
    """``planned``: model, state, phase, seconds, states in their order. ``paper``: published hours of runs of ``steps`` steps."""
    data = frames.read(planned, numbers=["seconds"])
    published = frames.read(paper, numbers=["value"])
    whole = published[
        (published["method"] == "tamtrl") & (published["variant"] == "main") & (published["metric"] == "hours_total")
    ]
    took = dict(zip(whole["model"], whole["value"] * 3600 / steps, strict=True))
    plt = pyplot()
    models = list(dict.fromkeys(data["model"]))
    bars = [[*([PAPER] if model in took else []), *dict.fromkeys(data.loc[data["model"] == model, "state"])] for model in models]
    figure, axes = plt.subplots(
        len(models), 1, figsize=(7.2, 0.6 + 0.28 * sum(map(len, bars)) + 0.4 * len(models)), squeeze=False,
        height_ratios=[len(states) + 1 for states in bars], sharex=True,
    )  # fmt: skip
    for axis, model, states in zip(axes[:, 0], models, bars, strict=True):
        ends = pd.Series(0.0, index=states)
        if model in took:
            axis.barh(PAPER, took[model], color="0.75")
            ends[PAPER] = took[model]
        for phase, colour in PHASES.items():
            part = data[(data["model"] == model) & (data["phase"] == phase)]
            axis.barh(part["state"], part["seconds"], left=ends[part["state"]], color=colour, label=phase)
            ends[part["state"]] += part["seconds"].to_numpy()
        for place, end in enumerate(ends):
            axis.annotate(f"{end:.0f}", (end, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize="small")
        axis.invert_yaxis()
        axis.set_title(model)
    axes[-1, 0].set_xlabel("Seconds of a step (lower bounds by arithmetic, but for the paper's)")
    axes[0, 0].legend(ncols=len(PHASES), fontsize="small", loc="lower center", bbox_to_anchor=(0.4, 1.15), frameon=False)
    save(data, titled(figure, title), output)
