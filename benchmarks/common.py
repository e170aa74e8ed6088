"""The toy configuration as a run, for benchmarks that train or predict."""

import os
from pathlib import Path

import yaml

from tamtrl.settings import EvaluationRun, Resources, Run
from tamtrl.stored import build
from tamtrl.tasks import toy
from tamtrl.tasks.example import write_examples

REPOSITORY = Path(__file__).parents[1]
RESOURCES = Resources("cpu", 1, 1, 2, 0)

# A training's environment has PYTHONSAFEPATH, under which a script started in it finds this module no more.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))


def toy_config() -> dict:
    config = yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text(encoding="utf-8"))
    for section, values in yaml.safe_load((REPOSITORY / "config" / "toy.yaml").read_text(encoding="utf-8")).items():
        config[section] = config[section] | values if isinstance(values, dict) else values
    return config


def toy_run(folder: Path, credit: str, **training) -> Path:
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
    }
    build(Run, run, "benchmark").save(folder / "run.yaml")
    return folder / "run.yaml"


def config_model() -> str:
    return yaml.safe_load((REPOSITORY / "config" / "models.yaml").read_text(encoding="utf-8"))["toy"]["kept"]


def toy_evaluation() -> EvaluationRun:
    config = toy_config()
    return build(EvaluationRun, {"seed": 0, "reading": config["reading"], "evaluation": config["evaluation"]}, "benchmark")
