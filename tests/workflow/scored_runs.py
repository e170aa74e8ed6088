"""What tests of judges and process reward models share: data, models made here, settings, runs of reinforcement learning."""

import asyncio
import subprocess
import sys
from pathlib import Path

import yaml
from conftest import REPOSITORY
from test_toy_rl import toy_config

from tamtrl.settings import Resources, Run, Scorer
from tamtrl.stored import build
from tamtrl.tasks import toy
from tamtrl.tasks.example import write_examples
from tamtrl.turn_scores import server
from tamtrl.turn_scores.client import Client, Scored
from tamtrl.turn_scores.updates import Update

TOY = str(REPOSITORY / "models" / "toy")
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


def write_data(folder: Path) -> Path:
    write_examples(folder / "train.parquet", toy.generate("train", 96, 6, seed=0))
    write_examples(folder / "validation.parquet", toy.generate("heldout", 8, 6, seed=0))
    return folder


def scorer(kind: str, path: Path | str, **changes) -> dict:
    section = toy_config()[kind]
    values = {"kind": kind, "model": kind, "path": str(path), "endpoint": "", "answer_tokens": 16}
    values |= {"dtype": "float32", "request": {}}
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
