"""What a command of Snakemake would do, before it does anything: jobs, GPU-hours and disk by rule."""

import itertools
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from tamtrl import costs
from tamtrl.errors import UserError

TRAINING = ("train_rl", "distil", "distil_round")


def snakemake(*arguments: str) -> str:
    """What it printed; its own message where it refused."""
    done = subprocess.run([sys.executable, "-m", "snakemake", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"snakemake {' '.join(arguments)} failed: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout + done.stderr


def jobs(text: str) -> Iterator[dict]:
    """The jobs of a dry-run's output: ``rule``, ``wildcards`` and ``resources`` as mappings of text."""
    for block in re.split(r"\n(?=(?:local)?(?:rule|checkpoint) \w+:)", text)[1:]:
        job = {"rule": re.match(r"(?:local)?(?:rule|checkpoint) (\w+):", block).group(1)}
        for name in ("wildcards", "resources"):
            line = re.search(rf"^    {name}: (.*)$", block, re.MULTILINE)
            job[name] = dict(pair.split("=", 1) for pair in line.group(1).split(", ") if "=" in pair) if line else {}
        yield job


def gpus(resources: dict[str, str]) -> int:
    """Of a job; sites that take GPUs as gres say ``gpu:model:number`` of each node."""
    if "gres" in resources:
        return int(resources["gres"].rsplit(":", 1)[1]) * int(resources.get("nodes", 1))
    return int(resources.get("gpu", 0))


def summary(planned: Sequence[dict], projected: pd.DataFrame) -> pd.DataFrame:
    """By rule: jobs, GPU-hours at most (time limits) and projected (training of known models), disk in GiB."""
    hours = {(row.model, row.method, row.variant): row.gpu_hours for row in projected.itertuples()}
    rows = []
    for job in planned:
        asked, words = job["resources"], job["wildcards"]
        key = tuple(words.get(name) for name in ("model", "method", "variant"))
        known = words.get("model") in costs.MODELS
        disk = costs.disk_gib(words["model"], 2 if job["rule"] in TRAINING else 0) if known else 0.0
        rows.append(
            {
                "rule": job["rule"],
                "jobs": 1,
                "GPU-hours at most": gpus(asked) * float(asked.get("runtime", 0)) / 60,
                "GPU-hours projected": hours.get(key, 0.0) if job["rule"] == "train_rl" else 0.0,
                "disk GiB": disk if job["rule"] in (*TRAINING, "fetch_model") else 0.0,
            }
        )
    table = pd.DataFrame(rows, columns=["rule", "jobs", "GPU-hours at most", "GPU-hours projected", "disk GiB"])
    table = table.groupby("rule", sort=False).sum().sort_values("GPU-hours at most", ascending=False, kind="stable")
    table.loc["total"] = table.sum()
    return table.astype({"jobs": int})


def plan(arguments: Sequence[str]) -> str:
    """``arguments``: of snakemake, targets before options. Only the projection is made; everything else is a dry-run."""
    options = list(itertools.dropwhile(lambda argument: not argument.startswith("-"), arguments))
    made = snakemake("project", "--force", "--executor", "local", "--cores", "1", *options)
    where = re.search(r"^    output: (\S+projected\.csv)", made, re.MULTILINE)
    planned = list(jobs(snakemake("--dry-run", *arguments)))
    if not planned:
        return "Nothing to be done."
    table = summary(planned, pd.read_csv(Path(where.group(1)), dtype={"model": str}))
    shown = table.reset_index().to_string(index=False, float_format=lambda value: f"{value:,.0f}" if value else "–")
    return (
        f"{shown}\n\nAt most: the time limits of the configuration. Projected: reinforcement learning of models that "
        "tamtrl/costs.py knows, a lower bound by arithmetic; count on twice that. Disk: two checkpoints and the final model of "
        "each run, and the models to fetch that it knows."
    )
