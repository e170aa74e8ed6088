"""RL with a judge and with a process reward model for real, and with a judge that misbehaves, dies, and comes back."""

import asyncio
import gzip
import json
import os
import re
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pandas as pd
import psutil
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from conftest import REPOSITORY
from test_toy_rl import leaves, left_over, toy_config
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tamtrl import seeds
from tamtrl.models.course import teacher_forced_turns
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Reader
from tamtrl.reading.texts import Texts
from tamtrl.settings import ProcessRewardModel, Reading, Resources, Run, Scorer
from tamtrl.stored import build
from tamtrl.tasks import toy
from tamtrl.tasks.example import ExampleFile, write_examples
from tamtrl.turn_scores import prm, server
from tamtrl.turn_scores.client import KEY, Client, Scored
from tamtrl.turn_scores.updates import Update, UpdateWriter

TOY = str(REPOSITORY / "models" / "toy")
API_SERVER = "vllm.entrypoints.openai.api_server"
BATCH, GROUP, CHUNKS = 4, 4, 3
TURNS = BATCH * GROUP * CHUNKS  # memory turns of a step


def tamtrl(*arguments, **options) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "tamtrl.cli", *map(str, arguments)], capture_output=True, text=True, **options)


def made(folder: Path, name: str, **changes) -> Path:
    """A model of config/models.yaml, made here."""
    recipe = yaml.safe_load((REPOSITORY / "config" / "models.yaml").read_text())[name]["made"] | changes
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({"seed": 0, "reading": toy_config()["reading"]} | recipe))
    texts = ["--texts", folder / "train.parquet"]
    done = tamtrl("backbone", "--recipe", folder / f"{name}.yaml", *texts, "--output", folder / name)
    assert done.returncode == 0, done.stderr
    return folder / name


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("scorers")
    write_examples(folder / "train.parquet", toy.generate("train", 96, 6, seed=0))
    write_examples(folder / "validation.parquet", toy.generate("heldout", 8, 6, seed=0))
    return folder


def scorer(kind: str, path: Path | str, **changes) -> dict:
    section = toy_config()[kind]
    values = {"kind": kind, "model": kind, "path": str(path), "endpoint": "", "answer_tokens": 16, "request": {}}
    names = ("window_tokens", "in_flight", "timeout_seconds", "failures_allowed", "gpu_memory")
    return values | {name: section[name] for name in names} | changes


def asked(values: dict, updates: list[Update], log: Path) -> list[Scored]:
    """What the job's own server says of each."""
    settings = build(Scorer, values, "scorer")
    with server.reachable(settings, Resources("cpu", 1, 1, 2, 0), log) as url:

        async def ask() -> list[Scored]:
            client = Client(settings, url)
            out = await asyncio.gather(*map(client.score, updates))
            await client.close()
            return out

        return asyncio.run(ask())


def rl_command(folder: Path, name: str, scorer: dict, steps: int) -> list[str]:
    config = toy_config()
    training = config["training"] | dict(rollout_batch=BATCH, group=GROUP, steps=steps, save_every=1, validate_every=100)
    run = {
        "model": "toy", "method": name, "variant": "main", "seed": 0, "model_path": TOY,
        "train_data": str(folder / "train.parquet"), "validation_data": str(folder / "validation.parquet"),
        "reading": config["reading"], "credit": config["credit"] | {"method": scorer["kind"], "minmax": "off"},
        "training": training, "scorer": scorer,
    }  # fmt: skip
    build(Run, run, name).save(folder / f"{name}.yaml")
    command = ["train", folder / f"{name}.yaml", "--output", folder / name, "--scratch", folder / f"{name}.scratch"]
    return [*map(str, command), "--device", "cpu"]


# -- process reward model ----------------------------------------------------------------------------------------------


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


# -- the job's own judge -----------------------------------------------------------------------------------------------


