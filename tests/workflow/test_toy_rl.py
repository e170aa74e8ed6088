"""A real run, killed and resumed: verl, Ray, FSDP2 and vLLM on the toy task."""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
import torch
import yaml
from conftest import REPOSITORY
from safetensors.torch import load_file
from transformers import AutoTokenizer

from tamtrl.evaluation.predictions import read_predictions
from tamtrl.jobs import processes
from tamtrl.jobs.job import TRACKER
from tamtrl.record import code_digest
from tamtrl.record.provenance import digest
from tamtrl.settings import EvaluationRun, Run
from tamtrl.stored import build
from tamtrl.tasks import toy
from tamtrl.tasks.example import write_examples
from tamtrl.training.train import identity

STEPS = 3


def optimizer_steps(scratch: Path, step: int) -> int:
    """How often AdamW stepped, from its own state in the checkpoint."""
    path = sorted(scratch.glob(f"*/checkpoints/global_step_{step}/actor/optim_*.pt"))[0]  # one a rank
    state = torch.load(path, weights_only=False)["state"]
    (counted,) = {int(values["step"]) for values in state.values()}
    return counted


def toy_config() -> dict:
    config = yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text())
    for section, values in yaml.safe_load((REPOSITORY / "config" / "toy.yaml").read_text()).items():
        config[section] = config[section] | values if isinstance(values, dict) else values
    return config


def left_over() -> set[str]:
    """Marked processes that this worker of pytest-xdist started (another may be at work beside it), and what no process of this
    machine uses of shared memory and temporary folders."""
    found, used = set(), set()
    running = list(psutil.process_iter())
    for process in running:
        try:
            environment = process.environ()
            used.add(environment.get("RAY_TMPDIR"))
            mine = environment.get("PYTEST_XDIST_WORKER") == os.environ.get("PYTEST_XDIST_WORKER")
            if processes.MARK in environment and mine and process.pid != os.getpid():
                found.add(f"process {process.pid} {process.name()}")
        except psutil.Error:
            continue
    memory = {str(path) for path in processes.SHARED_MEMORY.iterdir()} - processes.segments(set(running))
    folders = {str(path) for path in Path(tempfile.gettempdir()).glob("tamtrl-*")} - used
    return found | memory | folders


def leaves(before: set[str]) -> set[str]:
    """What is left over and wasn't ``before``. Files of a run beside this one may be in nobody's use for a moment."""
    deadline = time.time() + 20
    while (new := left_over() - before) and not any(one.startswith("process") for one in new) and time.time() < deadline:
        time.sleep(0.5)
    return new


