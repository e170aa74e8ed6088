"""Train one run: start or resume verl under supervision, then publish the final model and the table of metrics."""

import dataclasses
import fcntl
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tamtrl import credit, files
from tamtrl.errors import UserError
from tamtrl.machine import require
from tamtrl.provenance import digest, write_card
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Reader
from tamtrl.settings import Resources, Run
from tamtrl.training import launch, metrics, processes

TRACKER = "latest_checkpointed_iteration.txt"
# Settings of how a run is carried out; changing them keeps its checkpoints.
OPERATIONAL = {"save_every", "checkpoints_kept", "micro_batch_tokens", "rollout_workers", "stall_minutes"}


def train(run_file: Path, resources: Resources, output: Path, scratch: Path, say: Callable[[str], None]) -> None:
    """``output`` gets model/ and metrics.csv, complete or not at all; ``scratch`` keeps checkpoints and logs between
    attempts and is never an output, so that a failed job loses nothing. Each identity of the run has a folder there: a
    run that was changed starts anew, and one that is changed back continues."""
    run = Run.load(run_file)
    credit.load(run.credit.method)
    for path in (run.train_data, run.validation_data):
        if not Path(path).exists():
            raise UserError(f"Data file {path} named in {run_file} does not exist.")
    _require_model(run.model_path)
    require(resources)
    _require_budgets(run)
    scratch = scratch / identity(run)
    scratch.mkdir(parents=True, exist_ok=True)
    with _locked(scratch):
        started = time.time()
        done = last_checkpoint(scratch / "checkpoints")
        if done < run.training.steps:
            say(f"Training {run.training.steps} steps" + (f", resuming after step {done}." if done else "."))
            _attempt(run, run_file, resources, scratch, say)
            done = last_checkpoint(scratch / "checkpoints")
        if done != run.training.steps:
            raise UserError(f"Training ended after step {done} of {run.training.steps}; see {scratch}/train.log.")
        _publish(run, run_file, output, scratch, started)
        say(f"Done: {output}/model and {output}/metrics.csv.")


def identity(run: Run) -> str:
    """Digest of all that a trained model depends on."""
    settings = dataclasses.asdict(run)
    settings["training"] = {k: v for k, v in settings["training"].items() if k not in OPERATIONAL}
    for key in ("model_path", "train_data", "validation_data"):
        del settings[key]
    return digest(settings, run.model_path, run.train_data, run.validation_data)


def last_checkpoint(checkpoints: Path) -> int:
    """The step of the last complete checkpoint, 0 if none. What is half-written, pruned to a shell or older is removed,
    and verl's tracker file is mended where a kill cut it off.

    verl writes the model first, then ``data.pt``, then the tracker.
    """
    if not checkpoints.is_dir():
        return 0
    folders = {int(m[1]): f for f in checkpoints.iterdir() if (m := re.fullmatch(r"global_step_(\d+)", f.name))}
    model = Path("actor") / "huggingface" / "config.json"
    complete = [step for step, folder in folders.items() if (folder / "data.pt").exists() and (folder / model).exists()]
    last = max(complete, default=0)
    for step, folder in folders.items():
        if step != last:
            shutil.rmtree(folder)
    tracker = checkpoints / TRACKER
    if last:
        files.write_text(tracker, str(last))
    else:
        tracker.unlink(missing_ok=True)
    return last


def _attempt(run: Run, run_file: Path, resources: Resources, scratch: Path, say: Callable[[str], None]) -> None:
    attempts = scratch / "attempts"
    attempts.mkdir(exist_ok=True)
    attempt_log = attempts / f"{len(list(attempts.iterdir())):04d}.jsonl"
    log = scratch / "train.log"
    begin = log.stat().st_size if log.exists() else 0
    launcher = [sys.executable, "-m", "tamtrl.training.launch"]
    code = processes.supervise(
        [*launcher, str(run_file), str(scratch / "checkpoints"), json.dumps(vars(resources))],
        launch.environment(run, resources, attempt_log),
        log,
        scratch / "processes.json",
        _progress(attempt_log, run.training.steps, say),
        60 * run.training.stall_minutes,
    )
    if code == -1:
        raise UserError(
            f"Training made no progress for {run.training.stall_minutes:g} minutes and was stopped "
            f"(training.stall_minutes); the last lines of {log} say where it hung."
        )
    if code:
        raise UserError(f"Training failed: {processes.cause(log, begin)} (exit code {code}; full log: {log}).")


def _progress(attempt_log: Path, steps: int, say: Callable[[str], None]) -> Callable[[], float]:
    """Say each new step once; the time of the file's last change is the sign of life."""
    seen = set()

    def look() -> float:
        if not attempt_log.exists():
            return 0.0
        for step, values in metrics.read_steps([attempt_log]).items():
            if step not in seen and "tamtrl/outcome" in values:
                seen.add(step)
                say(
                    f"step {step}/{steps}: outcome {values['tamtrl/outcome']:.3f}, reward {values['tamtrl/reward']:.3f}, "
                    f"{values['timing_s/step']:.1f} s"
                )
        return attempt_log.stat().st_mtime

    return look


def _publish(run: Run, run_file: Path, output: Path, scratch: Path, started: float) -> None:
    final = scratch / "checkpoints" / f"global_step_{run.training.steps}" / "actor" / "huggingface"
    if not (final / "config.json").exists():
        raise UserError(f"The last checkpoint has no Hugging Face model in {final}; was it pruned by hand?")
    output.mkdir(parents=True, exist_ok=True)
    temporary, model = output / f".{os.getpid()}.tmp.model", output / "model"
    shutil.copytree(final, temporary)
    if model.exists():
        shutil.rmtree(model)
    temporary.rename(model)
    metrics.write_table((scratch / "attempts").glob("*.jsonl"), output / "metrics.csv")
    write_card(output / "card.json", run_file, started)


@contextmanager
def _locked(scratch: Path) -> Iterator[None]:
    """Two jobs must not train one run: the second is refused while the first lives."""
    with (scratch / "lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"Another process is training this run ({scratch}/lock is held); wait for it or stop it.") from None
        yield


def _require_budgets(run: Run) -> None:
    from transformers import AutoTokenizer

    Reader(Prompts(AutoTokenizer.from_pretrained(run.model_path), run.reading.prompts), run.reading, run.credit.view)


def _require_model(path: str) -> None:
    """A local folder must hold a model and a tokenizer; anything that is no folder is taken for a hub id."""
    folder = Path(path)
    if not folder.exists():
        if path.count("/") > 1 or path.startswith("."):
            raise UserError(f"Model folder {path} does not exist.")
        return
    for names in (("config.json",), ("tokenizer.json", "tokenizer.model", "vocab.json"), ("tokenizer_config.json",)):
        if not any((folder / name).exists() for name in names):
            what = "no config.json" if names[0] == "config.json" else f"no tokenizer ({names[0]})"
            raise UserError(f"Model folder {path} holds {what}; give a complete Hugging Face model folder.")
