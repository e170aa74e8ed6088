"""One training job of any kind: started or resumed under supervision, its checkpoints mended, its result published whole."""

import errno
import fcntl
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tamtrl import files
from tamtrl.errors import UserError
from tamtrl.jobs import processes, step_log
from tamtrl.jobs.checkpoints import TRACKER, Checkpoints, of_verl, saved_by, step_of
from tamtrl.jobs.snapshots import Snapshots
from tamtrl.jobs.time_limit import OutOfTimeError, requeue

REGISTER = "processes.json"


@dataclass(frozen=True)
class Job:
    """``scratch`` keeps checkpoints and logs between attempts and is never an output, so that a failed job loses nothing.

    verl's trainers differ in where a checkpoint keeps the model (``model``, a Hugging Face folder) and in the file that is
    written last (``last_file``, with {rank} where each rank writes one); ``describe`` makes a line of progress of a step's
    values, or None. ``complete`` says whether the last step's values hold all that is logged after its checkpoint.
    """

    scratch: Path
    steps: int
    command: list[str]
    environment: Callable[[Path], dict[str, str]]
    ranks: int
    model: str
    last_file: str
    stall_minutes: float
    describe: Callable[[int, dict], str | None]
    complete: Callable[[dict], bool] = lambda values: True
    snapshot_steps: Sequence[int] = ()

    @property
    def snapshots(self) -> Snapshots:
        return Snapshots(self.scratch / "snapshots", self.snapshot_steps)

    @property
    def _checkpoints(self) -> Checkpoints:
        return of_verl(self.checkpoints, self.model, self.last_file)

    @property
    def _register(self) -> Path:
        return self.scratch / REGISTER

    @property
    def attempts(self) -> Path:
        return self.scratch / "attempts"

    @property
    def checkpoints(self) -> Path:
        return self.scratch / "checkpoints"

    def run(self, say: Callable[[str], None]) -> Path:
        """Train to the last step; returns the folder of the final model. One process at a time."""
        processes.clear(self._register)  # ranks that outlived a killed attempt would go on saving
        last = self._checkpoints.last()
        done = step_of(last) if last else 0
        logged = step_log.read_steps(self.attempts.glob("*.jsonl")).get(self.steps, {})
        finished = done == self.steps and self.complete(logged)
        if last and not finished:
            self._require_ranks(last)
        self.last_checkpoint(say)
        if not finished:
            if done < self.steps:
                say(f"Training {self.steps} steps" + (f", resuming after step {done}." if done else "."))
            else:
                say(f"Trained {self.steps} steps; the last validation is missing.")
            self._attempt(say, done)
            done = self.last_checkpoint(say)
        if done != self.steps:
            raise UserError(f"Training ended after step {done} of {self.steps}; see {self.scratch}/train.log.")
        return self.checkpoints / f"global_step_{self.steps}" / self.model

    def last_checkpoint(self, say: Callable[[str], None]) -> int:
        """The step of the newest whole checkpoint, 0 if none; the others are tidied away (checkpoints.py), and verl's tracker
        names this one, or nothing."""
        self.snapshots.take(self._checkpoints, self.model)
        last = self._checkpoints.tidy(say)
        if last:
            files.write_text(self.checkpoints / TRACKER, str(step_of(last)))
        else:
            (self.checkpoints / TRACKER).unlink(missing_ok=True)
        return step_of(last) if last else 0

    def _require_ranks(self, last: Path) -> None:
        """verl can load a checkpoint only into as many ranks as saved it, each its own part."""
        if (saved := saved_by(last, self.model)) != self.ranks:
            ranks = "1 rank" if saved == 1 else f"{saved} ranks"
            raise UserError(
                f"Checkpoint {last} was saved by {ranks}, and no other number can load it; this run has {self.ranks} "
                f"(resources.train: devices x nodes). Run again with {saved}, or move {self.checkpoints} away to begin anew."
            )

    def _attempt(self, say: Callable[[str], None], done: int) -> None:
        self.attempts.mkdir(exist_ok=True)
        attempt_log = self.attempts / f"{len(list(self.attempts.iterdir())):04d}.jsonl"
        log = self.scratch / "train.log"
        begin = log.stat().st_size if log.exists() else 0
        code = processes.supervise(
            self.command,
            self.environment(attempt_log),
            log,
            self._register,
            self._progress(attempt_log, say),
            60 * self.stall_minutes,
        )
        if code:
            cause = processes.cause(log, begin)
            if OutOfTimeError.__name__ in cause:
                saved = self.last_checkpoint(say)
                stopped = f"Training stopped after step {saved} of {self.steps}, before the job's time limit"
                if saved > done:  # else it would go on so for ever
                    say(f"{stopped}.")
                    requeue(say)
                raise UserError(f"{stopped}; the same command continues.")
            if code < 0:
                cause = f"its process was ended by {signal.Signals(-code).name} (by hand, or for want of memory)"
            else:
                require_room(self.scratch)
            raise UserError(f"Training failed: {cause} (exit code {code}; full log: {log}).")

    def _progress(self, attempt_log: Path, say: Callable[[str], None]) -> Callable[[], float]:
        """Say each new step once, and take snapshots; the time of the file's last change is the sign of life."""
        seen = set()

        def look() -> float:
            self.snapshots.take(self._checkpoints, self.model)
            if not attempt_log.exists():
                return 0.0
            for step, values in step_log.read_steps([attempt_log]).items():
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
    with (scratch / "lock").open("w", encoding="utf-8") as stream:
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
    with files.whole_folder(output / "model") as temporary:
        shutil.copytree(final, temporary)


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
