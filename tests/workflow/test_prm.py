"""A process reward model for real: labelled, trained, asked, and in a run of reinforcement learning whose server is killed."""

import gzip
import json
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pyarrow.parquet as pq
import pytest
import torch
from scored_runs import CHUNKS, TOY, asked, made, rl_command, scorer, tamtrl, write_data
from test_toy_rl import leaves, left_over, toy_config
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tamtrl import seeds
from tamtrl.models.course import teacher_forced_turns
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Reader
from tamtrl.reading.texts import Texts
from tamtrl.settings import ProcessRewardModel, Reading
from tamtrl.stored import build
from tamtrl.tasks.example import ExampleFile
from tamtrl.turn_scores import prm
from tamtrl.turn_scores.updates import UpdateWriter

API_SERVER = "vllm.entrypoints.openai.api_server"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("prm"))


@pytest.fixture(scope="module")
def bert(folder) -> Path:
    return made(folder, "toy_bert")


@pytest.fixture(scope="module")
def labelled(folder, bert) -> Path:
    """Trajectories as a careless reader writes them, two shards of one sample each, labelled."""
    reading = build(Reading, toy_config()["reading"], "reading")
    reader = Reader(Prompts(AutoTokenizer.from_pretrained(TOY), reading.prompts), reading)
    rng = seeds.generator(0, "careless reader")
    for shard in range(2):
        with gzip.open(folder / f"shard{shard}.jsonl.gz", "wt") as stream:
            for index, example in enumerate(ExampleFile(folder / "train.parquet")):
                if index % 2 == shard:
                    turns = [ids for _, ids in teacher_forced_turns(example, reader, rng, 0.5)]
                    stream.write(json.dumps({"document": index, "sample": 0, "turns": turns, "error": None}) + "\n")
            stream.write(json.dumps({"document": index, "sample": 1, "turns": [], "error": "lost"}) + "\n")
    names = ("window_tokens", "held_out", "batch", "epochs", "lr", "weight_decay", "save_every")
    settings = {name: toy_config()["prm"][name] for name in names} | {"held_out": 0.3, "epochs": 8, "save_every": 5}
    run = {"seed": 0, "reading": toy_config()["reading"]} | settings
    build(ProcessRewardModel, run, "prm").save(folder / "prm.yaml")
    shards = [folder / f"shard{n}.jsonl.gz" for n in range(2)]
    command = ["prm-label", folder / "prm.yaml", *shards, "--base", bert, "--policy", TOY]
    command += ["--data", folder / "train.parquet", "--output", folder / "turns.parquet", "--report", folder / "labels.json"]
    done = tamtrl(*command)
    assert done.returncode == 0, done.stderr
    return folder / "turns.parquet"


def test_labels_are_outcomes_and_no_question_is_on_both_sides(folder, labelled):
    table = pq.read_table(labelled).to_pandas()
    report = json.loads((folder / "labels.json").read_text())
    assert len(table) == 96 * CHUNKS == report["turns"] and report["trajectories"] == 98 and report["failed"] == 2
    assert (table.groupby(["document", "sample"])["label"].nunique() == 1).all()
    questions = [example.question for example in ExampleFile(folder / "train.parquet")]
    sides = table.groupby(table["document"].map(questions.__getitem__))["held_out"].nunique()
    assert len(sides) < 96 and (sides == 1).all()  # some questions are asked of several documents
    for part, rows in (("train", table[~table["held_out"]]), ("held_out", table[table["held_out"]])):
        assert report[part]["turns"] == len(rows) and report[part]["share_correct"] == pytest.approx(rows["label"].mean())
    assert 0 < table["label"].mean() < 1 and report["cut_question_or_memory"] == 0
    assert (table["input_ids"].map(len) <= toy_config()["prm"]["window_tokens"]).all()


@pytest.fixture(scope="module")
def prm_folder(folder, labelled, bert) -> Path:
    """Killed after its first checkpoint and started again."""
    command = ["prm-train", folder / "prm.yaml", "--turns", labelled, "--labels", folder / "labels.json", "--base", bert]
    command += ["--output", folder / "prm", "--scratch", folder / "prm.scratch", "--device", "cpu"]
    killed = subprocess.Popen([sys.executable, "-m", "tamtrl.cli", *map(str, command)])
    deadline = time.time() + 120
    while not list(folder.glob("prm.scratch/*/checkpoint-*/trainer_state.json")) and killed.poll() is None:
        assert time.time() < deadline
        time.sleep(0.02)
    killed.kill()
    killed.wait()
    assert not (folder / "prm" / "model").exists()
    # as a kill in the middle of a checkpoint leaves it
    scratch = next((folder / "prm.scratch").iterdir())
    (scratch / "checkpoint-99999").mkdir()
    done = tamtrl(*command)
    assert done.returncode == 0 and "resuming from checkpoint-" in done.stderr, done.stderr
    assert "99999" not in done.stderr and not (scratch / "checkpoint-99999").exists()
    return folder / "prm"


