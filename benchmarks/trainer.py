"""Seconds of a training step: stock verl GRPO, our trainer with outcome credit (the same rows and optimizer steps), and
with the teacher pass. Toy lengths, one after the other on the same machine; the first step is left out as warm-up.

    python benchmarks/trainer.py
"""

import json
import sys
import tempfile
from pathlib import Path

import pandas as pd
from common import OURS, measure

from tamtrl.settings import Resources, Run
from tamtrl.training import launch


def stock(run_file: str, checkpoints: str, resources: str) -> None:
    """verl's own trainer and task runner, over the same agent loop, data and configuration."""
    from omegaconf import open_dict
    from verl.trainer.main_ppo import TaskRunnerV1, run_ppo

    config = launch.verl_config(Run.load(run_file), Resources(**json.loads(resources)), Path(checkpoints))
    with open_dict(config):
        config.actor_rollout_ref.actor.ppo_mini_batch_size = config.data.train_batch_size
    run_ppo(config, task_runner_class=TaskRunnerV1)


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
