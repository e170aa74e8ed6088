"""A judge for real: the job's own, and one elsewhere that misbehaves, dies, and comes back."""

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
import pytest
from scored_runs import CHUNKS, TOY, TURNS, asked, made, rl_command, scorer, tamtrl, write_data
from test_toy_rl import leaves, left_over, toy_config
from transformers import AutoTokenizer

from tamtrl import seeds
from tamtrl.models.course import teacher_forced_turns
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Reader
from tamtrl.settings import Reading
from tamtrl.stored import build
from tamtrl.tasks.example import ExampleFile
from tamtrl.turn_scores.client import KEY
from tamtrl.turn_scores.updates import UpdateWriter


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("judge"))


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
                # The probe, which knows no question of the toy task, has its grade whatever the mood.
                strange = outer.mood == "strange" and luck < 2 and "Ann did it." not in text
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
    elsewhere.mood = "strange"
    training = subprocess.Popen(
        [sys.executable, "-m", "tamtrl.cli", *command], stderr=subprocess.PIPE, text=True, env=environment
    )
    deadline = time.time() + 600
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
