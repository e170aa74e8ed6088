"""Table A2: the hours of every method, from the times that jobs recorded, and beside them a projection from arithmetic."""

from pathlib import Path
from typing import cast

import pandas as pd

from tamtrl import frames
from tamtrl.paper.layout import Grid, Section, cell
from tamtrl.paper.layout import write as write_views
from tamtrl.paper.scores import RUN_KEYS, label, listed

# Parts of a method's hours: where its training signal comes from, the PRM's own training, and the policy's.
DATA, PRM, TRAINING = "data", "prm_training", "training"
COLUMNS = [*RUN_KEYS, "metric", "paper", "source", "reproduced", "low", "high", "seeds", "delta"]
ORDER = ["hours_data", "hours_prm_training", "hours_training", "hours_total", "device_hours"]
NAMED = {"hours_rl": "hours_training"}  # the paper's word for it


def seconds(path: Path) -> float:
    """Of one job: what its ``--time`` wrote (.tsv), or the finished steps of a training (metrics.csv). A step done twice,
    because a job was killed after it, counts once, and starting up doesn't count."""
    if path.suffix == ".tsv":
        return float(frames.read(path, numbers=["seconds"], separator="\t")["seconds"].sum())
    return float(frames.read(path, numbers=["seconds_step"])["seconds_step"].sum())


def measured(jobs: pd.DataFrame) -> pd.DataFrame:
    """Hours by run and part, the mean over seeds (and, as low and high, their range). ``jobs``: the run keys, ``seed``,
    ``part``, the ``file`` of the time, and how many ``devices`` the job had. Hours of jobs that ran beside each other
    are added up."""
    jobs = jobs.assign(hours=[seconds(Path(file)) / 3600 for file in jobs["file"]])
    jobs["device_hours"] = jobs["hours"] * jobs["devices"]
    by_part = jobs.groupby([*RUN_KEYS, "seed", "part"], sort=False, dropna=False)["hours"].sum().unstack("part", sort=False)
    table = by_part.reindex(columns=[DATA, PRM, TRAINING]).add_prefix("hours_")
    table["hours_total"] = by_part.sum(axis=1)
    table["device_hours"] = jobs.groupby([*RUN_KEYS, "seed"], sort=False, dropna=False)["device_hours"].sum()
    stacked = cast(pd.Series, table.rename_axis(columns="metric").stack())  # its columns have one level
    long = stacked.rename("hours").dropna().reset_index()
    grouped = long.groupby([*RUN_KEYS, "metric"], sort=False, dropna=False)["hours"]
    return grouped.agg(reproduced="mean", low="min", high="max", seeds="count").reset_index()


def write(paper: Path, jobs: Path, projection: Path | None, note: str, output: Path) -> None:
    """``output`` without its suffix gets .csv, .md, .tex and .html. ``projection``: of the rule `project`, shown apart."""
    made = measured(listed(jobs, "job for Table A2", numbers=["devices"]))
    published = frames.read(paper, numbers=["value"]).rename(columns={"value": "paper"}).drop(columns="benchmark")
    published = published[published["model"].isin(made["model"])].replace({"metric": NAMED})
    joined = made.merge(published, on=[*RUN_KEYS, "metric"], how="outer", sort=False)
    joined["delta"] = joined["reproduced"] - joined["paper"]
    joined["_order"] = joined["metric"].map(ORDER.index)
    runs = list(dict.fromkeys(map(tuple, pd.concat([made, published])[RUN_KEYS].values)))
    joined["_run"] = [runs.index(tuple(row)) for row in joined[RUN_KEYS].values]
    joined = joined.sort_values(["_run", "_order"], kind="stable")[COLUMNS].reset_index(drop=True)
    frames.write(joined, output.with_suffix(".csv"), "%.4f")
    about = (
        "Hours that jobs took, added up, the mean over seeds. Data: trajectories and labels; training: its finished steps, "
        "starting up left out; device hours: times the GPUs (on CPUs, the ranks) that jobs are configured to have. A dash: none, "
        f"or not known. {note}"
    )
    sections = [Section(_grid(joined), about.strip())]
    if projection is not None:
        planned = frames.read(projection, numbers=["step_seconds", "hours", "gpu_hours"])
        columns = [
            ("", "model"),
            ("", "method"),
            ("projected", "seconds a step"),
            ("projected", "training hours"),
            ("projected", "GPU hours"),
        ]
        rows = [
            [
                row.model,
                label(row.method, row.variant),
                *(cell(value, "{:.1f}") for value in (row.step_seconds, row.hours, row.gpu_hours)),
            ]
            for row in frames.rows(planned)
        ]
        if rows:
            sections.append(Section(Grid(columns, rows), planned["assumptions"].iloc[0], "projected, not measured"))
    write_views("tableA2", sections, output)


def _grid(joined: pd.DataFrame) -> Grid:
    published = set(joined.loc[joined["paper"].notna(), "metric"])
    kinds = [(name, kind) for name in ORDER for kind in (("paper", "reproduced") if name in published else ("reproduced",))]
    rows = []
    for (model, method, variant), part in frames.groups(joined, RUN_KEYS):
        values = part.set_index("metric")
        cells = [cell(values[kind].get(name, float("nan")), "{:.3g}") for name, kind in kinds]
        rows.append([model, label(method, variant), *cells])
    return Grid([("", "model"), ("", "method"), *((name.replace("_", " "), kind) for name, kind in kinds)], rows)
