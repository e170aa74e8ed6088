"""Table A1: the number of samples in each training and evaluation set, counted in the prepared files."""

from pathlib import Path

import pyarrow.parquet as pq

from tamtrl import frames
from tamtrl.errors import UserError
from tamtrl.paper.layout import Grid, Section, cell
from tamtrl.paper.layout import write as write_views

COLUMNS = ["use", "set", "paper", "source", "samples", "delta"]


def write(paper: Path, sets: Path, note: str, output: Path) -> None:
    """``sets``: a CSV of ``use`` (training, validation, evaluation), ``set`` and ``file``. ``output`` without its suffix gets
    .csv, .md, .tex and .html."""
    made = frames.read(sets)
    if made.empty:
        raise UserError(f"{sets} lists no data set.")
    made["samples"] = [pq.read_metadata(file).num_rows for file in made["file"]]
    published = frames.read(paper, numbers=["value"]).rename(columns={"value": "paper"})
    joined = made.merge(published, on=["use", "set"], how="left")
    joined["delta"] = joined["samples"] - joined["paper"]
    frames.write(joined[COLUMNS], output.with_suffix(".csv"))
    rows = [
        [row["use"], row["set"], cell(row["paper"], "{:.0f}"), f"{row['samples']:.0f}", cell(row["delta"], "{:+.0f}")]
        for _, row in joined.iterrows()
    ]
    kinds = [("samples", kind) for kind in ("paper", "reproduced", "delta")]
    grid = Grid([("", "use"), ("", "set"), *kinds], rows)
    caption = f"Samples in each data set. A dash: the paper's number is not known here. {note}".strip()
    write_views("tableA1", [Section(grid, caption)], output)
