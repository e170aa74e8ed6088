"""Trajectories, SFT and distillation for real: vLLM, torchrun, verl's SFT trainer; each stage killed and resumed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pandas as pd
import psutil
import pyarrow.parquet as pq
import pytest
from conftest import REPOSITORY
from test_toy_rl import leaves, left_over, toy_config

from tamtrl.distillation.distil import identity, samples
from tamtrl.evaluation.predictions import read_predictions
from tamtrl.jobs.job import TRACKER
from tamtrl.jobs.time_limit import STOP_AT
from tamtrl.settings import DistillationRun, GenerationRun
from tamtrl.stored import build
from tamtrl.tasks import toy
from tamtrl.tasks.example import write_examples

TOY, TEACHER = (str(REPOSITORY / "models" / name) for name in ("toy", "toy_teacher"))
QUESTIONS, EPOCHS, LONG = 48, 2, 5


def tamtrl(*arguments, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "tamtrl.cli", *map(str, arguments), "--device", "cpu"]
    return subprocess.run(command, capture_output=True, text=True, **options)


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two shards of trajectories of the toy backbone itself, the first one killed and resumed; and the correct ones."""
    folder = tmp_path_factory.mktemp("distillation")
    write_examples(folder / "train.parquet", toy.generate("train", QUESTIONS, 6, seed=0))
    config = toy_config()
    names = ("samples", "temperature", "top_p", "thinking", "thinking_tokens", "dtype", "in_flight")
    settings = {name: config["distillation"][name] for name in names} | {"samples": 2, "in_flight": 2}
    build(GenerationRun, {"seed": 0, "reading": config["reading"]} | settings, "x").save(folder / "generation.yaml")
    ask = ["generate", folder / "generation.yaml", "--model", TOY, "--data", folder / "train.parquet", "--shards", 2, "--shard"]

    first = folder / "shard0.jsonl.gz"
    command = [sys.executable, "-m", "tamtrl.cli", *map(str, [*ask, 0, "--output", first, "--device", "cpu"])]
    killed = subprocess.Popen(command, start_new_session=True)
    deadline = time.time() + 300
    while not any(p.stat().st_size for p in folder.glob(".shard0*.jsonl")) and killed.poll() is None and time.time() < deadline:
        time.sleep(0.05)
    engine = psutil.Process(killed.pid).children(recursive=True)
    assert engine
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    deadline = time.time() + 10
    while alive(engine) and time.time() < deadline:
        time.sleep(0.1)
    assert not alive(engine) and not first.exists()
    done = tamtrl(*ask, 0, "--output", first)
    assert done.returncode == 0 and "Continuing shard 0 of 2" in done.stderr, done.stderr
    assert tamtrl(*ask, 1, "--output", folder / "shard1.jsonl.gz").returncode == 0

    done = tamtrl_keep(folder)
    assert done.returncode == 0, done.stderr
    return folder


def tamtrl_keep(folder: Path) -> subprocess.CompletedProcess:
    command = ["keep-correct", folder / "shard0.jsonl.gz", folder / "shard1.jsonl.gz", "--name", "toy", "--model", TOY]
    command += ["--data", folder / "train.parquet", "--output", folder / "trajectories.parquet"]
    command += ["--report", folder / "report.json"]
    return subprocess.run([sys.executable, "-m", "tamtrl.cli", *map(str, command)], capture_output=True, text=True)


def test_shards_hold_every_question_once(folder):
    shards = [read_predictions(folder / f"shard{n}.jsonl.gz") for n in range(2)]
    asked = [[(r["document"], r["sample"]) for r in shard] for shard in shards]
    assert asked[0] == [(d, s) for d in range(0, QUESTIONS, 2) for s in range(2)]
    assert asked[1] == [(d, s) for d in range(1, QUESTIONS, 2) for s in range(2)]
    assert all(len(r["turns"]) == 4 and r["error"] is None for shard in shards for r in shard)


