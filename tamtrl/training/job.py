"""One training job of any kind: started or resumed under supervision, its checkpoints mended, its result published whole."""

import errno
import fcntl
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tamtrl import files
from tamtrl.errors import UserError
from tamtrl.training import metrics, processes
from tamtrl.training.time_limit import OutOfTimeError, requeue

TRACKER = "latest_checkpointed_iteration.txt"


@dataclass(frozen=True)
class Job:
    """``scratch`` keeps checkpoints and logs between attempts and is never an output, so that a failed job loses nothing.

    verl's trainers differ in where a checkpoint keeps the model (``model``, a Hugging Face folder) and in the file that is
    written last (``last_file``); ``describe`` makes a line of progress of a step's values, or None. ``complete`` says whether
    the last step's values hold all that is logged after its checkpoint.
    """

    scratch: Path
    steps: int
    command: list[str]
    environment: Callable[[Path], dict[str, str]]
    model: str
    last_file: str
    stall_minutes: float
    describe: Callable[[int, dict], str | None]
    complete: Callable[[dict], bool] = lambda values: True

    @property
    def attempts(self) -> Path:
        return self.scratch / "attempts"

    @property
    def checkpoints(self) -> Path:
        return self.scratch / "checkpoints"

    def run(self, say: Callable[[str], None]) -> Path:
        """Train to the last step; returns the folder of the final model. One process at a time."""
        done = self.last_checkpoint()
        if done < self.steps:
            say(f"Training {self.steps} steps" + (f", resuming after step {done}." if done else "."))
            self._attempt(say, done)
            done = self.last_checkpoint()
        elif not self.complete(metrics.read_steps(self.attempts.glob("*.jsonl")).get(self.steps, {})):
            say(f"Trained {self.steps} steps; the last validation is missing.")
            self._attempt(say, done)
        if done != self.steps:
            raise UserError(f"Training ended after step {done} of {self.steps}; see {self.scratch}/train.log.")
        final = self.checkpoints / f"global_step_{self.steps}" / self.model
        if not (final / "config.json").exists():
            raise UserError(f"The last checkpoint has no Hugging Face model in {final}; was it pruned by hand?")
        return final

    def last_checkpoint(self) -> int:
        """The step of the last complete checkpoint, 0 if none. What is half-written, pruned to a shell or older is removed,
        and verl's tracker file is mended where a kill cut it off. verl writes the model first and the tracker last."""
        if not self.checkpoints.is_dir():
            return 0
        folders = {int(m[1]): f for f in self.checkpoints.iterdir() if (m := re.fullmatch(r"global_step_(\d+)", f.name))}
        needed = (self.last_file, f"{self.model}/config.json")
        last = max((step for step, f in folders.items() if all((f / name).exists() for name in needed)), default=0)
        for step, folder in folders.items():
            if step != last:
                shutil.rmtree(folder)
        tracker = self.checkpoints / TRACKER
        if last:
            files.write_text(tracker, str(last))
        else:
            tracker.unlink(missing_ok=True)
        return last

    def _attempt(self, say: Callable[[str], None], done: int) -> None:
        self.attempts.mkdir(exist_ok=True)
        attempt_log = self.attempts / f"{len(list(self.attempts.iterdir())):04d}.jsonl"
        log = self.scratch / "train.log"
        begin = log.stat().st_size if log.exists() else 0
        code = processes.supervise(
            self.command,
            self.environment(attempt_log),
            log,
            self.scratch / "processes.json",
            self._progress(attempt_log, say),
            60 * self.stall_minutes,
        )
        if code:
            cause = processes.cause(log, begin)
            if OutOfTimeError.__name__ in cause:
                stopped = f"Training stopped after step {self.last_checkpoint()} of {self.steps}, before the job's time limit"
                if self.last_checkpoint() > done:  # else it would go on so for ever
                    say(f"{stopped}.")
                    requeue(say)
                raise UserError(f"{stopped}; the same command continues.")
            if code < 0:
                cause = f"its process was ended by {signal.Signals(-code).name} (by hand, or for want of memory)"
            else:
                require_room(self.scratch)
            raise UserError(f"Training failed: {cause} (exit code {code}; full log: {log}).")

    def _progress(self, attempt_log: Path, say: Callable[[str], None]) -> Callable[[], float]:
        """Say each new step once; the time of the file's last change is the sign of life."""
        seen = set()

        def look() -> float:
            if not attempt_log.exists():
                return 0.0
            for step, values in metrics.read_steps([attempt_log]).items():
                if step not in seen and (line := self.describe(step, values)):
                    seen.add(step)
                    say(f"step {step}/{self.steps}: {line}")
            return attempt_log.stat().st_mtime

        return look


def require_room(folder: Path) -> None:
    """OSError where not a mebibyte can be written: a log in the same place can't say so, for want of the same room."""
    with tempfile.TemporaryFile(dir=folder) as stream:
        stream.write(bytes(2**20))


@contextmanager
def locked(scratch: Path) -> Iterator[None]:
    """Two jobs must not train one run: the second is refused while the first lives."""
    with (scratch / "lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"Another process is training this run ({scratch}/lock is held); wait for it or stop it.") from None
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
                raise
            raise UserError(
                f"The file system of {scratch} has no locks (flock: {error.strerror}), so two jobs could train this run; set "
                "pathvars.scratch to a folder on another."
            ) from None
        yield


def publish_model(final: Path, output: Path) -> None:
    """Copy a finished model to ``output``/model, which appears only whole."""
    output.mkdir(parents=True, exist_ok=True)
    temporary, model = output / f".{os.getpid()}.tmp.model", output / "model"
    shutil.copytree(final, temporary)
    if model.exists():
        shutil.rmtree(model)
    temporary.rename(model)


def require_model(path: str) -> None:
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
