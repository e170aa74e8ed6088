"""Statistics, tables and the figure, from small CSV files."""

import pandas as pd
import pytest
from conftest import REPOSITORY

from tamtrl.errors import UserError
from tamtrl.paper import figures, samples, tables
from tamtrl.paper.statistics import bootstrap_interval
from tamtrl.paper.tables import Layout
from tamtrl.tasks import toy
from tamtrl.tasks.example import write_examples

PAPER = (
    "model,method,variant,benchmark,metric,value,source\n"
    "0.6B,base,main,average,score,1.94,notes\n0.6B,tamtrl,main,average,score,39.29,notes\n"
)


def test_bootstrap_interval():
    values = [0.0, 1.0] * 50
    low, high = bootstrap_interval([values], 0, "x")
    # the standard error of a mean of 100 fair coins is 0.05: the interval is close to 0.5 -+ 1.96 * 0.05
    assert low == pytest.approx(0.402, abs=0.02) and high == pytest.approx(0.598, abs=0.02)
    spread = [i**1.5 for i in range(50)]
    assert bootstrap_interval([spread], 0, "x") == bootstrap_interval([spread], 0, "x")
    assert bootstrap_interval([spread], 0, "x") != bootstrap_interval([spread], 1, "x")
    assert bootstrap_interval([[1.0] * 5], 0) == (1.0, 1.0)
    # an average over benchmarks weighs each alike, whatever their sizes
    assert bootstrap_interval([[1.0] * 5, [0.0] * 500], 0) == (0.5, 0.5)
    assert bootstrap_interval([[1.0] * 5, [0.0] * 500], 0, weights=[0.25, 0.75]) == (0.25, 0.25)


@pytest.fixture
def scored(tmp_path):
    """Two seeds of one run on two benchmarks; per-document scores chosen so that the means are plain."""
    rows = []
    for benchmark, seeds in {"a": ([1, 0, 1, 1], [1, 0, 0, 1]), "b": ([1, 1], [0, 0])}.items():
        for seed, em in enumerate(seeds):
            path = tmp_path / f"{benchmark}{seed}.csv"
            frame = pd.DataFrame({"document": range(len(em)), "id": [f"d{i}" for i in range(len(em))], "score": em, "em": em})
            frame.to_csv(path, index=False)
            rows.append(dict(model="0.6B", method="tamtrl", variant="main", seed=seed, benchmark=benchmark, documents=path))
    runs = tmp_path / "runs.csv"
    pd.DataFrame(rows).to_csv(runs, index=False)
    (tmp_path / "paper.csv").write_text(PAPER)
    return tmp_path


