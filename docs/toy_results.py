"""Sections of docs/toy.md, made from toy results that were taken over into docs/toy."""

from pathlib import Path

import pandas as pd
import yaml
from markdown_table import table
from rooms import REPOSITORY

from tamtrl import frames
from tamtrl.errors import UserError

TOY = REPOSITORY / "docs" / "toy"
DASH = "–"
NUMBERS = ("reproduced", "low", "high", "p", "p_corrected", "seeds", "seed_sd")
RUNS = {  # as a table calls a run where its method's name alone doesn't do
    ("base", "main"): "base (untrained)",
    ("tamtrl", "main"): "tamtrl (Eq. 7 as noted: all turns and rollouts of a query)",
    ("tamtrl", "turn_group"): "tamtrl, turn_group (rollouts of the same query and turn)",
}
SWEEPS = [  # file, its panel, what is varied
    ("fig5_documents", "varied in training", "paragraphs of training documents (tested at 6)"),
    ("fig5_documents", "varied in the test", "paragraphs of test documents (trained at 6)"),
    ("fig6_chunk_size", "varied in training", "chunk size in training (tested at 28 tokens)"),
    ("fig6_chunk_size", "varied in the test", "chunk size in the test (trained at 28)"),
    ("fig7_data", "less training data", "training questions"),
]
TABLES = {"tables/table1.csv", "tables/table2.csv", "tables/table3.csv"}
CLAIMS = "tables/claims.csv"
# A world is a configuration and the folder of what is shown of its results.
WORLDS = {"toy": TABLES | {CLAIMS}, "careless": {"tables/table1.csv"}}
SWEPT_IN = "careless"  # the world of the sweeps shown, which stand as they were made
SHOWN = ("score", "score_minus_tamtrl")  # metrics
SWEPT = "toy_multihop"  # the benchmark


def folder_of(world: str) -> Path:
    return TOY if world == "toy" else TOY / world


def take_over(results: Path, world: str, to: Path | None = None) -> None:
    """Of the tables and sweeps of a world's results what docs/toy.md shows, in the columns that they have."""
    to = to or folder_of(world)
    for name in sorted(WORLDS[world]):
        made = frames.read(results / name)
        if name != CLAIMS:
            made = made[made["metric"].isin(SHOWN)]
        to.mkdir(exist_ok=True)
        frames.write(made, to / Path(name).name)


def kept(name: str, folder: Path | None = None) -> pd.DataFrame:
    numbers = [*NUMBERS, *(["value"] if name.startswith("fig") else [])]
    found = frames.read((folder or TOY) / f"{name}.csv", numbers=numbers)
    return found[found["metric"].isin(SHOWN)]


def interval(row: pd.Series, form: str = "{:.1f}") -> str:
    shown = form.format(row["reproduced"])
    return shown if pd.isna(row["low"]) else f"{shown} [{form.format(row['low'])}, {form.format(row['high'])}]"


def over_seeds(row: pd.Series) -> str:
    """How many, and the standard deviation over them where there are several."""
    return f"{row['seeds']:.0f}" if pd.isna(row["seed_sd"]) else f"{row['seeds']:.0f} (sd {row['seed_sd']:.1f})"


def averages(world: str = "toy") -> str:
    """Table 1: a row a run, the average with its interval first."""
    made = kept("table1", folder_of(world))
    made = made[made["metric"] == "score"]
    names = yaml.safe_load((REPOSITORY / "config" / "toy.yaml").read_text(encoding="utf-8"))["average_over"]
    rows = []
    for (method, variant), run in made.groupby(["method", "variant"], sort=False):
        scores = run.set_index("benchmark")
        average = scores.loc["average"]
        row = [RUNS.get((method, variant), method), interval(average), over_seeds(average)]
        rows.append(row + [f"{scores.loc[name, 'reproduced']:.1f}" for name in names])
    return table(["method", "average", "seeds", *names], rows)


def ablations() -> str:
    """Tables 2 and 3: each variant's average, its difference from tamtrl, and the paper's."""
    rows = []
    for name in ("table2", "table3"):
        published = frames.read(REPOSITORY / "results" / "paper" / f"{name}.csv", numbers=["value"])
        made = kept(name)
        made = made[(made["benchmark"] == "average") & (made["variant"] != "main")]
        for variant, run in made.groupby("variant", sort=False):
            values = run.set_index("metric")
            row = values.loc["score_minus_tamtrl"]
            theirs = published[(published["model"] == "0.6B") & (published["variant"] == variant)].set_index("metric")["value"]
            paper = f"{theirs['score_minus_tamtrl']:+.2f}" if "score_minus_tamtrl" in theirs else DASH
            paper = "collapses to 0" if theirs.get("score") == 0 else paper
            called = f"{variant} (ours)" if row["ours"] == "True" else str(variant)
            minus, p = interval(row, "{:+.1f}"), f"{row['p_corrected']:.3f}"
            rows.append([called, interval(values.loc["score"]), minus, over_seeds(row), p, paper])
    return table(["variant", "average", "minus tamtrl", "seeds", "p", "in the paper, 0.6B"], rows)


def sweeps() -> str:
    """Figures 5 to 7: what is varied, and the score of each value; other methods' in the same order."""
    rows = []
    for name, panel, varied in SWEEPS:
        points = kept(name, folder_of(SWEPT_IN))
        points = points[(points["panel"] == panel) & (points["benchmark"] == SWEPT)].sort_values("value", kind="stable")
        if points.empty:
            raise UserError(
                f"{folder_of(SWEPT_IN)}/{name}.csv has no panel {panel!r} of {SWEPT}; headings: tamtrl/workflow/sweeps.py."
            )
        told = []
        for method in sorted(set(points["method"]), key=lambda method: (method != "tamtrl", method)):
            of_it = points.loc[points["method"] == method, ["value", "reproduced"]]
            if method == "tamtrl":
                told.append(", ".join(f"{value:g}: {score:.1f}" for value, score in of_it.values))
            else:
                told.append(f"`{method}` " + ", ".join(f"{score:.1f}" for score in of_it["reproduced"]))
        rows.append([varied, "; ".join(told)])
    return table(["varied", "values and scores"], rows)


def claims() -> str:
    """Each claim of the paper with its effect and verdict; what was not run is left out."""
    made = frames.read(TOY / "claims.csv", numbers=["effect", "low", "high", "seeds"])
    rows = []
    for one in frames.rows(made[made["verdict"] != "not run"]):
        percent = " %" if one.quantity.startswith("hours") else ""
        effect = f"{one.effect:+.1f}{percent}" + ("" if one.low == one.high else f" [{one.low:+.1f}, {one.high:+.1f}]")
        rows.append([one.claim, f"**{one.verdict}**", effect, f"{one.seeds:.0f}", one.source.replace("notes: ", "")])
    return table(["claim", "here", "effect", "seeds", "in the paper"], rows)


def premise() -> str:
    """The probability of the right memory by kind of turn, in both views; a backbone a file."""
    rows = []
    for path in sorted(TOY.glob("*.premise.csv")):
        made = frames.read(path, numbers=["turns", "probability", "low", "high"])
        for kind in dict.fromkeys(made["kind"]):
            views = list(frames.rows(made[made["kind"] == kind]))
            shown = [f"{one.probability:.2f} [{one.low:.2f}, {one.high:.2f}]" for one in views]
            rows.append([path.name.removesuffix(".premise.csv"), kind, f"{views[0].turns:.0f}", *shown])
    return table(["backbone", "turn", "turns", "full section", "relevant text alone"], rows)
