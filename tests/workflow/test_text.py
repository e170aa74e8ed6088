"""The user's words on their way through the workflow: names that look like something else, and notes of any characters."""

import gzip
import html
import json
import subprocess
import zipfile
from pathlib import Path

import pandas as pd
import pytest
import yaml
from test_workflow import SNAKEMAKE, planned, refused, snakemake, with_path

from tamtrl import frames
from tamtrl.paper.markup import one_line

NOTE = (
    '-x under $100 (8 % of $1,200) {x} {wildcards.table} <results> `touch ran` $(touch ran) it\'s "q" |a| *b* _c_ \\n #1 '
    "<i> &amp; 記憶\n\nand on: \\"
)
RUN = "results/text/runs/NA/null/nan/seed0"
HEADER = "model\tmethod\tvariant\ttraining\tcredit\toverrides\titems\n"
ROWS = [
    "NA,007\tbase\tmain\tnone\t\t\ttable1",
    "NA\tnull\tnan\trl\tteacher\t\ttable1,dynamics",
    "NA\tllm_judge\tmain\trl\tjudge\tcredit.minmax=off\ttable1",
    "NA\tsft\tmain\tsft\t\tdistillation.teacher=1e3 distillation.samples=2\ttable1",
]


@pytest.fixture(scope="module")
def named(checkout) -> Path:
    """A configuration of names like those."""
    models = {name: {"path": "models/toy"} for name in ("NA", "null", "1e3", "007", "toy")}
    (checkout / "models.yaml").write_text(yaml.safe_dump(models))
    (checkout / "runs.tsv").write_text(HEADER + "\n".join(ROWS) + "\n")
    datasets = yaml.safe_load((checkout / "config" / "datasets.yaml").read_text())
    (checkout / "datasets.yaml").write_text(yaml.safe_dump({**datasets, "1e3": datasets["toy_multihop"]}))
    config = {
        "extends": "config/toy.yaml", "label": "l*b_ `$x` <b>", "note": NOTE, "models": "models.yaml", "runs": "runs.tsv",
        "datasets": "datasets.yaml", "select": {"model": [], "variant": []}, "leave_out": [], "evaluate_on": ["1e3"],
        "average_over": ["1e3"], "sweep_on": "1e3", "means": {},
        "pathvars": {"results": "results/text", "logs": "logs/text", "scratch": "scratch/text"},
    }  # fmt: skip
    (checkout / "text.yaml").write_text(yaml.safe_dump(config))
    return checkout


def test_names_that_look_like_something_else(named):
    arguments = ["-n", "-p", "--configfile", "text.yaml", "--config", "judge={model: null}", "--"]
    told = snakemake(named, *arguments, check=True).stdout
    jobs = planned(told)
    assert (jobs["train_rl"], jobs["distil"], jobs["predict"], jobs["score"]) == (2, 1, 5, 5)
    assert f"tamtrl train {RUN}/run.yaml" in told and "--benchmark 1e3" in told and "--name 1e3" in told


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, "models.yaml: the name None is not text; put it in quotes."),
        (7, "models.yaml: the name 7 is not text; put it in quotes."),
        ("-x", "models.yaml: '-x' can't be a name: it is empty, begins with -"),
        ("a,b", "models.yaml: 'a,b' can't be a name"),
        ("a ", "models.yaml: 'a ' can't be a name"),
    ],
)
def test_names_that_cannot_be(named, name, message):
    (named / "bad models.yaml").write_text(yaml.safe_dump({name: {"path": "models/toy"}}))
    refused(snakemake(named, "-n", "--configfile", "text.yaml", "--config", "models=bad models.yaml"), message)


