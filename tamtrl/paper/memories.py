"""Figures of what memories do, turn by turn: how long they are, and where the gold answer enters and leaves them."""

from pathlib import Path

import pandas as pd

from tamtrl import frames
from tamtrl.answers.scoring import sub_em
from tamtrl.evaluation.predictions import read_predictions
from tamtrl.paper.scores import label, listed
from tamtrl.paper.style import lines, pyplot, save, titled

PANELS = {"holds": "Memory holds a gold answer", "enters": "It enters", "leaves": "It leaves"}


def traces(records: list[dict]) -> pd.DataFrame:
    """Of each memory: ``document``, ``turn`` (from 1), ``tokens``, and, as 0 or 1, whether it ``holds`` a gold answer,
    whether that ``enters`` (the memory before didn't have it) or ``leaves``. Failed documents have the memories that
    they got to."""
    rows = []
    for record in records:
        before = False
        for turn, (memory, tokens) in enumerate(zip(record["memories"], record["tokens"], strict=False), start=1):
            holds = bool(sub_em(memory, record["answers"], "alternatives"))
            rows.append(
                (record["document"], turn, tokens, float(holds), float(holds and not before), float(before and not holds))
            )
            before = holds
    return pd.DataFrame(rows, columns=["document", "turn", "tokens", "holds", "enters", "leaves"])


def draw(runs: Path, lengths: bool, title: str, output: Path) -> None:
    """``runs``: a CSV with a row per run and seed and its ``predictions``. Either memory lengths by turn or where the
    answer is."""
    parts = []
    for row in frames.rows(listed(runs)):
        by_turn = (
            traces(read_predictions(row.predictions)).groupby("turn", dropna=False).mean().drop(columns="document").reset_index()
        )
        parts.append(by_turn.assign(model=row.model, run=label(row.method, row.variant), seed=row.seed))
    data = pd.concat(parts, ignore_index=True)
    plt = pyplot()
    models, panels = list(dict.fromkeys(data["model"])), {"tokens": "Memory length (tokens)"} if lengths else PANELS
    width = 4.6 if lengths else 9.6
    figure, axes = plt.subplots(len(models), len(panels), figsize=(width, 2.8 * len(models)), squeeze=False)
    for row, model in zip(axes, models, strict=True):
        for axis, (column, text) in zip(row, panels.items(), strict=True):
            part = data[data["model"] == model]
            axis.set(xlabel="Memory turn", ylabel="Tokens" if lengths else "Share of memories", title=f"{model}: {text.lower()}")
            axis.set(xticks=sorted(set(part["turn"])), ylim=(0, 1.05 * max(part[column].max(), 1e-9)))
            lines(axis, part, "turn", column, "run")
    save(data[["model", "run", "seed", "turn", *panels]], titled(figure, title, width), output)
