"""Statistics, tables and run cards, from small CSV files."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from conftest import REPOSITORY

from tamtrl.errors import UserError
from tamtrl.paper import hours, records, samples, tables
from tamtrl.paper.scores import Layout
from tamtrl.statistics import bootstrap_interval, holm, paired_bootstrap
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
            frame.assign(strict=[1] + [0] * (len(em) - 1)).to_csv(path, index=False)
            rows.append(
                dict(model="0.6B", method="tamtrl", variant="main", seed=seed, benchmark=benchmark, documents=path, ours=False)
            )
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
    # every metric of each benchmark and of the average; the paper may have used the strict one
    assert "| 0.6B | tamtrl | strict | 25.00 | 50.00 | 37.50 |\n| 0.6B | tamtrl | em | 62.50 | 50.00 | 56.25 |" in text
    assert "strict: the training verifier (the last box equal to a gold answer" in text
    latex = (scored / "out" / "t.tex").read_text()
    assert latex.count(r"\\") == 7 and "–" not in latex and r"\toprule" in latex


def test_the_papers_score_stands_beside_the_metric_that_is_shown(scored):
    layout = Layout(["a"], average_over=["a", "b"], metric="strict")
    tables.write("table1", scored / "paper.csv", scored / "runs.csv", layout, scored / "t.csv")
    made = pd.read_csv(scored / "t.csv").set_index(["method", "metric", "benchmark"]).loc[("tamtrl", "strict", "average")]
    # one of four documents of a and one of two of b, with either seed
    assert (made["reproduced"], made["paper"]) == (37.5, 39.29) and made["delta"] == pytest.approx(37.5 - 39.29)


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


def test_marks_ours_and_differences(tmp_path):
    """Per document, seed 0: tamtrl 1 1 1 1, memagent 1 1 0 1, prm 0 1 0 1, and a variant of ours that is as good as tamtrl."""
    scores = {("tamtrl", "main"): [1, 1, 1, 1], ("tamtrl", "turn_group"): [1, 1, 1, 1], ("memagent", "main"): [1, 1, 0, 1],
              ("prm", "main"): [0, 1, 0, 1]}  # fmt: skip
    rows = []
    for (method, variant), values in scores.items():
        path = tmp_path / f"{method}{variant}.csv"
        pd.DataFrame({"document": range(4), "id": list("abcd"), "score": values, "em": values}).to_csv(path, index=False)
        rows.append(dict(model="0.6B", method=method, variant=variant, seed=0, benchmark="a", documents=path))
    listed = pd.DataFrame(rows).assign(ours=lambda frame: frame["variant"] == "turn_group")
    listed.to_csv(tmp_path / "runs.csv", index=False)
    (tmp_path / "paper.csv").write_text(
        "model,method,variant,benchmark,metric,value,source\n0.6B,memagent,main,average,score_minus_tamtrl,-2.03,notes\n"
    )
    tables.write("t", tmp_path / "paper.csv", tmp_path / "runs.csv", Layout(["a"], average_over=["a"]), tmp_path / "t.csv")
    text, tex = (tmp_path / "t.md").read_text(), (tmp_path / "t.tex").read_text()
    assert "| 0.6B | tamtrl | **100.00** [" in text and "| 0.6B | memagent | <u>75.00</u> [" in text
    assert "| 0.6B | prm | 50.00 [" in text
    # ours stands last, behind a line of its own, and takes no mark
    assert "| 0.6B | tamtrl (turn_group), ours | 100.00 [" in text
    assert text.index("turn_group") > text.index("| prm |") and r"\textbf{100.00}" in tex and r"\underline{75.00}" in tex
    assert tex.count(r"\midrule") == 3  # under two headings, and before ours
    made = pd.read_csv(tmp_path / "t.csv")
    difference = made[made["metric"] == "score_minus_tamtrl"].set_index(["method", "variant"])
    assert difference.loc[("memagent", "main"), ["paper", "reproduced"]].tolist() == [-2.03, -25]
    assert difference.loc[("memagent", "main"), "delta"] == pytest.approx(-22.97)
    assert difference.loc[("tamtrl", "turn_group"), "p"] == 1 and len(difference) == 3
    assert "corrected for 3 comparisons (Holm)" in text and "With one seed" in text
    # scored on other documents: no difference
    other = pd.read_csv(tmp_path / "prmmain.csv").assign(id=list("abce"))
    other.to_csv(tmp_path / "prmmain.csv", index=False)
    with pytest.raises(UserError, match="not scored on the same documents"):
        tables.write("t", tmp_path / "paper.csv", tmp_path / "runs.csv", Layout(["a"], average_over=["a"]), tmp_path / "t.csv")


def test_paired_bootstrap_and_holm():
    # always better: the interval is the point, and p the smallest there is
    assert paired_bootstrap([np.full((5, 2), 0.25)], 0, weights=[1.0]) == (0.25, 0.25, 2 / 2001)
    # no difference at all
    assert paired_bootstrap([np.zeros((5, 1))], 0, weights=[1.0]) == (0.0, 0.0, 1.0)
    # 100 pairs, half +1, half -1: the standard error is 0.1
    low, high, p = paired_bootstrap([np.array([[1.0], [-1.0]] * 50)], 0, weights=[1.0])
    assert low == pytest.approx(-0.196, abs=0.03) and high == pytest.approx(0.196, abs=0.03) and p > 0.7
    # seeds that disagree widen it: with two, either is drawn twice half of the time
    low, high, _ = paired_bootstrap([np.array([[1.0, -1.0]] * 400)], 0, weights=[1.0])
    assert (low, high) == (-1, 1)
    # Holm by hand: 4 * 0.01, 3 * 0.02, then 2 * 0.03 = 0.06 and 0.04 raised to it
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06]) and holm([0.6, 0.7]) == [1, 1]


def test_table_of_hours(tmp_path):
    """Two steps of half an hour, and two shards of an hour and half an hour on 2 devices: 1 h, 1.5 h, and 1 * 8 + 1.5 * 2."""
    pd.DataFrame({"step": [1, 2], "seconds_step": [1800, 1800]}).to_csv(tmp_path / "metrics.csv")
    for shard, took in enumerate((3600, 1800)):
        (tmp_path / f"{shard}.tsv").write_text(f"seconds\n{took}\n")
    run = dict(model="0.6B", method="prm", variant="main", seed=0)
    jobs = [run | dict(part="training", file=tmp_path / "metrics.csv", devices=8)]
    jobs += [run | dict(part="data", file=tmp_path / f"{shard}.tsv", devices=2) for shard in (0, 1)]
    pd.DataFrame(jobs).to_csv(tmp_path / "jobs.csv", index=False)
    hours.write(REPOSITORY / "results" / "paper" / "tableA2.csv", tmp_path / "jobs.csv", None, "A note.", tmp_path / "A2.csv")
    made = pd.read_csv(tmp_path / "A2.csv").set_index(["method", "metric"])
    reproduced = made["reproduced"].loc["prm"]
    assert reproduced["hours_data"] == 1.5 and reproduced["hours_training"] == 1 and reproduced["hours_total"] == 2.5
    assert reproduced["device_hours"] == 11
    # the paper's RL hours stand beside ours, its PRM's training beside nothing
    assert made.loc[("prm", "hours_training"), "paper"] == 38.66 and made.loc[("prm", "hours_prm_training"), "paper"] == 2.05
    assert made.loc[("tamtrl", "hours_total"), "paper"] == 33.79 and "| 0.6B | prm |" in (tmp_path / "A2.md").read_text()


def test_run_cards_show_what_differs(tmp_path):
    rows = []
    for method, settings in {"memagent": {"lr": 1, "std": True}, "tamtrl": {"lr": 2, "std": True, "view": "chunk"}}.items():
        card = {
            "run": {"method": method, "training": settings}, "code": {"commit": "0123456789abcdef", "dirty": True},
            "versions": {"torch": "2.0", "numpy": "2.1"}, "model": "abc", "ended": "2026-01-02T03:04:05+0000", "seconds": 59.6,
            "hardware": {"cores": 2, "processor": "x86_64", "memory_gib": 23.5, "gpus": []},
        }  # fmt: skip
        (tmp_path / f"{method}.json").write_text(json.dumps(card))
        rows.append(dict(model="toy", method=method, variant="main", seed=0, card=tmp_path / f"{method}.json"))
    pd.DataFrame(rows).to_csv(tmp_path / "runs.csv", index=False)
    records.cards(tmp_path / "runs.csv", "A note.", tmp_path / "cards.csv")
    line = next(line for line in (tmp_path / "cards.md").read_text().splitlines() if "| tamtrl |" in line)
    # what only one of them has does not differ
    assert line.endswith("| training.lr 2 |") and "0123456789 and local changes" in line and "2 cores x86_64, 24 GiB" in line
    assert "2026-01-02 03:04 | 60 |" in line and "torch 2.0 |" in line
    assert json.loads(pd.read_csv(tmp_path / "cards.csv")["configuration"][1])["training"]["view"] == "chunk"


def test_open_choices_name_keys_that_exist(tmp_path):
    document, config = REPOSITORY / "docs" / "choices.md", REPOSITORY / "config" / "config.yaml"
    records.choices(document, config, "", tmp_path / "choices.csv")
    made = pd.read_csv(tmp_path / "choices.csv").set_index("question")
    assert made.loc["Eq. 5, the set of the min-max", "value used"] == 'credit.minmax = "batch"'
    assert made.loc["optimizer steps", "value used"] == "training.optimizer_steps = 4"
    assert made.loc["Eq. 5, all scores equal", "value used"] == "–" and len(made) > 40
    named = {name for cell in made["value used"] for name in re.findall(r"([\w.]+) = ", cell)}
    asked = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)?)`", "".join(row.split(" | ")[2] for row in rows_of_table(document))))
    assert asked and asked == named


def rows_of_table(document):
    return [line for line in document.read_text().splitlines() if line.startswith("| ") and "---" not in line][1:]


def test_the_spread_over_seeds_stands_beside_that_over_questions(tmp_path):
    """Two documents. tamtrl: 1 1 with seed 0, 1 0 with seed 1, so 100 and 50; memagent: 0 0 and 1 0, so 0 and 50."""
    rows = []
    for method, seeds in {"tamtrl": ([1, 1], [1, 0]), "memagent": ([0, 0], [1, 0])}.items():
        for seed, values in enumerate(seeds):
            path = tmp_path / f"{method}{seed}.csv"
            pd.DataFrame({"document": [0, 1], "id": ["a", "b"], "score": values}).to_csv(path, index=False)
            rows.append(dict(model="toy", method=method, variant="main", seed=seed, benchmark="a", documents=path, ours=False))
    pd.DataFrame(rows).to_csv(tmp_path / "runs.csv", index=False)
    (tmp_path / "paper.csv").write_text("model,method,variant,benchmark,metric,value,source\n")
    tables.write("t", tmp_path / "paper.csv", tmp_path / "runs.csv", Layout(["a"], average_over=["a"]), tmp_path / "t.csv")
    made = pd.read_csv(tmp_path / "t.csv").set_index(["method", "benchmark", "metric"])
    # means 75 and 25; standard deviations of (100, 50), of (0, 50), and of the differences (-100, 0)
    assert made.loc[("tamtrl", "average", "score"), ["reproduced", "seeds"]].tolist() == [75, 2]
    assert made.loc[("tamtrl", "average", "score"), "seed_sd"] == pytest.approx(50 / 2**0.5, abs=1e-4)
    assert made.loc[("memagent", "average", "score_minus_tamtrl"), "reproduced"] == -50
    assert made.loc[("memagent", "average", "score_minus_tamtrl"), "seed_sd"] == pytest.approx(100 / 2**0.5, abs=1e-4)
    text = (tmp_path / "t.md").read_text()
    assert "| toy | tamtrl | average | 2 | 75.00 [50.0, 100.0] | 35.36 |" in text
    assert "| toy | memagent | average minus tamtrl's | 2 | -50.00 [-100.0, " in text