@pytest.fixture(scope="module")
def made(named) -> tuple[Path, list[str]]:
    """The table and figures of a run that was made by hand: two documents, one right."""
    run = named / RUN
    metrics = {"step": [1, 2], "outcome": [0.25, 0.5], "response_length": [5, 7], "reward_turn_0_other": [0.5, 0.75]}
    frames.write(pd.DataFrame(metrics), run / "metrics.csv")
    card = {"run": {"method": "null"}, "code": {}, "versions": {}, "model": "w", "ended": "2026", "seconds": 1,
            "hardware": {"cores": 2, "processor": "p", "memory_gib": 1, "gpus": []}}  # fmt: skip
    (run / "card.json").write_text(json.dumps(card))
    (run / "predictions").mkdir()
    with gzip.open(run / "predictions" / "1e3.jsonl.gz", "wt") as stream:
        for document, (identifier, answer) in enumerate([("NA", "Rome"), ("nan", "Oslo")]):
            record = {
                "document": document,
                "id": identifier,
                "sample": 0,
                "response": rf"\boxed{{{answer}}}",
                "answers": ["Rome"],
            }
            record |= {"answer_mode": "alternatives", "error": None, "dropped_tokens": 0, "memories": ["Rome"], "tokens": [3, 1]}
            stream.write(json.dumps(record) + "\n")
    # nothing else is made: what these need is there
    rules = "list_metrics list_predictions list_scores list_cards figure_dynamics figure_memories table record_table run_cards"
    arguments = ["--cores", "1", "--configfile", "text.yaml", "--allowed-rules", *rules.split(), "score", "used_configuration"]
    arguments += ["open_choices", "--config", "select={model: [NA], method: [null]}"]
    targets = [f"figures/{name}.png" for name in ("dynamics", "survival")]
    targets += [f"tables/{name}" for name in ("table1.html", "table1.provenance.json", "cards.html", "choices.html")]
    targets = ["--", *(f"results/text/{target}" for target in targets)]
    done = snakemake(named, *arguments, *targets)
    assert done.returncode == 0, done.stderr[-5000:]
    return named, [*arguments, *targets]


def test_a_note_arrives(made):
    folder = made[0] / "results" / "text"
    table = frames.read(folder / "tables" / "table1.csv", numbers=["reproduced", "n"])
    row = table[table["metric"] == "score"].iloc[0]
    assert row[["model", "method", "variant", "benchmark", "reproduced", "n"]].tolist() == ["NA", "null", "nan", "1e3", 50, 2]
    for page in ("table1", "cards", "choices"):
        assert one_line(NOTE) in html.unescape((folder / "tables" / f"{page}.html").read_text()), page
    for figure in ("dynamics", "survival"):
        assert (
            "under $100 (8 % of $1,200) {x} {wildcards.table} &lt;results&gt;" in (folder / f"figures/{figure}.svg").read_text()
        )
    assert not (made[0] / "ran").exists()


def test_a_note_of_the_command_line_arrives_too(made):
    """Also in the Snakemakes that Snakemake starts, for which it doesn't quote: once more in `run:` rules."""
    folder, arguments = made
    (folder / "results" / "text" / "figures" / "dynamics.runs.csv").unlink()
    note = 'it\'s $(touch ran) `touch ran` $5 "q" a\\b {x} end'
    at = arguments.index("--")
    done = snakemake(folder, *arguments[:at], f"note={note}", *arguments[at:])
    assert done.returncode == 0 and not (folder / "ran").exists(), done.stderr[-3000:]
    assert note in (folder / "results" / "text" / "figures" / "dynamics.svg").read_text()
    assert yaml.safe_load((folder / "results" / "text" / "config.yaml").read_text())["note"] == note


def test_a_note_in_the_report(made):
    folder, arguments = made
    command = [*SNAKEMAKE, *arguments[: arguments.index("--")], "--report", "text.zip", *arguments[arguments.index("--") :]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=with_path())
    assert done.returncode == 0, done.stderr[-3000:]
    with zipfile.ZipFile(folder / "text.zip") as archive:
        page = archive.read(next(name for name in archive.namelist() if name.endswith("report.html"))).decode()
    captions = [json.loads(f'"{part.split(chr(34) + ", " + chr(34))[0]}"') for part in page.split('"caption": "')[1:]]
    assert len(captions) == 5 and not any("system-message" in caption for caption in captions)
    assert all(one_line(NOTE) in html.unescape(caption) or "leaves open" in caption for caption in captions), captions
    assert sum("l*b_ `$x` <b>" in html.unescape(caption) for caption in captions) == 2
