"""What the paper claims in words, held against what was reproduced: who is above whom, and whether chance would do it."""

from pathlib import Path
from typing import Any

import pandas as pd

from tamtrl import frames
from tamtrl.errors import UserError
from tamtrl.paper.layout import DASH, Cell, Grid, Section
from tamtrl.paper.layout import write as write_views
from tamtrl.paper.scores import AVERAGE, METRICS, RUN_KEYS, Layout, Scores, difference, listed, read

COLUMNS = [
    "model",
    "claim",
    "effect",
    "low",
    "high",
    "n",
    "seeds",
    "verdict",
    "quantity",
    "first",
    "second",
    "direction",
    "source",
]
UNITS = {AVERAGE: "points", "hours_total": "%"}
DIRECTIONS = {"above": 1, "below": -1}
HOLDS, FAILS, NOT_SHOWN, NOT_RUN = "holds", "fails", "not shown", "not run"


def verdict(effect: float, low: float, high: float, direction: str) -> str:
    """``direction``: of the effect that is claimed. An interval that holds 0 shows nothing."""
    if low <= 0 <= high:
        return NOT_SHOWN
    return HOLDS if (effect > 0) == (DIRECTIONS[direction] > 0) else FAILS


def judged(claims: pd.DataFrame, runs: pd.DataFrame, hours: pd.DataFrame | None, layout: Layout) -> pd.DataFrame:
    """A row a model and claim. Averages are compared by the paired bootstrap over questions and the seeds both have; hours by
    their ratio, which has no interval. ``hours``: the long table A2."""
    scored = dict(read(runs))
    rows = []
    for model in dict.fromkeys(runs["model"]):
        for claim in frames.rows(claims):
            if claim.quantity not in UNITS or claim.direction not in DIRECTIONS:
                raise UserError(
                    f"The claim {claim.claim!r} is of {claim.quantity!r}, {claim.direction!r}; it must be of "
                    f"{' or '.join(UNITS)}, {' or '.join(DIRECTIONS)}."
                )
            pair = [(model, *side.split()) for side in (claim.first, claim.second)]
            found = _of_averages(scored, pair, layout) if claim.quantity == AVERAGE else _of_hours(hours, pair)
            judgement = verdict(found["effect"], found["low"], found["high"], claim.direction) if found else NOT_RUN
            rows.append(claim._asdict() | {"model": model, "verdict": judgement} | (found or {}))
    return pd.DataFrame(rows, columns=COLUMNS)


def _of_averages(scored: dict[tuple, Scores], pair: list[tuple], layout: Layout) -> dict[str, Any] | None:
    first, second = (scored.get(key) for key in pair)
    weights = layout.cells().get(AVERAGE, {})
    if first is None or second is None or not weights or not set(weights) <= set(first) & set(second):
        return None
    found = difference(first, second, weights, layout.metric, (pair[0][0], *map(" ".join, (pair[0][1:], pair[1][1:]))))
    return {"effect": found["reproduced"]} | {key: found[key] for key in ("low", "high", "n", "seeds")}


def _of_hours(hours: pd.DataFrame | None, pair: list[tuple]) -> dict[str, Any] | None:
    if hours is None:
        return None
    total = hours[(hours["metric"] == "hours_total") & hours["reproduced"].notna()].set_index(RUN_KEYS)
    if not all(key in total.index for key in pair):
        return None
    first, second = (total.loc[[key]].iloc[0] for key in pair)
    effect = 100 * (first["reproduced"] / second["reproduced"] - 1)
    return {"effect": effect, "low": effect, "high": effect, "seeds": min(first["seeds"], second["seeds"])}


def write(claims: Path, runs: Path, hours: Path | None, layout: Layout, output: Path) -> None:
    """``output`` without its suffix gets .csv, .md, .tex and .html."""
    table_of_hours = frames.read(hours, numbers=["reproduced", "seeds"]) if hours else None
    made = judged(frames.read(claims, separator="\t"), listed(runs), table_of_hours, layout)
    frames.write(made, output.with_suffix(".csv"), "%.4f")
    about = (
        f"Effect: the first run's average minus the second's, in points ({METRICS[layout.metric]}), with the 95 % interval of a "
        "paired bootstrap over questions and common seeds; of hours, by how much more the first takes, without an interval. An "
        "interval that holds 0 shows nothing; with one seed it lacks the chance of training. Not corrected for their number."
    )
    write_views("claims", [Section(_grid(made), f"{about} {layout.note}".strip())], output)


def _grid(made: pd.DataFrame) -> Grid:
    rows: list[list[Cell]] = []
    for row in frames.rows(made):
        effect = DASH
        if row.verdict != NOT_RUN:
            interval = "" if row.low == row.high else f" [{row.low:+.1f}, {row.high:+.1f}]"
            effect = f"{row.effect:+.1f} {UNITS[row.quantity]}{interval}"
        counts = [DASH if pd.isna(count) else str(int(count)) for count in (row.n, row.seeds)]
        rows.append([row.model, row.claim, effect, *counts, row.verdict, f"{row.first} / {row.second}", row.source])
    heads = ("model", "claim", "effect", "questions", "seeds", "verdict", "runs", "source")
    return Grid([("", head) for head in heads], rows)