def test_report_counts_every_question(folder):
    report = json.loads((folder / "report.json").read_text())
    assert report["questions"] == QUESTIONS and report["trajectories"] == 2 * QUESTIONS and report["failed"] == 0
    assert 0 < report["questions_with_a_correct_trajectory"] <= report["kept"] <= report["correct"] < 2 * QUESTIONS
    assert report["turns"] == samples(folder / "trajectories.parquet") == 4 * report["kept"]


def run_file(folder: Path, name: str, loss: str, teacher: str = TEACHER, **changes) -> Path:
    config = toy_config()
    settings = config["distillation"] | {"batch": 16, "epochs": EPOCHS, "save_every": 1} | changes
    run = {
        "model": "toy", "method": name, "variant": "main", "seed": 0, "model_path": TOY, "loss": loss,
        "train_data": str(folder / "train.parquet"), "trajectories": str(folder / "trajectories.parquet"),
        "teacher_path": teacher, "teacher_probabilities": str(folder / f"{name}.teacher.parquet"),
        "reading": config["reading"], "distillation": settings,
    }  # fmt: skip
    build(DistillationRun, run, name).save(folder / f"{name}.yaml")
    return folder / f"{name}.yaml"


def attempt(folder: Path, path: Path, name: str, **options) -> subprocess.CompletedProcess:
    return tamtrl("distil", path, "--output", folder / name, "--scratch", folder / "scratch", **options)


def distil(folder: Path, name: str, loss: str, teacher: str = TEACHER, **changes) -> pd.DataFrame:
    path = run_file(folder, name, loss, teacher, **changes)
    done = attempt(folder, path, name)
    assert done.returncode == 0, done.stderr
    return pd.read_csv(folder / name / "metrics.csv").set_index("step")


