"""Seconds of a training step: stock verl GRPO, our trainer with outcome credit (the same rows and optimizer steps), and
with the teacher pass. Toy lengths, one after the other on the same machine; the first step is left out as warm-up.

    python benchmarks/trainer.py
"""

import json
import sys
import tempfile
from pathlib import Path

import pandas as pd
from common import RESOURCES, toy_run

from tamtrl.jobs import processes, step_log
from tamtrl.jobs.environment import environment
from tamtrl.settings import Resources, Run
from tamtrl.training import launch

OURS = ["-m", "tamtrl.training.launch"]
STEPS = 6


def stock(run_file: str, checkpoints: str, resources: str) -> None:
    """verl's own trainer and task runner, over the same agent loop, data and configuration."""
    from omegaconf import open_dict
    from verl.trainer.main_ppo import TaskRunnerV1, run_ppo

    config = launch.verl_config(Run.load(run_file), Resources(**json.loads(resources)), Path(checkpoints))
    with open_dict(config):
        config.actor_rollout_ref.actor.ppo_mini_batch_size = config.data.train_batch_size
    run_ppo(config, task_runner_class=TaskRunnerV1)


def measure(name: str, command: list[str], credit: str, folder: Path) -> pd.Series:
    """Medians over steps. Stock verl's mini-batch is (questions x rollouts) rows, here a quarter of the rows; so ours makes
    four optimizer steps too."""
    folder.mkdir()
    options = dict(steps=STEPS, optimizer_steps=4, save_every=1000, validate_every=1000)
    run_file = toy_run(folder, credit, **options)
    attempt = folder / "0000.jsonl"
    code = processes.supervise(
        [sys.executable, *command, str(run_file), str(folder / "checkpoints"), json.dumps(vars(RESOURCES))],
        environment(Run.load(run_file).model_path, RESOURCES, attempt),
        folder / "train.log",
        folder / "processes.json",
        lambda: attempt.stat().st_mtime if attempt.exists() else 0.0,
        600,
    )
    if code:
        sys.exit(f"{name} failed: {processes.cause(folder / 'train.log')}")
    steps = step_log.read_steps([attempt])
    table = pd.DataFrame([steps[step] for step in range(2, STEPS + 1)])
    timing = table.filter(like="timing_s/").rename(columns=lambda c: c.removeprefix("timing_s/"))
    # verl polls every 2 s for finished rollouts and we every 0.1 s: generation is left out of the comparison.
    return timing.assign(without_gen=timing["step"] - timing["gen"]).median().rename(name)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        columns = [
            measure("stock", [__file__, "stock"], "outcome", folder / "stock"),
            measure("outcome", OURS, "outcome", folder / "outcome"),
            measure("teacher", OURS, "teacher", folder / "teacher"),
        ]
    table = pd.concat(columns, axis=1).fillna(0)
    print(table.round(2).to_string())
    without = table.loc["without_gen"]
    print(f"ours / stock, same rows, generation apart: {without['outcome'] / without['stock']:.3f}")
    print(f"teacher pass / step: {table.loc['teacher', 'teacher'] / table.loc['step', 'teacher']:.3f}")


if __name__ == "__main__":
    stock(*sys.argv[2:]) if sys.argv[1:2] == ["stock"] else main()
