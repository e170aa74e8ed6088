"""What the paper shows: tables, figures and the theorem, beside what was reproduced."""

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from tamtrl.commands.declare import NOTE, PAPER, TITLE, argument, needed, verb

if TYPE_CHECKING:
    from tamtrl.paper.scores import Layout

LAYOUT = (
    argument("--columns", help="benchmarks, or means of them", nargs="*", default=[]),
    argument("--means", help="columns that are the mean of benchmarks", nargs="*", default=[], metavar="NAME=A,B"),
    argument("--average-over", help="columns of the average; all must be there", nargs="*", default=[]),
    argument("--metric", help="what is shown; every metric is in the table's CSV", default="score"),
)


def layout(args: Namespace, note: str = "") -> "Layout":
    from tamtrl.paper.scores import Layout

    means = {name: parts.split(",") for name, _, parts in (mean.partition("=") for mean in args.means)}
    return Layout(args.columns, means, args.average_over, args.metric, note)


@verb(
    "table",
    "Set a table of published and reproduced numbers (CSV, Markdown and LaTeX).",
    argument("table"),
    PAPER,
    argument("--runs", Path, "CSV of the runs in this table and their score files"),
    *LAYOUT,
    argument("--note", help="a line under the table, e.g. what scale it was made at", default=""),
)
def table(args: Namespace) -> None:
    from tamtrl.paper.tables import write

    write(args.table, args.paper, args.runs, layout(args, args.note), args.output)


@verb(
    "table-samples",
    "Set the table of sample counts from prepared data sets.",
    PAPER,
    needed("--sets", Path, "CSV of use, set and file"),
    NOTE,
)
def table_samples(args: Namespace) -> None:
    from tamtrl.paper.samples import write

    write(args.paper, args.sets, args.note, args.output)


@verb(
    "table-hours",
    "Set the table of hours from the times that jobs recorded.",
    PAPER,
    needed("--jobs", Path, "CSV of runs, parts, time files and devices"),
    argument("--projected", Path, "CSV of projected training times, shown apart"),
    NOTE,
)
def table_hours(args: Namespace) -> None:
    from tamtrl.paper.hours import write

    write(args.paper, args.jobs, args.projected, args.note, args.output)


@verb(
    "claims",
    "Hold what the paper claims against what was reproduced.",
    needed("--claims", Path, "TSV of claims: which run is above or below which"),
    needed("--runs", Path, "CSV of all runs and their score files"),
    argument("--hours", Path, "the long table of hours (tableA2.csv)"),
    *LAYOUT,
    NOTE,
)
def claims(args: Namespace) -> None:
    from tamtrl.paper.claims import write

    write(args.claims, args.runs, args.hours, layout(args, args.note), args.output)


@verb(
    "figure",
    "Draw a figure of training or of memories.",
    argument("name", choices=("dynamics", "turn_rewards", "memory_length", "survival")),
    needed("--runs", Path, "CSV of runs and their metrics (the first two) or predictions files"),
    TITLE,
)
def figure(args: Namespace) -> None:
    from tamtrl.paper import figures, memories

    match args.name:
        case "dynamics":
            figures.dynamics(args.runs, args.title, args.output)
        case "turn_rewards":
            figures.turn_rewards(args.runs, args.title, args.output)
        case "memory_length" | "survival":
            memories.draw(args.runs, args.name == "memory_length", args.title, args.output)


@verb(
    "figure-sweep",
    "Draw scores over a setting that was varied, a panel each list of runs.",
    needed("--runs", Path, "CSV of runs, their score files and the varied value", nargs="+"),
    needed("--headings", help="of the panels", nargs="+"),
    needed("--varied", help="names of what is varied", nargs="+"),
    *LAYOUT,
    TITLE,
)
def figure_sweep(args: Namespace) -> None:
    from tamtrl.paper.sweeps import draw

    panels = dict(zip(args.headings, zip(args.runs, args.varied, strict=True), strict=True))
    draw(panels, layout(args), args.title, args.output)


@verb(
    "figure-calibration",
    "Draw how far a process reward model's probabilities are right.",
    argument("folders", Path, "what prm-train wrote, with prm.yaml; one a seed", nargs="+"),
    TITLE,
)
def figure_calibration(args: Namespace) -> None:
    from tamtrl.paper.figures import calibration

    calibration(args.folders, args.title, args.output)


@verb(
    "figure-step-seconds",
    "Draw where the seconds of a training step should go.",
    needed("--planned", Path, "CSV of model, state, phase and seconds"),
    PAPER,
    needed("--steps", type=int, help="of the published runs"),
    TITLE,
)
def figure_step_seconds(args: Namespace) -> None:
    from tamtrl.paper.step_seconds import draw

    draw(args.planned, args.paper, args.steps, args.title, args.output)


@verb(
    "run-cards",
    "Set a table of trained runs: settings, versions, commit, time, hardware.",
    needed("--runs", Path, "CSV of runs and their card.json"),
    NOTE,
)
def run_cards(args: Namespace) -> None:
    from tamtrl.paper.records import cards

    cards(args.runs, args.note, args.output)


@verb(
    "open-choices",
    "Set the table of choices that the paper leaves open.",
    needed("--choices", Path, "docs/choices.md"),
    needed("--config", Path, "the configuration as it was used"),
    NOTE,
)
def open_choices(args: Namespace) -> None:
    from tamtrl.paper.records import choices

    choices(args.choices, args.config, args.note, args.output)


@verb("theorem", "Check Theorem 1 on random policies that can be enumerated.", argument("--policies", int, default=1000))
def theorem(args: Namespace) -> None:
    from tamtrl.paper.theorem import write

    write(args.policies, args.output)