def of_two_steps(folder: Path) -> dict:
    """Epochs of two steps each, and several, so that a kill after the first is in time."""
    return {"batch": samples(folder / "trajectories.parquet") // 2, "epochs": LONG}


@pytest.fixture(scope="module")
def sft(folder) -> pd.DataFrame:
    """Killed after its first checkpoint, with all that it had started, and started again."""
    before = left_over()
    path = run_file(folder, "sft", "sft", **of_two_steps(folder))
    command = ["distil", path, "--output", folder / "sft", "--scratch", folder / "scratch", "--device", "cpu"]
    tracker = folder / "scratch" / identity(DistillationRun.load(path)) / "checkpoints" / TRACKER
    killed = subprocess.Popen([sys.executable, "-m", "tamtrl.cli", *map(str, command)])
    deadline = time.time() + 300
    while not tracker.exists() and killed.poll() is None and time.time() < deadline:
        time.sleep(0.05)
    started = psutil.Process(killed.pid).children(recursive=True)
    killed.send_signal(signal.SIGKILL)
    for process in started:  # ranks that outlive it would be cleared by the next start, and by then have done all steps
        with suppress(psutil.NoSuchProcess):
            process.kill()
    killed.wait()
    assert tracker.exists() and not (folder / "sft").exists()
    refused = tamtrl(*command[:-2], "--devices", 2)
    last = re.search(r"global_step_(\d+) was saved by 1 rank, .* this run has 2 ", refused.stderr)
    assert refused.returncode == 2 and last, refused.stderr
    done = tamtrl(*command[:-2])
    assert done.returncode == 0 and f"resuming after step {last[1]}." in done.stderr, done.stderr
    assert not leaves(before)
    return pd.read_csv(folder / "sft" / "metrics.csv").set_index("step")


@pytest.fixture(scope="module")
def whole(folder) -> pd.DataFrame:
    """The same without an interruption."""
    return distil(folder, "whole", "sft", **of_two_steps(folder), save_every=0)


def test_sft_learns_and_resumes_to_the_same_number_of_steps(folder, sft):
    assert list(sft.index) == list(range(1, 2 * LONG + 1)) and (sft["loss"] > 0).all() and (sft["lr"] == 1e-3).all()
    assert (sft["seconds_step"] > 0).all() and (sft["tokens"] > 0).all()
    assert sft["loss"].iloc[-1] < sft["loss"].iloc[0]
    card = json.loads((folder / "sft" / "card.json").read_text())
    assert set(card["data"]) == {"train_data", "trajectories"} and card["run"]["loss"] == "sft"


def test_an_interrupted_run_is_the_uninterrupted_one(sft, whole):
    pd.testing.assert_series_equal(whole["loss"], sft["loss"], rtol=1e-4)


def test_it_stops_itself_before_the_time_limit_and_goes_on(folder, whole):
    """The limit is long past, so each of two attempts makes one step: the first ends within an epoch, the second with it."""
    path = run_file(folder, "stopped", "sft", **of_two_steps(folder), save_every=0)
    for step in (1, 2):
        told = attempt(folder, path, "stopped", env=os.environ | {STOP_AT: "1"})
        assert told.returncode == 2 and f"Training stopped after step {step} of {2 * LONG}, before" in told.stderr, told.stderr
    done = attempt(folder, path, "stopped")
    assert done.returncode == 0 and "resuming after step 2" in done.stderr, done.stderr
    stopped = pd.read_csv(folder / "stopped" / "metrics.csv").set_index("step")
    pd.testing.assert_series_equal(stopped["loss"], whole["loss"], rtol=1e-4)


def test_a_model_has_nothing_to_learn_from_its_own_distributions(folder):
    """The teacher is the backbone itself: before the first step the divergence is zero."""
    own = distil(folder, "kd_own", "kd", teacher=TOY, epochs=1)
    assert own["loss"][1] == pytest.approx(0, abs=1e-6)


def test_precomputed_probabilities_teach_what_online_ones_do(folder):
    settings = {"epochs": 1, "kl_top_k": 4, "kl_temperature": 2.0}
    online = distil(folder, "kd_online", "kd", **settings)
    assert online["loss"].iloc[-1] < online["loss"].iloc[0]
    path = run_file(folder, "kd_before", "kd", precompute=True, **settings)
    done = tamtrl("teacher-probabilities", path, "--output", folder / "kd_before.teacher.parquet")
    assert done.returncode == 0, done.stderr
    assert pq.read_metadata(folder / "kd_before.teacher.parquet").num_rows == samples(folder / "trajectories.parquet")
    before = distil(folder, "kd_before", "kd", precompute=True, **settings)
    pd.testing.assert_series_equal(before["loss"], online["loss"], rtol=1e-3, atol=1e-6)


def test_two_ranks_do_what_one_does(folder, sft):
    path = run_file(folder, "two", "sft", **of_two_steps(folder) | {"epochs": 1, "save_every": 0})
    arguments = ["distil", path, "--output", folder / "two", "--scratch", folder / "scratch", "--devices", 2]
    done = tamtrl(*arguments)
    assert done.returncode == 0, done.stderr
    two = pd.read_csv(folder / "two" / "metrics.csv").set_index("step")
    assert len(two) == 2
    # the same first batch, split between the ranks
    assert two["loss"][1] == pytest.approx(sft["loss"][1], rel=1e-4) and two["tokens"][1] == sft["tokens"][1]
    odd = next(number for number in (3, 5, 7) if of_two_steps(folder)["batch"] % number)
    refused = tamtrl(*arguments[:-1], odd)
    assert refused.returncode == 2 and f"must be a multiple of its devices ({odd})" in refused.stderr


def test_too_few_samples_for_a_batch(folder):
    path = run_file(folder, "large", "sft", batch=100_000)
    done = tamtrl("distil", path, "--output", folder / "large", "--scratch", folder / "scratch")
    assert done.returncode == 2 and "fewer than distillation.batch (100000)" in done.stderr
