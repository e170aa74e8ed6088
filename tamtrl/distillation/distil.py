"""Train one distillation run (SFT, STaR, Vanilla-KD), then publish the final model and the table of metrics."""

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from tamtrl.distillation.samples import turn_counts
from tamtrl.errors import UserError
from tamtrl.jobs import step_log
from tamtrl.jobs.environment import environment
from tamtrl.jobs.job import Job, locked, publish_model, require_model
from tamtrl.jobs.machine import require
from tamtrl.record import code_digest
from tamtrl.record.provenance import digest, write_card
from tamtrl.settings import DistillationRun, Resources, substance

COLUMNS = {"loss": "train/loss", "grad_norm": "train/grad_norm", "lr": "train/lr", "tokens": "train/global_tokens"}


def distil(run_file: Path, resources: Resources, output: Path, scratch: Path, say: Callable[[str], None]) -> None:
    """``output`` gets model/, metrics.csv and card.json, as a run of reinforcement learning does."""
    run = DistillationRun.load(run_file)
    require_model(run.model_path)
    require(resources)
    require_model(run.teacher_path)
    require_same_vocabulary(run.model_path, run.teacher_path)
    if resources.nodes > 1 or run.distillation.batch % resources.devices:
        raise UserError(
            f"Distillation runs on one node (resources.train.nodes is {resources.nodes}), and distillation.batch "
            f"({run.distillation.batch}) must be a multiple of its devices ({resources.devices})."
        )
    steps_per_epoch = samples(run.trajectories) // run.distillation.batch
    if not steps_per_epoch:
        raise UserError(
            f"{run.trajectories} gives {samples(run.trajectories)} samples, fewer than distillation.batch "
            f"({run.distillation.batch}); lower it or sample more."
        )
    scratch = scratch / identity(run)
    scratch.mkdir(parents=True, exist_ok=True)
    # torchrun makes the ranks; each is one device.
    ranks = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={resources.devices}"]
    arguments = [str(run_file), str(scratch / "checkpoints"), json.dumps(vars(resources)), str(steps_per_epoch)]
    job = Job(
        scratch,
        steps_per_epoch * run.distillation.epochs,
        [sys.executable, *ranks, "-m", "tamtrl.distillation.launch", *arguments],
        lambda attempt_log: environment(run.model_path, resources, attempt_log),
        ranks=resources.devices,
        model="huggingface",
        last_file="data_{rank}.pt",
        stall_minutes=run.distillation.stall_minutes,
        describe=_describe,
    )
    with locked(scratch):
        started = time.time()
        publish_model(job.run(say), output)
        step_log.write_table(job.attempts.glob("*.jsonl"), output / "metrics.csv", COLUMNS, ("timing_s/",))
        write_card(output / "card.json", run_file, resources, started)
        say(f"Done: {output}/model and {output}/metrics.csv.")


def _describe(step: int, values: dict) -> str | None:
    if "train/loss" not in values:
        return None
    return f"loss {values['train/loss']:.4f}, {values['timing_s/step']:.1f} s"


def identity(run: DistillationRun) -> str:
    """Digest of all that a trained model depends on."""
    settings = substance(dataclasses.asdict(run))
    paths = [settings.pop(key) for key in ("model_path", "train_data", "trajectories")]
    teacher, probabilities = settings.pop("teacher_path"), settings.pop("teacher_probabilities")
    if run.loss == "kd":
        paths.append(probabilities if run.distillation.precompute else teacher)
    return digest([settings, code_digest.of_distillation()], *paths)


def samples(trajectories: str) -> int:
    """How many turns a file of trajectories holds."""
    return sum(turn_counts(pq.read_table(trajectories, columns=["turns"])))


def require_same_vocabulary(student: str, teacher: str) -> None:
    """Sampled ids and distributions over one vocabulary say nothing about another."""
    from transformers import AutoConfig, AutoTokenizer

    first, second = (AutoTokenizer.from_pretrained(path).get_vocab() for path in (student, teacher))
    sizes = [AutoConfig.from_pretrained(path).vocab_size for path in (student, teacher)]
    if first != second or sizes[0] != sizes[1]:
        raise UserError(
            f"The vocabularies of the student {student} ({len(first)} tokens, {sizes[0]} logits) and the teacher {teacher} "
            f"({len(second)} tokens, {sizes[1]} logits) differ; choose a teacher of the same family."
        )
