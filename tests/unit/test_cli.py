"""The command line: one sentence and exit code 2 for what a user can get wrong."""

import errno
import json
import subprocess
import sys
from dataclasses import asdict

import pytest
import yaml
from conftest import REPOSITORY, hotpot_record
from test_training import paper_run

from tamtrl import cli, verbs


def tamtrl(*arguments, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "tamtrl.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def refused(done: subprocess.CompletedProcess, message: str) -> None:
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.fixture
def run_file(tmp_path):
    """A run that could start, and a function that writes it with changes."""

    def write(**changes):
        for name in ("train", "validation"):
            (tmp_path / f"{name}.parquet").touch()
        run = asdict(paper_run()) | {
            "train_data": str(tmp_path / "train.parquet"),
            "validation_data": str(tmp_path / "validation.parquet"),
        }
        (tmp_path / "run.yaml").write_text(yaml.safe_dump(run | changes))
        return tmp_path / "run.yaml"

    return write


def train(run, tmp_path, *more):
    return tamtrl("train", run, "--output", tmp_path / "out", "--scratch", tmp_path / "scratch", "--device", "cpu", *more)


def test_unknown_method(run_file, tmp_path):
    run = run_file(credit={"method": "magic"})
    refused(train(run, tmp_path), "Unknown credit method 'magic'")


@pytest.mark.slow
def test_missing_files(run_file, tmp_path):
    run = run_file(train_data="nowhere.parquet")
    refused(train(run, tmp_path), "Data file nowhere.parquet named in")
    refused(train(tmp_path / "none.yaml", tmp_path), "none.yaml does not exist")


@pytest.mark.slow
def test_model_folder_without_tokenizer(run_file, tmp_path):
    (tmp_path / "model").mkdir()
    run = run_file(model_path=str(tmp_path / "model"))
    refused(train(run, tmp_path), "holds no config.json")
    (tmp_path / "model" / "config.json").write_text("{}")
    refused(train(run, tmp_path), "holds no tokenizer")


def test_too_small_a_machine(run_file, tmp_path):
    run = run_file()
    refused(train(run, tmp_path, "--cores", "4096"), "configured for 4096 CPU cores but")
    refused(train(run, tmp_path, "--memory-gib", "100000"), "needs 100000 GiB of memory but this machine has")
    refused(train(run, tmp_path, "--device", "gpu", "--devices", "64"), "needs 64 GPUs but")


@pytest.mark.slow
def test_budgets_that_do_not_fit(run_file, tmp_path):
    reading = asdict(paper_run().reading)
    run = run_file(reading=reading | {"chunk_tokens": 6000})
    refused(train(run, tmp_path), "The reading budgets need")


def test_scores_of_a_broken_prediction_file(tmp_path):
    path = tmp_path / "p.jsonl.gz"
    arguments = ["--benchmark", "x", "--output", tmp_path / "s.csv", "--documents", tmp_path / "d.csv"]
    refused(tamtrl("score", path, *arguments), "does not exist")
    path.write_bytes(b"\x1f\x8b broken")
    refused(tamtrl("score", path, *arguments), "is not a complete prediction file")
    assert not (tmp_path / "s.csv").exists()


def test_prepare_multihop_is_reproducible(tmp_path):
    source = tmp_path / "hotpot.json"
    source.write_text(json.dumps([hotpot_record(n) for n in range(12)]))
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path in files:
        options = ["--benchmark", "made_up", "--documents", 20, "--count", 5, "--seed", 3]
        done = tamtrl("prepare-multihop", "--source", source, *options, "--output", path)
        assert done.returncode == 0, done.stderr
    assert files[0].read_bytes() == files[1].read_bytes()


def test_fetch_without_network(tmp_path):
    arguments = ["--repository", "Qwen/Qwen3-0.6B", "--revision", "c" * 40, "--files", "*.json", "--output", tmp_path / "model"]
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = tamtrl("fetch-model", *arguments, env=offline, cwd=REPOSITORY)
    refused(done, "Could not fetch Qwen/Qwen3-0.6B")
    assert not (tmp_path / "model").exists()


def test_a_full_disk_is_one_sentence(monkeypatch, capsys):
    def full(args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(verbs, "verify", full)
    assert cli.main(["verify", "results"]) == 2
    assert "no space left on the disk; make room, then the same command continues" in capsys.readouterr().err
