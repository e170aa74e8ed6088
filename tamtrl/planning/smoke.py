"""A first run that costs minutes: does what the docs promise hold on this machine? It is trained a second time, killed and
resumed, and what came out is compared with what must be true of any run."""

import json
import math
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import psutil

from tamtrl import files, frames
from tamtrl.errors import UserError
from tamtrl.jobs import processes
from tamtrl.jobs.checkpoints import TRACKER
from tamtrl.jobs.job import REGISTER, locked
from tamtrl.jobs.step_log import read_steps
from tamtrl.jobs.time_limit import RESTARTABLE
from tamtrl.paper import markup
from tamtrl.planning import costs
from tamtrl.settings import Resources, Run
from tamtrl.training.train import identity, train

ROUNDING = 0.05  # most that a token's probability may differ on average between rollouts and trainer: bfloat16, other kernels


def resume(run_file: Path, resources: Resources, output: Path, scratch: Path, say: Callable[[str], None]) -> None:
    """Train a run in a scratch folder of its own, kill the trainer after its first checkpoint, and let the same call continue.
    ``output`` gets what a run makes, and attempts.json: the steps that each attempt did."""
    run = Run.load(run_file)
    if run.training.save_every > 1 or run.training.steps < 3:
        raise UserError(f"{run_file}: a run to be resumed needs training.save_every 1 and at least 3 steps.")
    os.environ.pop(RESTARTABLE, None)  # started again it would begin anew, and so for ever
    again = scratch / identity(run)
    _clear(again)
    ended, killed = threading.Event(), threading.Event()
    threading.Thread(target=_kill_after_first_checkpoint, args=[again, ended, killed], daemon=True).start()
    try:
        train(run_file, resources, output, scratch, say)
    except UserError as error:
        if not killed.is_set():
            raise
        say(f"As intended: {error}")
    finally:
        ended.set()
    train(run_file, resources, output, scratch, say)
    logs = sorted((again / "attempts").glob("*.jsonl"))
    attempts = [[step for step, values in read_steps([log]).items() if "tamtrl/outcome" in values] for log in logs]
    files.write_text(output / "attempts.json", json.dumps(attempts))


def _clear(scratch: Path) -> None:
    """What an earlier try left, unless it lives."""
    scratch.mkdir(parents=True, exist_ok=True)
    with locked(scratch):
        processes.clear(scratch / REGISTER)
        for name in ("checkpoints", "attempts"):
            shutil.rmtree(scratch / name, ignore_errors=True)


def _kill_after_first_checkpoint(scratch: Path, ended: threading.Event, killed: threading.Event) -> None:
    """The training process of this process, as the kernel would for want of memory."""
    while not ((scratch / "checkpoints" / TRACKER).exists() or ended.is_set()):
        time.sleep(0.1)
    for child in psutil.Process().children():
        if not ended.is_set() and "tamtrl.training.launch" in child.cmdline():
            killed.set()
            child.kill()


def report(run_file: Path, run_folder: Path, resumed: Path, table: Path, output: Path, say: Callable[[str], None]) -> None:
    """Markdown of what was checked and what to look at; UserError, and no file, where a check failed."""
    run = Run.load(run_file)
    lines, failed = [], []
    for what, right, found in checks(run, run_folder, resumed, table):
        holds = "yes" if right else "**NO**"
        say(f"{what}: {holds.strip('*')}, {found}")
        lines.append(f"| {what} | {holds} | {markup.markdown(found)} |")
        failed += [] if right else [what]
    look_at = list(_look_at(run, run_folder, table))
    for line in look_at:
        say(line)
    text = "\n".join(["| check | holds | found |", "| --- | --- | --- |", *lines, "", *look_at, ""])
    if failed:
        raise UserError(f"{len(failed)} of {len(lines)} checks failed: {'; '.join(failed)}.")
    files.write_text(output, f"# First run of {markup.markdown(run.model)} {run.method}\n\n{text}")


