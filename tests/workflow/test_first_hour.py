"""The script for the first minutes on a GPU, at toy shapes on a CPU: every part runs, and a second call does nothing again."""

import json
import subprocess
import sys

import pytest
from conftest import REPOSITORY

PARTS = ["environment", "engine", "passes", "step_tamtrl"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first") / "hour"
    script = str(REPOSITORY / "benchmarks" / "gpu_first_hour.py")
    command = [sys.executable, script, "--output", str(folder), "--device", "cpu", "--shape", "tiny", "--only", *PARTS]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + "".join(path.read_text()[-2000:] for path in folder.glob("*.log"))
    return folder, command


@pytest.mark.slow
def test_every_part_is_measured_beside_arithmetic(made):
    folder, _ = made
    parts = json.loads((folder / "first_hour.json").read_text())["parts"]
    assert list(parts) == PARTS and parts["environment"]["found"]["flash-attn"] == "absent"
    engine, passes, step = (parts[name]["found"] for name in PARTS[1:])
    assert engine["prefill tokens/s"] > engine["decode tokens/s"] > 1 and engine["engine start s"] > 0
    assert passes["update s"] > passes["log-probabilities s"] > 0
    # what the paper's step is made of: rollouts, passes of three models, an update, weights to the engine
    times = {"gen s", "old_log_prob s", "ref s", "teacher s", "update_actor s", "update_weights s", "step s"}
    assert times <= step.keys() and all(step[name] > 0 for name in times)
    assert {"gen s", "teacher s", "update_actor s", "step s"} <= parts["step_tamtrl"]["bound"].keys()
    table = (folder / "first_hour.md").read_text()
    assert "| step_tamtrl | teacher s |" in table and "nan" not in table


@pytest.mark.slow
def test_a_second_call_does_nothing_again(made):
    folder, command = made
    before = (folder / "engine.json").stat().st_mtime_ns
    assert "done" not in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (folder / "engine.json").stat().st_mtime_ns == before
