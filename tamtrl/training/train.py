"""Train one run with verl's reinforcement learning, then publish the final model and the table of metrics."""

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tamtrl import credit
from tamtrl.cpu import memory
from tamtrl.errors import UserError
from tamtrl.jobs import step_log
from tamtrl.jobs.environment import architecture, environment
from tamtrl.jobs.job import Job, locked, publish_model, require_model
from tamtrl.jobs.machine import require
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Reader
from tamtrl.record import code_digest
from tamtrl.record.provenance import digest, write_card
from tamtrl.settings import Resources, Run, Training, substance
from tamtrl.training.metrics import COLUMNS, PREFIXES


def train(run_file: Path, resources: Resources, output: Path, scratch: Path, say: Callable[[str], None]) -> None:
    """``output`` gets model/, snapshots/, metrics.csv and card.json, complete or not at all. Each identity of the run
    has a folder in ``scratch``: a run that was changed starts anew, and one that is changed back continues."""
    run = Run.load(run_file)
    needs = {"judge", "prm"} & set(credit.needs(run.credit.method))
    if needs != ({run.scorer.kind} if run.scorer else set()):
        raise UserError(
            f"{run_file}: credit method {run.credit.method} needs {' and '.join(sorted(needs)) or 'no scorer'}, but `scorer` is "
            f"{run.scorer.kind if run.scorer else 'not there'}."
        )
    for path in (run.train_data, run.validation_data):
        if not Path(path).exists():
            raise UserError(f"Data file {path} named in {run_file} does not exist.")
    require_model(run.model_path)
    if run.scorer and not run.scorer.endpoint:
        require_model(run.scorer.path)
    require(resources)
    _require_budgets(run)
    scratch = scratch / identity(run)
    scratch.mkdir(parents=True, exist_ok=True)
    launcher = [sys.executable, "-m", "tamtrl.training.launch"]
    sequences = run.training.rollout_batch * run.training.group // resources.devices
    known = architecture(run.model_path)
    cache = memory.cache_gib(known, run.training.dtype, run.reading.window_tokens, sequences, resources.memory_gib)
    job = Job(
        scratch,
        run.training.steps,
        [*launcher, str(run_file), str(scratch / "checkpoints"), json.dumps(vars(resources))],
        lambda attempt_log: environment(run.model_path, resources, attempt_log, cache),
        ranks=resources.devices * resources.nodes,
        model="actor/huggingface",
        last_file="data.pt",
        stall_minutes=run.training.stall_minutes,
        describe=_describe,
        complete=lambda values: step_log.validation(values) is not None,
        snapshot_steps=_saved_before_the_last(run.training),
    )
    with locked(scratch):
        started = time.time()
        publish_model(job.run(say), output)
        job.snapshots.publish(output / "snapshots")
        step_log.write_table(job.attempts.glob("*.jsonl"), output / "metrics.csv", COLUMNS, PREFIXES)
        write_card(output / "card.json", run_file, resources, started)
        say(f"Done: {output}/model and {output}/metrics.csv.")


def _saved_before_the_last(training: Training) -> list[int]:
    return [step for step in training.snapshots if step < training.steps and not step % training.save_every]


def identity(run: Run) -> str:
    """Digest of all that a trained model depends on."""
    settings = substance(dataclasses.asdict(run))
    paths = [settings.pop(key) for key in ("model_path", "train_data", "validation_data")]
    if settings["scorer"] and (path := settings["scorer"].pop("path")):
        paths.append(path)
    code = code_digest.of_training(run.credit.method, run.scorer is not None)
    return digest([settings, code], *paths)


def _describe(step: int, values: dict) -> str | None:
    if "tamtrl/outcome" not in values:
        return None
    return f"outcome {values['tamtrl/outcome']:.3f}, reward {values['tamtrl/reward']:.3f}, {values['timing_s/step']:.1f} s"


def _require_budgets(run: Run) -> None:
    from transformers import AutoTokenizer

    Reader(Prompts(AutoTokenizer.from_pretrained(run.model_path), run.reading.prompts), run.reading, run.credit.view)