def checks(run: Run, folder: Path, resumed: Path, table: Path) -> Iterator[tuple[str, bool, str]]:
    """What must be true, whether it is, and what was found."""
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    metrics = frames.read(folder / "metrics.csv", text=[]).set_index("step")
    again = frames.read(resumed / "metrics.csv", text=[]).dropna(subset="outcome")
    steps = metrics.dropna(subset="outcome")
    where, hardware = card["resources"], card["hardware"]
    visible = [name for name in (hardware["visible_devices"] or "").split(",") if name]
    if where["device"] == "gpu":
        named = f"{', '.join(visible) or 'none'} of {', '.join(hardware['gpus']) or 'none'}"
        yield f"training saw {where['devices']} GPU(s)", len(visible) == where["devices"] <= len(hardware["gpus"]), named
    else:
        yield "training ran on a CPU, as configured", True, f"{where['cores']} cores"
    last = run.training.steps
    yield f"every step of {last} was done", list(steps.index) == list(range(1, last + 1)), f"steps {list(steps.index)}"
    finite = steps[["outcome", "reward", "grad_norm", "response_length"]].map(math.isfinite).all(axis=None)
    yield "outcome, reward, gradient and lengths are numbers", bool(finite), f"gradient norms {_listed(steps['grad_norm'])}"
    differences = steps["log_prob_difference_mean"]
    found = f"mean difference of probabilities {_listed(differences)}"
    yield "rollouts and trainer agree: weights reach the engine", bool((differences < ROUNDING).all()), found
    first = float(steps["kl"].iloc[0])
    yield "no distance from the reference before the first update", abs(first) < 1e-3, f"KL {first:.2g}"
    attempts = json.loads((resumed / "attempts.json").read_text(encoding="utf-8"))
    went_on = len(attempts) == 2 and attempts[1][:1] > [1] and set().union(*attempts) == set(range(1, last + 1))
    found = f"steps {attempts}; outcomes {_listed(again['outcome'])}, undisturbed {_listed(steps['outcome'])} (equal on a CPU)"
    yield "killed after its first checkpoint, training went on from there", went_on, found
    shown = frames.read(table, numbers=["reproduced"])
    shown = shown[shown["model"] == run.model]
    yield "tables have numbers", bool(len(shown) and shown["reproduced"].notna().all()), f"{len(shown)} cells in {table}"


def _listed(values: pd.Series) -> str:
    return ", ".join(f"{value:.2g}" for value in values)


def _look_at(run: Run, folder: Path, table: Path) -> Iterator[str]:
    """Numbers that nobody can check but who knows the machine."""
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    metrics = frames.read(folder / "metrics.csv", text=[])
    yield "Look at:"
    yield ""
    seconds = metrics["seconds_step"].dropna()
    parts = {
        name.removeprefix("seconds_"): metrics[name].dropna().iloc[-1]
        for name in metrics.columns
        if name.startswith("seconds_") and name != "seconds_step" and metrics[name].notna().any()
    }
    longest = sorted(parts.items(), key=lambda part: -part[1])[:4]
    yield f"- a step took {_listed(seconds)} s; of the last, {', '.join(f'{name} {value:.1f}' for name, value in longest)}"
    if run.model in costs.MODELS and card["resources"]["device"] == "gpu":
        rows, length = metrics["rows"].dropna().iloc[-1], metrics["response_length"].dropna().iloc[-1]
        turns = round(rows / (run.training.rollout_batch * run.training.group))
        chunk = run.reading.chunk_tokens
        turn = costs.Turn(chunk, length, chunk, chunk / 4)
        step = costs.Step(run.training.rollout_batch, run.training.group, (turn,) * turns)
        bound = costs.step_seconds(costs.MODELS[run.model], step, costs.A100, card["resources"]["devices"])["step"]
        yield f"- arithmetic for A100s has {bound:.1f} s for that many rows as its lower bound (tamtrl/planning/costs.py)"
    yield f"- the largest differences of a token's probability: {_listed(metrics['log_prob_difference'].dropna())}"
    yield f"- memories and answers: `tamtrl show {folder}/predictions/BENCHMARK.jsonl.gz`"
    yield f"- the table: {table}; versions, commit and hardware: {folder}/card.json"
