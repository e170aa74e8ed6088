"""When the scheduler will end this job, and whether another step still fits before that."""

import os
import subprocess
import time
from collections.abc import Callable

STOP_AT = "TAMTRL_STOP_AT"
RESTARTABLE = "TAMTRL_JOB_RESTARTABLE"  # set by the workflow in a job of its own: run again as it is, it continues
RESERVE_SECONDS = 60  # for a checkpoint, and for what can't be foreseen
ASK_SECONDS = 10
REQUEUE_SECONDS = 300  # for SLURM to end the job; it has been told to


class OutOfTimeError(Exception):
    """Training stopped by itself, with a checkpoint, because no other step fits."""


def seconds(left: str) -> float | None:
    """SLURM's ``[days-]hours:minutes:seconds`` (leading parts may be missing) in seconds; None for words such as UNLIMITED."""
    days, _, clock = left.strip().rpartition("-")
    parts = clock.split(":")
    if not all(part.isdigit() for part in [*parts, days or "0"]):
        return None
    total = 0
    for part in parts:
        total = 60 * total + int(part)
    return total + 86400 * int(days or 0)


def stop_at() -> dict[str, str]:
    """The environment variable that tells a training process when its SLURM job ends (seconds since the epoch); nothing outside
    SLURM, or where there is no limit."""
    job = os.environ.get("SLURM_JOB_ID")
    if not job:
        return {}
    try:
        asked = subprocess.run(["squeue", "-h", "-j", job, "-o", "%L"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    left = seconds(asked.stdout) if asked.stdout.strip() else None
    return {STOP_AT: str(time.time() + left)} if left is not None else {}


def requeue(say: Callable[[str], None]) -> None:
    """Let SLURM start this job again, where the workflow submitted it: a stop that was planned is no failure, and must not use
    up one of Snakemake's retries. SLURM ends this process; the function returns only where nothing came of it."""
    job = os.environ.get("SLURM_JOB_ID")
    if not job or not os.environ.get(RESTARTABLE):
        return
    while True:
        try:
            asked = subprocess.run(["scontrol", "requeue", job], capture_output=True, text=True, timeout=60)
        except OSError:
            return
        except subprocess.TimeoutExpired:
            continue
        if not asked.returncode:
            break
        said = asked.stderr.strip()
        if not any(word in said.lower() for word in ("contact", "connect", "timed out", "temporarily")):
            say(f"SLURM does not start job {job} again by itself: {said}")
            return
        time.sleep(ASK_SECONDS)  # the controller is away; at worst the time limit itself ends the job
    say(f"Job {job} goes back to the queue, to continue there.")
    time.sleep(REQUEUE_SECONDS)


class Clock:
    """Asked once a step, before or after it. A step lasts from one question to the next, with its checkpoint and validation."""

    def __init__(self) -> None:
        self.stop_at = float(os.environ.get(STOP_AT, "inf"))
        self.longest = 0.0
        self.last: float | None = None

    def another_step_fits(self, now: float) -> bool:
        if self.last is not None:
            self.longest = max(self.longest, now - self.last)
        self.last = now
        return now + 1.2 * self.longest + RESERVE_SECONDS < self.stop_at
