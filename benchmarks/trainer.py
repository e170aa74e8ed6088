"""Seconds of a training step: stock verl GRPO, our trainer with outcome credit (the same rows and optimizer steps), and
with the teacher pass. One after the other on the same machine; the first step is left out as warm-up.

    python benchmarks/trainer.py                 # toy lengths, every switch off
    python benchmarks/trainer.py --shape 135M    # random weights, rows of about 1,400 tokens; ours with every switch on
"""

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pandas as pd
from common import RESOURCES, toy_run
from gpu_first_hour import prepare
from response_logits import SHAPES

from tamtrl.jobs import processes, step_log
from tamtrl.jobs.environment import environment
from tamtrl.settings import Resources, Run
from tamtrl.training import launch

OURS = ["-m", "tamtrl.training.launch"]
# Two turns a rollout: a chunk, and the answer. Random weights write to the limit.
READING = {"chunk_tokens": 1150, "memory_tokens": 200, "output_tokens": 200, "window_tokens": 1700, "max_chunks": 1}
DOCUMENT = {"document": 1400, "questions": 1}
SWITCHES = ("response_logits", "attention_by_row")


def stock(run_file: str, checkpoints: str, resources: str) -> None:
    """verl's own trainer and task runner, over the same agent loop, data and configuration."""
    from omegaconf import open_dict
    from verl.trainer.main_ppo import TaskRunnerV1, run_ppo

    config = launch.verl_config(Run.load(run_file), Resources(**json.loads(resources)), Path(checkpoints))
    with open_dict(config):
        config.actor_rollout_ref.actor.ppo_mini_batch_size = config.data.train_batch_size
    run_ppo(config, task_runner_class=TaskRunnerV1)


def make_run(folder: Path, credit: str, shape: str, ours: bool) -> Run:
    """Stock verl's mini-batch is (questions x rollouts) rows; so ours makes as many optimizer steps as a rollout has turns."""
    rare = dict(save_every=1000, validate_every=1000)
    if shape == "toy":
        return Run.load(toy_run(folder, credit, steps=6, optimizer_steps=4, **rare))
    sizes = dict(steps=2, optimizer_steps=2, rollout_batch=1, group=2, micro_batch_tokens=4096)
    run = Run.load(toy_run(folder, credit, **sizes, **rare, **dict.fromkeys(SWITCHES, ours)))
    prepare(folder, shape, DOCUMENT)
    run = replace(run, model_path=str(folder / "model"), reading=replace(run.reading, **READING, truncate=True))
    run.save(folder / "run.yaml")
    return run


def measure(name: str, command: list[str], credit: str, shape: str, folder: Path) -> pd.Series:
    """Medians over steps."""
    folder.mkdir()
    run, run_file = make_run(folder, credit, shape, name != "stock"), folder / "run.yaml"
    attempt = folder / "0000.jsonl"
    code = processes.supervise(
        [sys.executable, *command, str(run_file), str(folder / "checkpoints"), json.dumps(vars(RESOURCES))],
        environment(run.model_path, RESOURCES, attempt),
        folder / "train.log",
        folder / "processes.json",
        lambda: attempt.stat().st_mtime if attempt.exists() else 0.0,
        1200,
    )
    if code:
        sys.exit(f"{name} failed: {processes.cause(folder / 'train.log')}")
    steps = step_log.read_steps([attempt])
    table = pd.DataFrame([steps[step] for step in range(2, run.training.steps + 1)])
    timing = table.filter(like="timing_s/").rename(columns=lambda c: c.removeprefix("timing_s/"))
    # verl polls every 2 s for finished rollouts and we every 0.1 s: generation is left out of the comparison.
    return timing.assign(without_gen=timing["step"] - timing["gen"]).median().rename(name)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=["toy", *SHAPES], default="toy")
    shape = parser.parse_args().shape
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        columns = [
            measure("stock", [__file__, "stock"], "outcome", shape, folder / "stock"),
            measure("outcome", OURS, "outcome", shape, folder / "outcome"),
            measure("teacher", OURS, "teacher", shape, folder / "teacher"),
        ]
    table = pd.concat(columns, axis=1).fillna(0)
    print(table.round(2).to_string())
    without = table.loc["without_gen"]
    print(f"ours / stock, same rows, generation apart: {without['outcome'] / without['stock']:.3f}")
    print(f"teacher pass / step: {table.loc['teacher', 'teacher'] / table.loc['step', 'teacher']:.3f}")


if __name__ == "__main__":
    stock(*sys.argv[2:]) if sys.argv[1:2] == ["stock"] else main()