def test_the_answers_of_an_untrained_judge_are_grades(folder):
    """It is held to the grammar."""
    course = {"steps": 2, "batch": 8, "lr": 1e-3, "lapse": 0.4, "perfect": 1, "documents": 6}
    judge = made(folder, "toy_judge", judge_course=course)
    reading = build(Reading, toy_config()["reading"], "reading")
    reader = Reader(Prompts(AutoTokenizer.from_pretrained(TOY), reading.prompts), reading)
    rng, updates = seeds.generator(0, "graded"), []
    for example in list(ExampleFile(folder / "train.parquet"))[:8]:
        turns = [ids for _, ids in teacher_forced_turns(example, reader, rng, 0.5)]
        updates += UpdateWriter(reader, reader.prepare(example)).all(turns)
    before = left_over()
    scored = asked(scorer("judge", judge), updates, folder / "judge.log")
    # equal updates are asked for once
    assert len(scored) == 8 * CHUNKS and all(one.requests <= 1 and not one.error for one in scored)
    assert all(round(10 * one.score, 9) in range(11) for one in scored)
    assert not leaves(before)


# -- a judge elsewhere -------------------------------------------------------------------------------------------------


class Elsewhere:
    """An OpenAI-compatible endpoint of moods: good, strange (some turns never get a grade) or gone."""

    def __init__(self):
        self.mood, self.asked, self.keys = "good", 0, set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked += 1
                outer.keys.add(self.headers.get("Authorization"))
                text = body["messages"][0]["content"]
                luck = seeds.derive(0, "mood", text) % 10
                if outer.mood == "gone":
                    self.connection.close()
                    return
                strange = outer.mood == "strange" and luck < 2
                answer = "I'd rather not." if strange else json.dumps({"score": luck})
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps({"choices": [{"message": {"content": answer}}]}).encode())

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def test_a_judge_elsewhere_that_is_strange_then_gone_then_back(folder):
    elsewhere = Elsewhere()
    environment = os.environ | {KEY: "secret-key-of-a-test"}
    command = rl_command(folder, "elsewhere", scorer("judge", "", endpoint=elsewhere.url, failures_allowed=0.6), steps=2)

    # gone from the start: refused before anything is trained
    elsewhere.mood = "gone"
    refused = tamtrl(*command, env=environment)
    assert refused.returncode == 2 and f"The judge at {elsewhere.url} can't score a turn" in refused.stderr, refused.stderr

    # strange in the first step: it goes on; gone after it: the run ends, saying why
    elsewhere.mood = "good"
    training = subprocess.Popen(
        [sys.executable, "-m", "tamtrl.cli", *command], stderr=subprocess.PIPE, text=True, env=environment
    )
    deadline = time.time() + 600
    while elsewhere.asked < 1 and training.poll() is None and time.time() < deadline:
        time.sleep(0.01)
    elsewhere.mood = "strange"  # from the first turn on; the one before was the probe
    while not list(folder.glob("elsewhere.scratch/*/checkpoints/latest_checkpointed_iteration.txt")):
        assert training.poll() is None and time.time() < deadline
        time.sleep(0.05)
    elsewhere.mood = "gone"
    _, message = training.communicate(timeout=300)
    assert training.returncode == 2 and re.search(rf"The judge gave no score for \d+ of {TURNS} turns", message), message
    assert not (folder / "elsewhere").exists()

    elsewhere.mood = "good"
    done = tamtrl(*command, env=environment)
    assert done.returncode == 0 and "resuming after step 1" in done.stderr, done.stderr
    metrics = pd.read_csv(folder / "elsewhere" / "metrics.csv").set_index("step").loc[1:]
    assert list(metrics.index) == [1, 2]
    # equal turns share their requests, and so their failures
    assert 0 < metrics["scores_asked_twice"][1] <= metrics["scores_missing"][1] < TURNS
    assert metrics["scores_missing"][2] == 0 and metrics["reward"].notna().all()

    # the key went to the endpoint, and nowhere else
    assert elsewhere.keys == {"Bearer secret-key-of-a-test"}
    for path in folder.glob("elsewhere*/**/*"):
        if path.is_file() and path.stat().st_size < 50_000_000:
            assert b"secret-key-of-a-test" not in path.read_bytes(), path
    assert "secret-key" not in message + done.stderr + refused.stderr
    elsewhere.server.shutdown()
