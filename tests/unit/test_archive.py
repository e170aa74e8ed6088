"""Archives of runs, and the records of what tables were made from."""

import functools
import json
import os
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tamtrl.errors import UserError
from tamtrl.record import archive, provenance, verify
from tamtrl.settings import Resources

NAME = "toy/tamtrl/main/seed0"


@pytest.fixture
def results(tmp_path) -> Path:
    """A run and an untrained backbone, with files as the workflow makes them."""
    results = tmp_path / "results"
    run = results / "runs" / NAME
    for folder in ("model", "predictions", "scores"):
        (run / folder).mkdir(parents=True)
    (tmp_path / "train.parquet").write_text("data")
    settings = {
        "seed": 0,
        "model_path": "here",
        "train_data": str(tmp_path / "train.parquet"),
        "training": {"lr": 1, "save_every": 5},
    }
    (run / "run.yaml").write_text(yaml.safe_dump(settings))
    (run / "evaluation.yaml").write_text(yaml.safe_dump({"seed": 0, "evaluation": {"samples": 4, "in_flight": 9}}))
    (run / "metrics.csv").write_text("step\n1\n")
    (run / "model" / "weights").write_text("w" * 100)
    provenance.write_card(run / "card.json", run / "run.yaml", Resources("cpu", 1, 1, 1, 0.0), 0.0)
    (run / "predictions" / "a.jsonl.gz").write_text("predicted")
    (run / "scores" / "a.documents.csv").write_text("document\n0\n")
    base = results / "runs" / "toy/base/main/seed0"
    (base / "predictions").mkdir(parents=True)
    (base / "predictions" / "a.jsonl.gz").write_text("too")
    (base / "evaluation.yaml").write_text(yaml.safe_dump({"seed": 0}))
    return results


@pytest.fixture
def published(results, tmp_path) -> Path:
    archive.publish(results, tmp_path / "archive", True, print)
    return tmp_path / "archive"


def restore(place: str, index: Path, wanted: list[str], output: Path) -> None:
    archive.restore(place, index, NAME, wanted, output, print)


def test_what_is_published_is_restored(results, published, tmp_path):
    index = archive.load(published / "index.json")["runs"]
    assert set(index) == {NAME, "toy/base/main/seed0"} and index["toy/base/main/seed0"]["settings"] == ""
    assert set(index[NAME]["files"]) == {"run.yaml", "evaluation.yaml", "metrics.csv", "card.json", "predictions/a.jsonl.gz",
                                         "model/weights"}  # fmt: skip
    restore(str(published), published / "index.json", ["model", "metrics.csv", "predictions/a.jsonl.gz"], tmp_path / "out")
    for name in ("model/weights", "metrics.csv", "predictions/a.jsonl.gz"):
        assert (tmp_path / "out" / name).read_bytes() == (results / "runs" / NAME / name).read_bytes()
    assert not (tmp_path / "out" / "card.json").exists()


def test_publishing_again_adds(results, published, tmp_path):
    (results / "runs" / "toy/base").rename(tmp_path / "elsewhere")
    archive.publish(results, published, False, print)
    index = archive.load(published / "index.json")["runs"]
    assert set(index) == {NAME, "toy/base/main/seed0"} and "model/weights" not in index[NAME]["files"]
    with pytest.raises(UserError, match="no run with predictions"):
        archive.publish(tmp_path / "nothing", published, False, print)


def test_settings_that_must_agree():
    settings = {"seed": 0, "model_path": "here", "training": {"lr": 1, "save_every": 5}, "scorer": {"path": "x", "kind": "prm"}}
    moved = {"seed": 0, "model_path": "there", "training": {"lr": 1, "save_every": 9}, "scorer": {"path": "y", "kind": "prm"}}
    assert archive.settings_digest(settings) == archive.settings_digest(moved)
    assert archive.settings_digest(settings) != archive.settings_digest(settings | {"training": {"lr": 2}})


def test_settings_of_archives_that_are_there_keep_their_digest():
    """Nothing that changes in the code may alter it. The value was computed before modules moved into rooms (39747b6)."""
    settings = {
        "seed": 0, "method": "tamtrl", "model_path": "here", "train_data": "results/data/toy_training.parquet",
        "training": {"lr": 1e-6, "betas": [0.9, 0.95], "save_every": 5}, "scorer": {"path": "x", "kind": "prm"},
    }  # fmt: skip
    assert archive.settings_digest(settings) == "cbf5f8f4d06f"