def train_command(folder: Path) -> list[str]:
    arguments = ["train", folder / "run.yaml", "--device", "cpu", "--output", folder / "out", "--scratch", folder / "scratch"]
    return [sys.executable, "-m", "tamtrl.cli", *map(str, arguments)]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory) -> Path:
    """A run killed with SIGKILL after its first checkpoint and then started again."""
    folder = tmp_path_factory.mktemp("run")
    write_examples(folder / "train.parquet", toy.generate("train", 64, 6, seed=0))
    write_examples(folder / "validation.parquet", toy.generate("heldout", 8, 6, seed=0))
    config = toy_config()
    training = config["training"] | dict(rollout_batch=4, group=4, steps=STEPS, save_every=1, validate_every=STEPS)
    training |= dict(optimizer_steps=1, lr=1e-3, snapshots=[1, STEPS])
    run = {
        "model": "toy", "method": "tamtrl", "variant": "turn_group", "seed": 0,
        "model_path": str(REPOSITORY / "models" / "toy"), "train_data": str(folder / "train.parquet"),
        "validation_data": str(folder / "validation.parquet"), "reading": config["reading"],
        "credit": {"method": "teacher"} | config["credit"] | {"advantage_set": "query_turn"}, "training": training,
    }  # fmt: skip
    build(Run, run, "run").save(folder / "run.yaml")
    before = left_over()
    tracker = folder / "scratch" / identity(Run.load(folder / "run.yaml")) / "checkpoints" / TRACKER

    first = subprocess.Popen(train_command(folder))
    deadline = time.time() + 600
    while not tracker.exists() and first.poll() is None and time.time() < deadline:
        time.sleep(0.2)
    assert tracker.exists(), "no checkpoint before the first attempt ended"
    meanwhile = subprocess.run(train_command(folder), capture_output=True, text=True)
    assert meanwhile.returncode == 2 and "Another process is training this run" in meanwhile.stderr
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert not (folder / "out").exists()
    refused = subprocess.run([*train_command(folder), "--devices", "2"], capture_output=True, text=True)
    last = re.search(r"global_step_(\d+) was saved by 1 rank, .* this run has 2 ", refused.stderr)
    assert refused.returncode == 2 and last, refused.stderr

    done = subprocess.run(train_command(folder), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert f"resuming after step {last[1]}." in done.stderr
    (folder / "second.log").write_text(done.stderr)
    assert not leaves(before)
    return folder


@pytest.fixture(scope="module")
def metrics(run_folder) -> pd.DataFrame:
    return pd.read_csv(run_folder / "out" / "metrics.csv").set_index("step")


def test_resumed_and_ended_with_the_same_number_of_steps(run_folder, metrics):
    assert "resuming after step" in (run_folder / "second.log").read_text()
    assert list(metrics.index) == list(range(STEPS + 1))
    assert len(list((run_folder / "scratch").glob("*/attempts/*"))) == 2
    assert optimizer_steps(run_folder / "scratch", STEPS) == STEPS
    assert set(metrics.index[metrics["validation_outcome"].notna()]) == {0, STEPS}


def test_the_model_of_an_earlier_step_is_kept(run_folder):
    (kept,) = (run_folder / "out" / "snapshots").iterdir()  # the last step's is the run's
    assert kept.name == "step1" and AutoTokenizer.from_pretrained(kept).vocab_size
    early, late = (load_file(folder / "model.safetensors") for folder in (kept, run_folder / "out" / "model"))
    moved = max(float((early[name] - late[name]).abs().max()) for name in early)
    assert 1e-4 < moved < 10 * 1e-3  # two steps of AdamW at a rate of 1e-3


def test_rollout_and_actor_agree(metrics):
    assert (metrics["log_prob_difference"].dropna() < 1e-4).all()


def test_kl_is_zero_before_the_first_update_and_positive_after(metrics):
    assert metrics["kl"][1] == pytest.approx(0, abs=1e-9) and metrics["kl"][2] > 1e-7


def test_gradients_and_teacher_scores(metrics):
    norms = metrics["grad_norm"].dropna()
    assert len(norms) == STEPS and (norms > 0).all() and (norms < float("inf")).all()
    assert (metrics["score_min"].dropna() >= 0).all() and (metrics["score_max"].dropna() <= 1).all()
    assert (metrics["score_min"].dropna() < metrics["score_max"].dropna()).all()


def test_metrics_have_every_phase_and_turn(metrics):
    columns = set(metrics.columns)
    assert {
        "reward_turn_0",
        "reward_turn_2",
        "reward_turn_answer",
        "length_turn_0",
        "score_q50",
        "entropy",
    } <= columns
    phases = ("gen", "old_log_prob", "ref", "teacher", "update_actor", "update_weights", "step")
    assert {f"seconds_{phase}" for phase in phases} <= columns
    assert (metrics["rows"].dropna() == 4 * 4 * 4).all() and (metrics["truncated_rows"].dropna() == 0).all()


def test_final_model_is_a_changed_hugging_face_model(run_folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    trained = AutoModelForCausalLM.from_pretrained(run_folder / "out" / "model")
    backbone = AutoModelForCausalLM.from_pretrained(REPOSITORY / "models" / "toy")
    assert AutoTokenizer.from_pretrained(run_folder / "out" / "model").chat_template
    before, after = backbone.state_dict(), trained.state_dict()
    assert before.keys() == after.keys() and any((before[k] != after[k]).any() for k in before)


def test_card(run_folder):
    card = json.loads((run_folder / "out" / "card.json").read_text())
    assert card["run"]["credit"]["advantage_set"] == "query_turn" and card["versions"]["verl"] == "0.9.1"
    assert len(card["data"]["train_data"]) == 64 and card["hardware"]["cores"] >= 1


def test_a_finished_run_is_not_trained_again(run_folder):
    """Its outputs lost, they are published once more from the last checkpoint, in seconds."""
    (run_folder / "out" / "metrics.csv").unlink()
    started = time.time()
    done = subprocess.run(train_command(run_folder), capture_output=True, text=True)
    assert done.returncode == 0 and (run_folder / "out" / "metrics.csv").exists() and time.time() - started < 60
    assert len(list((run_folder / "scratch").glob("*/attempts/*"))) == 2


@pytest.mark.rare
def test_a_job_that_ends_before_the_last_validation_makes_up_for_it(run_folder, metrics):
    """The checkpoint is complete by then, and nothing is left to train."""
    (last,) = (run_folder / "scratch").glob("*/attempts/0001.jsonl")
    lines = [line for line in last.read_text().splitlines() if "val-core" not in line]
    last.write_text("\n".join(lines) + "\n")
    done = subprocess.run(train_command(run_folder), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "the last validation is missing" in done.stderr, done.stderr
    again = pd.read_csv(run_folder / "out" / "metrics.csv").set_index("step")
    pd.testing.assert_series_equal(again["validation_outcome"], metrics["validation_outcome"], check_exact=True)
    assert list(again["outcome"].dropna()) == list(metrics["outcome"].dropna())


def test_predictions_continue_and_do_not_depend_on_the_interruption(run_folder):
    config = toy_config()
    evaluation = {"seed": 0, "reading": config["reading"], "evaluation": config["evaluation"] | {"samples": 2}}
    build(EvaluationRun, evaluation, "evaluation").save(run_folder / "evaluation.yaml")
    # two benchmarks, one engine
    shutil.copy(run_folder / "validation.parquet", run_folder / "again.parquet")
    output, kept = run_folder / "predictions" / "validation.jsonl.gz", run_folder / "kept"
    command = [sys.executable, "-m", "tamtrl.cli", "predict", str(run_folder / "evaluation.yaml"), "--device", "cpu"]
    command += ["--model", str(run_folder / "out" / "model"), "--output", str(output.parent), "--scratch", str(kept)]
    command += ["--data", str(run_folder / "validation.parquet"), str(run_folder / "again.parquet")]
    subprocess.run(command, check=True)
    whole = read_predictions(output)
    assert len(read_predictions(output.with_name("again.jsonl.gz"))) == 16
    assert [(r["document"], r["sample"]) for r in whole] == [(d, s) for d in range(8) for s in range(2)]
    assert all(len(r["memories"]) == 3 and r["response"] and r["error"] is None for r in whole)

    # as a kill would leave it: some documents done, one half done, one line cut off
    settings = dataclasses.asdict(EvaluationRun.load(run_folder / "evaluation.yaml"))
    del settings["evaluation"]["in_flight"]
    code = code_digest.digest("tamtrl.evaluation.predict")
    name = digest([settings, code], run_folder / "out" / "model", run_folder / "validation.parquet")
    partial = kept / f"validation.{name}.jsonl"
    assert partial.exists()
    stale = kept / "validation.0123456789ab.jsonl"  # another model's
    stale.write_text(json.dumps(whole[0]))
    lines = [json.dumps(record) for record in whole]
    partial.write_text("\n".join([*lines[:6], lines[6], lines[8][: len(lines[8]) // 2]]))
    output.unlink()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "Continuing validation: 3 of 8 documents are done." in done.stderr and "again" not in done.stderr
    assert read_predictions(output) == whole and not stale.exists()

    # all is kept: outputs that Snakemake deleted come back without an engine
    output.unlink()
    without = (
        "from tamtrl import cli; from tamtrl.evaluation import engine; engine.start_engine = None; raise SystemExit(cli.main())"
    )
    subprocess.run([sys.executable, "-c", without, *command[3:]], check=True)
    assert read_predictions(output) == whole