def test_table_means_deltas_and_unknown_cells(scored):
    layout = Layout(["a", "b"], average_over=["a", "b"], note="A note.")
    tables.write("table1", scored / "paper.csv", scored / "runs.csv", layout, scored / "out" / "t.csv")
    made = pd.read_csv(scored / "out" / "t.csv").set_index(["method", "metric", "benchmark"]).xs("score", level=1)
    a = made.loc[("tamtrl", "a")]
    # documents over two seeds: 1, 0, 0.5, 1 -> 62.5 %
    assert a["reproduced"] == 62.5 and a["n"] == 4 and a["seeds"] == 2 and pd.isna(a["paper"])
    average = made.loc[("tamtrl", "average")]
    assert average["reproduced"] == (62.5 + 50) / 2 and average["delta"] == pytest.approx(56.25 - 39.29)
    assert average["low"] <= average["reproduced"] <= average["high"]
    # the paper's row without a run of ours stays, with the other side empty
    assert made.loc[("base", "average")]["paper"] == 1.94 and pd.isna(made.loc[("base", "average")]["reproduced"])

    text = (scored / "out" / "t.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| 0.6B | tamtrl"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    # model, method, a, b (nothing published: one column each), and the average's paper, reproduced, delta
    assert len(cells) == 7 and cells[2].startswith("62.50 [") and cells[4] == "39.29" and cells[-1] == "+16.96"
    assert "A note." in text and "seeds: 2" in text and "exact match, or sub_em (any of the gold answers" in text
    assert "| 0.6B | tamtrl | em | 62.50 | 50.00 |" in text
    latex = (scored / "out" / "t.tex").read_text()
    assert latex.count(r"\\") == 4 and "–" not in latex and r"\toprule" in latex


@pytest.mark.trap(11)
def test_columns_can_be_means_and_metrics_are_named(scored):
    """The average of c and (a + b) / 2 weighs a and b a quarter each; every part is reported too."""
    runs = pd.read_csv(scored / "runs.csv")
    third = runs[runs["benchmark"] == "b"].assign(benchmark="c")
    pd.concat([runs, third]).to_csv(scored / "three.csv", index=False)
    layout = Layout(["c", "ab"], {"ab": ["a", "b"]}, ["c", "ab"], metric="em")
    tables.write("table1", scored / "paper.csv", scored / "three.csv", layout, scored / "t.csv")
    made = pd.read_csv(scored / "t.csv")
    made = made[(made["method"] == "tamtrl") & (made["metric"] == "em")].set_index("benchmark")["reproduced"]
    assert made["a"] == 62.5 and made["b"] == 50 and made["ab"] == 56.25 and made["average"] == (50 + 56.25) / 2
    text = (scored / "t.md").read_text()
    assert "In percent: exact match; 95 %" in text and "ab is the mean of a, b." in text
    assert "| model | method | metric | c | a | b |" in text
    with pytest.raises(UserError, match="can't show the metric 'bleu'; there are score"):
        Layout(metric="bleu")


def test_sample_counts(tmp_path):
    made = toy.generate("heldout", 7, 6, seed=0)
    write_examples(tmp_path / "qasper.parquet", made)
    (tmp_path / "sets.csv").write_text(f"use,set,file\nevaluation,qasper,{tmp_path / 'qasper.parquet'}\n")
    samples.write(REPOSITORY / "results" / "paper" / "tableA1.csv", tmp_path / "sets.csv", "A note.", tmp_path / "A1.csv")
    row = pd.read_csv(tmp_path / "A1.csv").iloc[0]
    assert (row["samples"], row["paper"], row["delta"]) == (7, 200, -193)
    assert "| evaluation | qasper | 200 | 7 | -193 |" in (tmp_path / "A1.md").read_text()


def test_average_needs_every_benchmark(scored):
    layout = Layout(["a", "b"], average_over=["a", "b", "c"])
    tables.write("table1", scored / "paper.csv", scored / "runs.csv", layout, scored / "t.csv")
    made = pd.read_csv(scored / "t.csv").set_index(["method", "metric", "benchmark"]).xs("score", level=1)
    assert pd.isna(made.loc[("tamtrl", "average")]["reproduced"])


def test_paper_alone(scored):
    tables.write("table1", scored / "paper.csv", None, Layout(), scored / "t.csv")
    text = (scored / "t.md").read_text()
    assert "39.29" in text and text.count("–") == 4


def test_models_of_another_scale_never_meet_the_papers_numbers(scored):
    runs = pd.read_csv(scored / "runs.csv").assign(model="toy")
    runs.to_csv(scored / "toy.csv", index=False)
    layout = Layout(["a"], average_over=["a", "b"], note="TOY")
    tables.write("table1", scored / "paper.csv", scored / "toy.csv", layout, scored / "t.csv")
    made = pd.read_csv(scored / "t.csv")
    assert made["paper"].isna().all() and set(made["model"]) == {"toy"}


def test_published_numbers_all_have_a_source():
    for path in (REPOSITORY / "results" / "paper").glob("*.csv"):
        frame = pd.read_csv(path)
        assert {"metric", "value", "source"} <= set(frame.columns), path
        assert frame["source"].notna().all() and frame["value"].notna().all(), path
        assert frame["source"].str.match(r"(text|notes|MemAgent)(:|$)").all(), path


def test_figure_and_its_data(tmp_path):
    rows = []
    for method in ("memagent", "tamtrl"):
        path = tmp_path / f"{method}.csv"
        # step 0 holds only a validation and is not drawn
        pd.DataFrame({"step": [0, 1, 2], "outcome": [None, 0.1, 0.2], "response_length": [None, 5, 6]}).to_csv(path)
        rows.append(dict(model="toy", method=method, variant="main", seed=0, metrics=path))
    pd.DataFrame(rows).to_csv(tmp_path / "runs.csv", index=False)
    figures.dynamics(tmp_path / "runs.csv", "A title", tmp_path / "f.csv")
    drawn = pd.read_csv(tmp_path / "f.csv")
    assert len(drawn) == 4 and set(drawn["run"]) == {"memagent", "tamtrl"}
    svg = (tmp_path / "f.svg").read_bytes()
    assert b"<svg" in svg and (tmp_path / "f.png").stat().st_size > 10_000
    figures.dynamics(tmp_path / "runs.csv", "A title", tmp_path / "f.csv")
    assert (tmp_path / "f.svg").read_bytes() == svg


def test_empty_lists_are_refused(tmp_path):
    (tmp_path / "runs.csv").write_text("model,method,variant,seed,metrics\n")
    with pytest.raises(UserError, match="lists no training run"):
        figures.dynamics(tmp_path / "runs.csv", "", tmp_path / "f.csv")
