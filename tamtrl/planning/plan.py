"""What a command of Snakemake would do, before it does anything: jobs, GPU-hours and disk by rule. One dry run, which waits for
no lock and writes no results, so it may be asked of a folder where a workflow runs, or that can't be written."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tamtrl import frames
from tamtrl.errors import UserError
from tamtrl.planning import costs

TRAINING = ("train_rl", "distil", "distil_round")
PROJECTION = "TAMTRL_PROJECTION"


def projection() -> str | None:
    """Where the workflow is asked to write its projection while its rules are read."""
    return os.environ.get(PROJECTION)


def refusal(text: str) -> str:
    """Snakemake's own message in one line: what follows the name of its exception, without places in its code."""
    lines = text.strip().splitlines() or ["it printed nothing."]
    heads = [number for number, line in enumerate(lines) if re.match(r"\w+(Exception|Error)\b.*:$", line)]
    told = lines[heads[-1] + 1 :] if heads else lines[-1:]
    return " ".join(line.strip() for line in told if not line.startswith('  File "'))


def dry_run(arguments: Sequence[str], projection: Path) -> str:
    """What it printed. A job that another Snakemake is at counts as one to do."""
    command = [sys.executable, "-m", "tamtrl.planning.plan", "--dry-run", "--rerun-incomplete", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env=os.environ | {PROJECTION: str(projection)}
    )
    if done.returncode:
        raise UserError(f"snakemake {' '.join(arguments)} can't be planned: {refusal(done.stdout.strip() or done.stderr)}")
    return done.stdout + done.stderr


def main() -> None:
    """Snakemake. What it writes even in a dry run goes to a folder that is thrown away: its record of files seen, and where it
    can't be made, all of `.snakemake`."""
    from snakemake import cli, workflow
    from snakemake.persistence.file import FilePersistence

    with tempfile.TemporaryDirectory() as folder:

        def persistence(**given: Any) -> Any:
            try:
                made = FilePersistence(**given)
            except OSError:
                made = FilePersistence(**given | {"path": Path(folder)})
            made.iocache_path = folder
            return made

        workflow.FilePersistence = persistence
        sys.argv[0] = "snakemake"  # for its own messages
        cli.main()


def jobs(text: str) -> Iterator[dict]:
    """The jobs of a dry-run's output: ``rule``, ``wildcards`` and ``resources`` as mappings of text."""
    for block in re.split(r"\n(?=(?:local)?(?:rule|checkpoint) \w+:)", text)[1:]:
        job: dict[str, Any] = {"rule": block.partition(":")[0].split()[1]}
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
    hours = {(row.model, row.method, row.variant): row.gpu_hours for row in frames.rows(projected)}
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
    table = table.groupby("rule", sort=False, dropna=False).sum().sort_values("GPU-hours at most", ascending=False, kind="stable")
    table.loc["total"] = table.sum()
    return table.astype({"jobs": int})


def plan(arguments: Sequence[str]) -> str:
    """``arguments``: of snakemake, targets before options."""
    with tempfile.TemporaryDirectory() as folder:
        projection = Path(folder) / "projection.csv"
        told = dry_run(arguments, projection)
        projected = frames.read(projection, numbers=["step_seconds", "hours", "gpu_hours", "gib_without_checkpointing"])
    planned = list(jobs(told))
    if not planned and "Nothing to be done" not in told:
        raise UserError("Snakemake listed no jobs; leave out options that make it print less or something else.")
    if not planned:
        return "Nothing to be done."
    table = summary(planned, projected)
    shown = table.reset_index().to_string(index=False, float_format=lambda value: f"{value:,.0f}" if value else "–")
    return (
        f"{shown}\n\nAt most: the time limits of the configuration. Projected: reinforcement learning of models that "
        "tamtrl/planning/costs.py knows, a lower bound by arithmetic; count on twice that. Disk: two checkpoints "
        "and the final model of each run, and the models to fetch that it knows."
        f"{without_checkpointing(projected)}"
    )


def without_checkpointing(projected: pd.DataFrame) -> str:
    """Which runs should not need `gradient_checkpointing`, with the most that each model then needs; nothing without runs."""
    if projected.empty:
        return ""
    told = []
    for fits, words in (("yes", "should fit"), ("no", "should not")):
        runs = projected[projected["fits"] == fits]
        named = [
            f"{model} {part['gib_without_checkpointing'].max():.0f} GiB ({', '.join(dict.fromkeys(part['method']))})"
            for model, part in runs.groupby("model", sort=False, dropna=False)
        ]
        told += [f"{words}: {'; '.join(named)}"] if named else []
    return (
        f"\nWithout gradient_checkpointing, which spares a quarter of updates, a device of {costs.A100.memory_gib:.0f} GiB with "
        f"{costs.RESERVE:.0%} in reserve {', and '.join(told)}."
    )


if __name__ == "__main__":
    main()
