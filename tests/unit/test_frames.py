"""Tables in files: text stays text, whatever it looks like, from ids and names that look missing to tables and figures."""

import gzip
import json
import re

import pandas as pd
import pytest
from conftest import REPOSITORY

from tamtrl import frames
from tamtrl.errors import UserError
from tamtrl.evaluation.score import score
from tamtrl.paper import figures, hours, memories, records, sweeps, tables
from tamtrl.paper.scores import Layout
from tamtrl.planning import plan
from tamtrl.record import verify

# What pandas takes for a missing value, a number or a truth, and what CSV must quote; "NA" is there twice.
IDS = ["NA", "null", "nan", "None", "", "N/A", "-inf", "1e3", "007", "7", "True", " 7 "]
IDS += ["a,b", 'q"x', "l\nb", "c\rd", "e\r\nf", "#x", "NA"]
MODEL, METHOD, VARIANT = "NA", "null", "nan"


def test_text_stays_text(tmp_path):
    table = pd.DataFrame({"id": IDS, "n": range(len(IDS)), "mean": [1 / 3, None, *range(17)], "ours": [True, *[False] * 18]})
    frames.write(table, tmp_path / "t.csv")
    read = frames.read(tmp_path / "t.csv", numbers=["n", "mean"], flags=["ours"])
    assert read["id"].tolist() == IDS and read["n"].tolist() == list(range(19)) and read["n"].dtype == "int64"
    assert read["mean"][0] == 1 / 3 and pd.isna(read["mean"][1]) and read["mean"][2:].tolist() == list(range(17))
    assert read["ours"].tolist() == [True, *[False] * 18] and frames.read(tmp_path / "t.csv")["ours"][1] == "False"
    assert frames.read(tmp_path / "t.csv", text=["id", "ours"])["mean"].isna().sum() == 1
    assert read.groupby("id").ngroups == len(IDS) - 1
    (tmp_path / "none.csv").write_text("id,n\n\n")
    assert frames.read(tmp_path / "none.csv", numbers=["n"]).empty


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "t.csv is empty; its first line must name the columns"),
        (b"id\na\n", "t.csv has no column n; there are id"),
        (b"id,n\na,1\nb,x\n", "t.csv line 3: n must be a number, not 'x'"),
        (b"id,n,ours\na,1,yes\n", "t.csv line 2: ours must be True or False, not 'yes'"),
        (b"id,n\na,1,2\n", "t.csv line 2 has 3 cells, but there are 2 columns"),
        (b"id,id,n\n", "t.csv has two columns id"),
        (b'id,n\n"a,1\n', "t.csv can't be read as a table: unexpected end of data"),
        (b"id,n\n\xff,1\n", "t.csv can't be read as a table: .*invalid start byte"),
        (None, "t.csv does not exist"),
    ],
)
def test_what_is_no_table(tmp_path, content, message):
    if content is not None:
        (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(UserError, match=message):
        frames.read(tmp_path / "t.csv", numbers=["n"], flags=["ours"] if b"ours" in (content or b"") else [])


def guessing(code: str) -> list[str]:
    """Calls of pandas that take text for something else, or leave rows out whose key is missing."""
    found = re.findall(r"\bread_(?:csv|json|excel|fwf)\b|\bto_csv\b|\bpivot\w*\(", code)
    return found + [call for call in re.findall(r"\.groupby\((?:[^()]|\([^()]*\))*\)", code) if "dropna=False" not in call]


def test_nothing_else_reads_tables():
    """But `frames`, and the training of process reward models, whose tenths are counted here and never missing."""
    paths = [*(REPOSITORY / "tamtrl").rglob("*.py"), *(REPOSITORY / "workflow").rglob("*.smk"), REPOSITORY / "Snakefile"]
    found = {path.name: guessing(path.read_text(encoding="utf-8")) for path in paths}
    assert len(found) > 60 and found.pop("frames.py") == ["to_csv"]
    assert found.pop("prm_train.py") == ["to_csv", '.groupby("bin")']
    assert not {name: calls for name, calls in found.items() if calls}
    assert guessing('pd.read_csv(p)\nt.groupby(["a", f(b)], sort=False)\nt.groupby(a, dropna=False)\nt.pivot_table(x)') == [
        "read_csv", "pivot_table(", '.groupby(["a", f(b)], sort=False)',
    ]  # fmt: skip


@pytest.fixture
def scored(tmp_path):
    """Documents with such ids, scored from predictions: two samples each, of which the run gets right both of the first three,
    one of the fourth and of the last (whose id is the first's again), and none else. TAMTRL gets the first alone."""
    right = {0: 2, 1: 2, 2: 2, 3: 1, len(IDS) - 1: 1}
    rows = []
    for method, variant, counts in ((METHOD, VARIANT, right), ("tamtrl", "main", {0: 2})):
        predictions = tmp_path / f"{method}.jsonl.gz"
        with gzip.open(predictions, "wt", encoding="utf-8") as stream:
            for document, identifier in enumerate(IDS):
                for sample in range(2):
                    answer = "Rome" if sample < counts.get(document, 0) else "Oslo"
                    record = dict(
                        document=document, id=identifier, sample=sample, response=rf"\boxed{{{answer}}}", answers=["Rome"]
                    )
                    record |= dict(
                        answer_mode="alternatives", error=None, dropped_tokens=0, memories=["Rome", "x"], tokens=[3, 5, 1]
                    )
                    stream.write(json.dumps(record) + "\n")
        score(predictions, "1e3", "hotpotqa", tmp_path / method, seed=0)
        rows.append(dict(model=MODEL, method=method, variant=variant, seed=0, benchmark="1e3", ours=False, value=7))
        rows[-1] |= dict(documents=tmp_path / method / "1e3.documents.csv", predictions=predictions)
    frames.write(pd.DataFrame(rows), tmp_path / "runs.csv")
    header = "model,method,variant,benchmark,metric,value,source\n"
    (tmp_path / "paper.csv").write_text(f"{header}NA,null,nan,1e3,score,20,null\nNA,null,nan,average,score_minus_tamtrl,10,NA\n")
    return tmp_path


def test_scores_of_documents_whose_ids_look_missing(scored):
    documents = frames.read(scored / "null" / "1e3.documents.csv", text=["id"])
    assert documents["id"].tolist() == IDS and documents["document"].tolist() == list(range(19))
    assert documents["em"].tolist() == [1, 1, 1, 0.5, *[0] * 14, 0.5]
    mean = frames.read(scored / "null" / "1e3.csv", text=["benchmark", "metric"]).set_index("metric").loc["em"]
    assert mean["mean"] == 4 / 19 and mean["n"] == 19 and mean["benchmark"] == "1e3"


def test_a_table_of_names_and_ids_that_look_missing(scored):
    layout = Layout(["1e3"], average_over=["1e3"])
    tables.write("table1", scored / "paper.csv", scored / "runs.csv", layout, scored / "t.csv")
    made = frames.read(scored / "t.csv", numbers=["paper", "reproduced", "delta", "n"]).set_index(["model", "method", "variant"])
    made = made.loc[(MODEL, METHOD, VARIANT)].set_index(["metric", "benchmark"])
    # 4 of 19 documents, the paper's 20; TAMTRL has 1 of 19
    got = made.loc[("score", "1e3"), ["reproduced", "paper", "delta", "n"]]
    assert got.tolist() == pytest.approx([400 / 19, 20, 400 / 19 - 20, 19], abs=1e-4)
    got = made.loc[("score_minus_tamtrl", "average"), ["reproduced", "paper", "n"]]
    assert got.tolist() == pytest.approx([300 / 19, 10, 19], abs=1e-4)
    assert made.loc[("score", "1e3"), "source"] == "null" and made.loc[("score_minus_tamtrl", "average"), "source"] == "NA"
    text = (scored / "t.md").read_text()
    assert "| NA | null (nan) | 20.00 | **21.05** [" in text and "| NA | tamtrl | – | <u>5.26</u> [" in text
    assert "| NA | null (nan) | +10.00 | +15.79 [" in text and "| NA | null (nan) | em | 21.05 |" in text
    verify.record(scored / "runs.csv", [scored / "t.csv"], scored / "t.json")
    # other documents, though equal to what reads them as missing or as numbers
    table = frames.read(scored / "null" / "1e3.documents.csv", text=["id"])
    frames.write(table.replace({"id": {"007": "7.0"}}), scored / "null" / "1e3.documents.csv")
    with pytest.raises(UserError, match="not scored on the same documents"):
        tables.write("table1", scored / "paper.csv", scored / "runs.csv", layout, scored / "t.csv")


def test_what_is_there_twice(scored):
    layout, documents = Layout(["1e3"]), scored / "null" / "1e3.documents.csv"
    runs = frames.read(scored / "runs.csv")
    frames.write(pd.concat([runs, runs[:1]]), scored / "twice.csv")
    with pytest.raises(UserError, match="NA null nan is listed twice with one seed for 1e3"):
        tables.write("table1", scored / "paper.csv", scored / "twice.csv", layout, scored / "t.csv")
    table = frames.read(documents)
    frames.write(pd.concat([table, table[-1:]]), documents)
    with pytest.raises(UserError, match=r"null/1e3.documents.csv has document 18 \('NA'\) twice"):
        tables.write("table1", scored / "paper.csv", scored / "runs.csv", layout, scored / "t.csv")


def test_figures_of_names_and_ids_that_look_missing(scored):
    run = dict(model=MODEL, method=METHOD, variant=VARIANT, seed="0")
    sweeps.draw({"varied": (scored / "runs.csv", "NA")}, Layout(["1e3"]), "null", scored / "sweep.csv")
    drawn = frames.read(scored / "sweep.csv", numbers=["reproduced", "n"])
    assert drawn["benchmark"].tolist() == ["1e3"] * 2 and drawn["method"].tolist() == ["null", "tamtrl"]
    assert drawn["reproduced"].tolist() == pytest.approx([400 / 19, 100 / 19]) and drawn["n"].tolist() == [19, 19]
    memories.draw(scored / "runs.csv", False, "NA", scored / "memories.csv")
    drawn = frames.read(scored / "memories.csv", text=["model", "run", "seed"])
    assert drawn["run"].tolist() == ["null (nan)"] * 2 + ["tamtrl"] * 2 and set(drawn["model"]) == {"NA"}
    assert drawn["holds"].tolist() == [1, 0, 1, 0] and drawn["leaves"].tolist() == [0, 1, 0, 1]
    metrics = pd.DataFrame(
        {"step": [1, 2], "outcome": [0.25, 0.5], "response_length": [5, 7], "reward_turn_0_other": [0.5, 0.75]}
    )
    frames.write(metrics.assign(seconds_step=1800), scored / "metrics.csv")
    frames.write(pd.DataFrame([run | {"metrics": scored / "metrics.csv"}]), scored / "trained.csv")
    figures.dynamics(scored / "trained.csv", "NA", scored / "dynamics.csv")
    drawn = frames.read(scored / "dynamics.csv", text=["model", "run", "seed"])
    assert drawn["outcome"].tolist() == [0.25, 0.5] and drawn["run"].tolist() == ["null (nan)"] * 2 and drawn["seed"][0] == "0"
    figures.turn_rewards(scored / "trained.csv", "NA", scored / "rewards.csv")
    assert frames.read(scored / "rewards.csv", numbers=["reward"])[["model", "reward"]].values.tolist() == [["NA", 0.75]]


def test_hours_cards_and_plans_of_names_that_look_missing(tmp_path):
    run = dict(model=MODEL, method=METHOD, variant=VARIANT, seed=0)
    (tmp_path / "time.tsv").write_text("seconds\n5400\n")
    frames.write(pd.DataFrame([run | dict(part="data", file=tmp_path / "time.tsv", devices=2)]), tmp_path / "jobs.csv")
    (tmp_path / "paper.csv").write_text("model,method,variant,benchmark,metric,value,source\nNA,null,nan,,hours_data,1,notes\n")
    projected = dict(step_seconds=1, hours=2.5, gpu_hours=20, gib_without_checkpointing=40, fits="yes", assumptions="null")
    keys = {key: run[key] for key in ("model", "method", "variant")}
    frames.write(pd.DataFrame([keys | projected]), tmp_path / "projected.csv")
    hours.write(tmp_path / "paper.csv", tmp_path / "jobs.csv", tmp_path / "projected.csv", "NA", tmp_path / "h.csv")
    made = frames.read(tmp_path / "h.csv", numbers=["reproduced", "delta"]).set_index("metric")
    assert made.loc["hours_data", "delta"] == 0.5 and made.loc["device_hours", "reproduced"] == 3 and set(made["model"]) == {"NA"}
    text = (tmp_path / "h.md").read_text()
    assert "| NA | null (nan) | 1.0 | 2.5 | 20.0 |" in text and "\nnull\n" in text
    job = {"rule": "train_rl", "wildcards": keys, "resources": {}}
    told = plan.summary([job], frames.read(tmp_path / "projected.csv", numbers=["hours", "gpu_hours"]))
    assert told.loc["train_rl", "GPU-hours projected"] == 20
    planned = frames.read(tmp_path / "projected.csv", numbers=["gib_without_checkpointing"])
    assert "should fit: NA 40 GiB (null)" in plan.without_checkpointing(planned)
    card = {"run": {"method": METHOD, "a": "NA"}, "code": {}, "versions": {}, "model": "007", "ended": "2026", "seconds": 1,
            "hardware": {"cores": 2, "processor": "NA", "memory_gib": 1, "gpus": []}}  # fmt: skip
    (tmp_path / "card.json").write_text(json.dumps(card))
    frames.write(pd.DataFrame([run | {"card": tmp_path / "card.json"}]), tmp_path / "cards.list.csv")
    records.cards(tmp_path / "cards.list.csv", "", tmp_path / "cards.csv")
    made = frames.read(tmp_path / "cards.csv").iloc[0]
    assert made[["model", "method", "variant", "model digest"]].tolist() == ["NA", "null", "nan", "007"]