def test_a_process_reward_model_learns_and_reports(prm_folder):
    report = json.loads((prm_folder / "report.json").read_text())
    assert report["auroc"] > 0.5 and 0 <= report["accuracy"] <= 1 and report["train"]["turns"] > report["held_out"]["turns"]
    bins = pd.read_csv(prm_folder / "calibration.csv")
    assert bins["turns"].sum() == report["held_out"]["turns"]
    config = json.loads((prm_folder / "model" / "config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["problem_type"] == "multi_label_classification"  # binary cross-entropy on one logit


def test_the_server_says_what_transformers_says(folder, prm_folder):
    """Short turns, turns of a full window, and many at once."""
    model, tokenizer = (
        kind.from_pretrained(prm_folder / "model") for kind in (AutoModelForSequenceClassification, AutoTokenizer)
    )
    reading = build(Reading, toy_config()["reading"], "reading")
    reader = Reader(Prompts(AutoTokenizer.from_pretrained(TOY), reading.prompts), reading)
    rng, updates = seeds.generator(0, "parity"), []
    for example in list(ExampleFile(folder / "train.parquet"))[:12]:
        turns = [ids for _, ids in teacher_forced_turns(example, reader, rng, 0.5)]
        updates += UpdateWriter(reader, reader.prepare(example)).all([turns[0] * 40, *turns[1:]])
    texts = Texts(tokenizer)
    encoded = [prm.encode(texts, one, 128) for one in updates]
    assert {one.kept_whole for one in encoded} == {True, False}
    with torch.no_grad():
        # A louder head around zero, so that probabilities differ where inputs do.
        model.classifier.weight *= 50
        model.classifier.bias -= sum(model(torch.tensor([one.ids])).logits for one in encoded).view(1) / len(encoded)
        expected = [model(torch.tensor([one.ids])).logits.sigmoid().item() for one in encoded]
    for part in (model, tokenizer):
        part.save_pretrained(folder / "loud")
    got = [one.score for one in asked(scorer("prm", folder / "loud"), updates, folder / "parity.log")]
    assert got == pytest.approx(expected, abs=1e-4) and len({round(value, 3) for value in expected}) > 3


def test_training_with_a_process_reward_model_whose_server_is_killed(folder, prm_folder):
    """The run ends with its cause; the same command, once more, completes it."""
    before = left_over()
    command = rl_command(folder, "with_prm", scorer("prm", prm_folder / "model"), steps=2)
    killed = subprocess.Popen([sys.executable, "-m", "tamtrl.cli", *command], stderr=subprocess.PIPE, text=True)
    deadline = time.time() + 600
    while not list(folder.glob("with_prm.scratch/*/checkpoints/latest_checkpointed_iteration.txt")):
        assert killed.poll() is None and time.time() < deadline
        time.sleep(0.1)
    (server,) = (one for one in psutil.Process(killed.pid).children(recursive=True) if API_SERVER in one.cmdline())
    server.kill()
    _, message = killed.communicate(timeout=120)
    assert killed.returncode == 2 and "The process reward model's server was killed by signal 9" in message, message
    assert not leaves(before) and not (folder / "with_prm").exists()

    done = tamtrl(*command)
    assert done.returncode == 0 and "resuming after step 1" in done.stderr, done.stderr
    metrics = pd.read_csv(folder / "with_prm" / "metrics.csv").set_index("step").loc[1:]
    assert list(metrics.index) == [1, 2] and (metrics["scores_missing"] == 0).all()
    assert (metrics["score_min"] >= 0).all() and (metrics["score_max"] <= 1).all() and (metrics["score_max"] > 0).all()
    assert (metrics["seconds_scoring"] > 0).all() and (metrics["seconds_scoring_tail"] >= 0).all()
    # R = P * r: less than the outcome, but only where there is one
    assert (metrics["reward"] < metrics["outcome"]).all() and (metrics["grad_norm"] > 0).all()
    assert not leaves(before)
