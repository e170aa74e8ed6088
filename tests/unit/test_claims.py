"""What the paper claims, held against scores and hours written by hand."""

import pandas as pd
import pytest
from conftest import REPOSITORY

from tamtrl import frames
from tamtrl.errors import UserError
from tamtrl.paper import claims
from tamtrl.paper.scores import Layout

HEADING = "claim\tquantity\tfirst\tsecond\tdirection\tsource\n"
LAYOUT = Layout(["a"], average_over=["a"], note="A note.")


@pytest.fixture
def runs(tmp_path):
    """Four documents: tamtrl 1 1 1 1, memagent 0 0 0 0, prm 1 1 1 0."""
    rows = []
    for method, values in {"tamtrl": [1, 1, 1, 1], "memagent": [0, 0, 0, 0], "prm": [1, 1, 1, 0]}.items():
        path = tmp_path / f"{method}.csv"
        pd.DataFrame({"document": range(4), "id": list("abcd"), "score": values}).to_csv(path, index=False)
        rows.append(dict(model="toy", method=method, variant="main", seed=0, benchmark="a", documents=path))
    pd.DataFrame(rows).to_csv(tmp_path / "runs.csv", index=False)
    return tmp_path / "runs.csv"


def test_verdicts():
    assert claims.verdict(2, 1, 3, "above") == claims.verdict(-2, -3, -1, "below") == "holds"
    assert claims.verdict(2, 1, 3, "below") == claims.verdict(-2, -3, -1, "above") == "fails"
    assert claims.verdict(2, -1, 5, "above") == claims.verdict(2, 0, 4, "above") == "not shown"


def test_claims_of_scores_and_hours(tmp_path, runs):
    (tmp_path / "claims.tsv").write_text(
        HEADING
        + "one\taverage\ttamtrl main\tmemagent main\tabove\ttext\n"
        + "two\taverage\ttamtrl main\tprm main\tabove\ttext\n"
        + "three\taverage\tmemagent main\tprm main\tabove\ttext\n"
        + "four\taverage\tsft main\tmemagent main\tbelow\tnotes\n"
        + "five\thours_total\tprm main\tmemagent main\tabove\tnotes\n"
        + "six\thours_total\ttamtrl main\tmemagent main\tbelow\tnotes\n"
    )
    (tmp_path / "hours.csv").write_text(
        "model,method,variant,metric,reproduced,seeds\ntoy,prm,main,hours_total,3,1\ntoy,memagent,main,hours_total,2,1\n"
        "toy,tamtrl,main,hours_training,1,1\ntoy,tamtrl,main,hours_total,,\n"
    )
    claims.write(tmp_path / "claims.tsv", runs, tmp_path / "hours.csv", LAYOUT, tmp_path / "out" / "claims.csv")
    made = pd.read_csv(tmp_path / "out" / "claims.csv").set_index("claim")
    # always by 100 points; by 25, of which a resampling may hold none; always worse by 75 at least 25; never run; 3 / 2 - 1
    assert made["verdict"].to_dict() == {
        "one": "holds", "two": "not shown", "three": "fails", "four": "not run", "five": "holds", "six": "not run"
    }  # fmt: skip
    assert made.loc["one", ["effect", "low", "high", "n", "seeds"]].tolist() == [100, 100, 100, 4, 1]
    assert made["effect"].dropna().tolist() == [100, 25, -75, 50]
    text = (tmp_path / "out" / "claims.md").read_text()
    assert "| toy | one | +100.0 points | 4 | 1 | holds | tamtrl main / memagent main | text |" in text
    assert "| toy | four | – | – | – | not run |" in text and "| toy | five | +50.0 % | – | 1 | holds |" in text
    assert "A note." in text


@pytest.mark.parametrize("wrong", ["length\ttamtrl main\tprm main\tabove", "average\ttamtrl main\tprm main\tbetter"])
def test_a_claim_that_nothing_can_judge(tmp_path, runs, wrong):
    (tmp_path / "claims.tsv").write_text(HEADING + f"odd\t{wrong}\ttext\n")
    with pytest.raises(UserError, match=r"The claim 'odd' is of .* it must be of average or hours_total, above or below"):
        claims.write(tmp_path / "claims.tsv", runs, None, LAYOUT, tmp_path / "claims.csv")


def test_the_papers_claims_have_a_source_and_name_runs_of_the_table():
    table = frames.read(REPOSITORY / "results" / "paper" / "claims.tsv", separator="\t")
    runs = frames.read(REPOSITORY / "config" / "runs.tsv", separator="\t")
    named = set(runs["method"] + " " + runs["variant"])
    assert set(table["first"]) | set(table["second"]) <= named
    assert table["source"].str.match(r"(text|notes)(:|$)").all()
    assert set(table["quantity"]) <= set(claims.UNITS) and set(table["direction"]) <= set(claims.DIRECTIONS)
