"""The toy configuration as a run, for benchmarks that train or predict."""

import json
import sys
from pathlib import Path

import pandas as pd
import yaml

from tamtrl.settings import EvaluationRun, Resources, Run, build
from tamtrl.tasks import toy
from tamtrl.tasks.example import write_examples
from tamtrl.training import metrics, processes
from tamtrl.training.environment import environment

REPOSITORY = Path(__file__).parents[1]
RESOURCES = Resources("cpu", 1, 1, 2, 0)


def toy_config() -> dict:
    config = yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text())
    for section, values in yaml.safe_load((REPOSITORY / "config" / "toy.yaml").read_text()).items():
        config[section] = config[section] | values if isinstance(values, dict) else values
    return config


OURS = ["-m", "tamtrl.training.launch"]
STEPS = 6


def toy_run(folder: Path, credit: str, scorer: dict | None = None, **training) -> Path:
    """Write data and run.yaml into ``folder``; returns the run file."""
    config = toy_config()
    write_examples(folder / "train.parquet", toy.generate("train", 256, 6, seed=0))
    write_examples(folder / "validation.parquet", toy.generate("heldout", 8, 6, seed=0))
    run = {
        "model": "toy",
        "method": credit,
        "variant": "main",
        "seed": 0,
        "model_path": str(REPOSITORY / config_model()),
        "train_data": str(folder / "train.parquet"),
        "validation_data": str(folder / "validation.parquet"),
        "reading": config["reading"],
        "credit": {"method": credit} | config["credit"],
        "training": config["training"] | training,
        "scorer": scorer,
    }
    build(Run, run, "benchmark").save(folder / "run.yaml")
    return folder / "run.yaml"


def config_model() -> str:
    return yaml.safe_load((REPOSITORY / "config" / "models.yaml").read_text())["toy"]["kept"]


def toy_evaluation() -> EvaluationRun:
    config = toy_config()
    return build(EvaluationRun, {"seed": 0, "reading": config["reading"], "evaluation": config["evaluation"]}, "benchmark")


def measure(name: str, command: list[str], credit: str, folder: Path, scorer: dict | None = None) -> pd.Series:
    """Medians over steps. Stock verl's mini-batch is (questions x rollouts) rows, here a quarter of the rows; so ours makes
    four optimizer steps too."""
    folder.mkdir()
    options = dict(steps=STEPS, optimizer_steps=4, save_every=1000, validate_every=1000)
    run_file = toy_run(folder, credit, scorer, **options)
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
    steps = metrics.read_steps([attempt])
    table = pd.DataFrame([steps[step] for step in range(2, STEPS + 1)])
    timing = table.filter(like="timing_s/").rename(columns=lambda c: c.removeprefix("timing_s/"))
    # verl polls every 2 s for finished rollouts and we every 0.1 s: generation is left out of the comparison.
    return timing.assign(without_gen=timing["step"] - timing["gen"]).median().rename(name)
