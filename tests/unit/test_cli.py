"""The command line: one sentence and exit code 2 for what a user can get wrong."""

import errno
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict

import pytest
import yaml
from conftest import REPOSITORY, hotpot_record
from test_training import paper_run

from tamtrl import cli, commands


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
    arguments = ["--output", tmp_path / "scores"]
    refused(tamtrl("score", path, *arguments), "does not exist")
    path.write_bytes(b"\x1f\x8b broken")
    refused(tamtrl("score", path, *arguments), "is not a complete prediction file")
    refused(tamtrl("score", path, "--f1-rules", "squad", "musique", *arguments), "2 --f1-rules for 1 files of predictions")
    assert not (tmp_path / "scores").exists()


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
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tamtrl.record.verify.verify", full)
    assert cli.main(["verify", "results"]) == 2
    assert "no space left on the disk; make room, then the same command continues" in capsys.readouterr().err


def test_help_lists_every_verb_once_under_its_stage():
    stages = commands.by_stage()
    listed = [verb.name for verbs in stages.values() for verb in verbs]
    assert all(stages.values()) and sorted(listed) == sorted(commands.VERBS)
    blocks = re.split(r"\n\n", tamtrl("--help").stdout)
    shown = {block.partition(":")[0]: re.findall(r"^  ([a-z][a-z-]*)  +\S", block, re.MULTILINE) for block in blocks}
    assert {heading: [verb.name for verb in verbs] for heading, verbs in stages.items()}.items() <= shown.items()
    # the listing fits whatever terminal it is printed in
    narrow = tamtrl("--help", env=os.environ | {"COLUMNS": "50"}).stdout.partition("options:")[2]
    assert max(map(len, narrow.splitlines())) <= 48


def test_a_verb_is_declared_once():
    with pytest.raises(ValueError, match=r"score is declared twice, in tamtrl\.commands\.evaluation and test_cli"):
        commands.declare.verb("score", "Again.")(lambda args: None)


@pytest.mark.parametrize("verb", commands.VERBS.values(), ids=commands.VERBS)
def test_every_verb_says_what_it_takes(verb, capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        cli.main([verb.name, "--help"])
    told = capsys.readouterr().out
    assert told.startswith(f"usage: tamtrl {verb.name} [-h] ") and " ".join(verb.summary.split()) in " ".join(told.split())
    for argument in verb.arguments:  # of one with choices and no dashes argparse shows the choices
        names = [argument.settings.get("metavar", argument.name), *argument.settings.get("choices", ())[:1]]
        assert any(name in told for name in names), argument


def test_rules_call_verbs_that_there_are():
    rules = [REPOSITORY / "Snakefile", *sorted((REPOSITORY / "workflow" / "rules").glob("*.smk"))]
    texts = [path.read_text(encoding="utf-8") for path in rules]
    called = {verb for text in texts for verb in re.findall(r"(?<!from )\btamtrl ([a-z][a-z-]*)", text)}
    assert len(called) > 30 and called <= commands.VERBS.keys()


@pytest.mark.parametrize("words", [["--help"], ["score", "--help"], ["train"], ["trian"]])
def test_help_and_refusals_wait_for_no_library(words):
    """What they import of others would be most of the time that they take."""
    script = "import atexit, sys; atexit.register(lambda: print('loaded', *sys.modules)); from tamtrl import cli; cli.main()"
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True)
    loaded = set(re.search(r"^loaded (.*)$", done.stdout, re.MULTILINE)[1].split())
    assert "tamtrl.commands.training" in loaded
    heavy = {"torch", "transformers", "pandas", "numpy", "pyarrow", "pydantic", "yaml", "ray", "verl", "matplotlib", "snakemake"}
    assert not loaded & heavy


def test_unknown_verb():
    refused(tamtrl("trian"), "tamtrl: there is no verb 'trian'; did you mean `train`? `tamtrl --help` lists all.")
    refused(tamtrl("nothing-like-it", "--help"), "there is no verb 'nothing-like-it'. `tamtrl --help` lists all.")