def test_over_http(published, tmp_path):
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(published))
    handler.log_message = lambda *arguments: None
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    archive.fetch_index(url, tmp_path / "index.json")
    restore(url, tmp_path / "index.json", ["model", "metrics.csv"], tmp_path / "out")
    assert (tmp_path / "out" / "model" / "weights").read_text() == "w" * 100
    (published / "runs" / NAME / "metrics.csv").write_text("another")
    with pytest.raises(UserError, match="its sha256 is"):
        restore(url, tmp_path / "index.json", ["metrics.csv"], tmp_path / "again")
    server.shutdown()
    server.server_close()
    with pytest.raises(UserError, match="Could not fetch"):
        archive.fetch_index(url, tmp_path / "index.json")


def test_damage_is_found_and_nothing_is_left(published, tmp_path):
    (published / "runs" / NAME / "model" / "weights").write_text("v" * 100)
    with pytest.raises(UserError, match="is damaged: its sha256"):
        restore(str(published), published / "index.json", ["model"], tmp_path / "out")
    assert not list((tmp_path / "out").rglob("*weights"))
    (published / "runs" / NAME / "metrics.csv").unlink()
    with pytest.raises(UserError, match="in the archive's index but does not exist"):
        restore(str(published), published / "index.json", ["metrics.csv"], tmp_path / "out")
    with pytest.raises(UserError, match="has no scores of run"):
        restore(str(published), published / "index.json", ["scores"], tmp_path / "out")


@pytest.mark.parametrize(("name", "wanted"), [("model/../../../outside", "model"), ("/outside", "/outside")])
def test_an_archive_writes_nowhere_else(published, tmp_path, name, wanted):
    index = archive.load(published / "index.json")
    index["runs"][NAME]["files"] = {name: {"sha256": "0" * 64, "bytes": 1}}
    (published / "index.json").write_text(json.dumps(index))
    with pytest.raises(UserError, match="names a file outside of its run"):
        restore(str(published), published / "index.json", [wanted], tmp_path / "out")


@pytest.mark.parametrize(
    ("content", "message"), [("{", "is not the index"), ('{"format": 2}', "of format 1"), ("[]", "of format 1")]
)
def test_what_is_no_index(tmp_path, content, message):
    (tmp_path / "index.json").write_text(content)
    with pytest.raises(UserError, match=message):
        archive.load(tmp_path / "index.json")
    with pytest.raises(UserError, match="does not exist"):
        archive.load(tmp_path / "nothing.json")


# -- records -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(results) -> Path:
    tables = results / "tables"
    tables.mkdir()
    (tables / "table1.csv").write_text("numbers")
    documents = results / "runs" / NAME / "scores" / "a.documents.csv"
    pd.DataFrame([{"model": "toy", "documents": documents}]).to_csv(tables / "table1.runs.csv", index=False)
    verify.record(tables / "table1.runs.csv", [tables / "table1.csv"], tables / "table1.provenance.json")
    return results


def test_nothing_has_changed(recorded, capsys):
    (recorded / "runs" / NAME / "model" / ".snakemake_timestamp").touch()  # Snakemake's, in every folder that is an output
    verify.verify(recorded, print)
    assert "1 tables, 7 files and 1 run cards are as recorded" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: (run / "predictions" / "a.jsonl.gz").write_text("other"), "a.jsonl.gz is not what the table was made from"),
        (lambda run: os.remove(run / "metrics.csv"), "metrics.csv is missing"),
        (lambda run: (run / "model" / "weights").write_text("other"), "are not those that training published"),
        (lambda run: (run.parents[5] / "train.parquet").write_text("other"), "is not what the run was trained on"),
        (lambda run: (run.parents[4] / "tables" / "table1.csv").write_text("better numbers"), "table1.csv is not what the table"),
    ],
)
def test_what_has_changed_is_named(recorded, capsys, change, message):
    change(recorded / "runs" / NAME)
    with pytest.raises(UserError, match="1 of what the tables of"):
        verify.verify(recorded, print)
    assert message in capsys.readouterr().out


def test_a_card_says_all_that_a_run_was_made_with(results):
    card = json.loads((results / "runs" / NAME / "card.json").read_text())
    assert set(card) == {"run", "resources", "code", "versions", "hardware", "data", "model", "ended", "seconds"}
    assert (
        card["run"]["seed"] == 0 and {"commit", "dirty", "local_changes"} >= set(card["code"]) and card["hardware"]["cores"] >= 1
    )
    assert len(card["data"]["train_data"]) == 64 and len(card["model"]) == 12
