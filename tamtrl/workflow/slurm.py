"""What snakemake-executor-plugin-slurm 2.8 lacks to get past a SLURM controller that is away for a while.

Where every status query of a round fails it forgets its jobs and waits for ever; a job that ended while nobody could ask, and
that SLURM has forgotten since, it waits for as well; a submission that meets no controller counts as a failure of the job; and
of `sacct`'s states it doesn't know `CANCELLED by 1000`. It has no setting for any of these, so five functions of it are
wrapped, in the process that runs Snakemake and nowhere else.
"""

import importlib.metadata
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Any

PLUGIN = "snakemake_executor_plugin_slurm"
VERSION = "2.8."  # whose inner names these are
ABSENT = 3  # answers in a row without a job that was in one before; the plugin asks every 40 to 180 seconds
UNSEEN_SECONDS = 600  # after its submission a job that was never in an answer has been there and gone
WAIT_SECONDS = 10


def be_patient() -> None:
    """Wrap the plugin, where Snakemake has loaded the version that this was written for and it is not wrapped yet."""
    plugin = sys.modules.get(PLUGIN)
    if not plugin or getattr(plugin.Executor, "patient", False):
        return
    if (version := importlib.metadata.version(PLUGIN.replace("_", "-"))).startswith(VERSION):
        _wrap(plugin)
    else:
        print(f"{PLUGIN} is {version}: without our patience with a controller that is away.", file=sys.stderr)


def _wrap(plugin: Any) -> None:
    executor = plugin.Executor
    age = plugin.get_min_job_age
    ask, check, submit, cancel = plugin.query_job_status, executor.check_active_jobs, executor.run_job, executor.cancel
    answers: list[dict[str, str]] = []
    absent: Counter[str] = Counter()
    seen: set[str] = set()
    submitted: dict[object, float] = {}
    cancelled = threading.Event()
    known_age = 10**6

    def get_min_job_age() -> int | None:
        """As last heard. None, while the controller is away, would make the plugin ask `sacct`, which knows nothing or hangs
        where no accounting is kept."""
        nonlocal known_age
        known_age = age() or known_age
        return known_age

    async def query_job_status(command: str, logger: Any) -> tuple[dict[str, str] | None, float]:
        states, seconds = await ask(command, logger)
        if states is not None:
            states = {number: state.split()[0] for number, state in states.items() if state}
            answers.append(states)
        return states, seconds

    async def check_active_jobs(self: Any, active_jobs: list[Any]) -> AsyncIterator[Any]:
        answers.clear()
        running = [job async for job in check(self, active_jobs)]
        if not answers:
            running = active_jobs
        for job in running:
            number = job.external_jobid
            known = answers and any(name in answers[-1] for name in plugin._status_lookup_ids(number))
            if known:
                seen.add(number)
                absent.pop(number, None)
            elif answers and (number in seen or time.time() - submitted.get(job.job, float("inf")) > UNSEEN_SECONDS):
                absent[number] += 1
            if absent[number] < ABSENT:
                yield job
            elif made_since(job.job.output, submitted.get(job.job, float("inf"))):
                self.logger.warning(f"SLURM has forgotten job {number}; its outputs are there and new, so it ended well.")
                self.report_job_success(job)
            else:
                self.report_job_error(job, msg=f"SLURM has forgotten job {number}, and its outputs are not there, or old.")

    def run_job(self: Any, job: Any) -> None:
        told = False
        while not (cancelled.is_set() or controller_answers()):
            if not told:
                self.logger.warning("SLURM's controller does not answer; jobs are submitted as soon as it does.")
            told = True
            cancelled.wait(WAIT_SECONDS)
        if not cancelled.is_set():
            submitted[job] = time.time()
            submit(self, job)

    def cancel_and_submit_no_more(self: Any) -> None:
        cancelled.set()
        cancel(self)

    plugin.query_job_status, plugin.get_min_job_age = query_job_status, get_min_job_age
    executor.check_active_jobs, executor.run_job, executor.cancel = check_active_jobs, run_job, cancel_and_submit_no_more
    executor.patient = True


def made_since(outputs: Iterable[str], begun: float) -> bool:
    """A job that never began leaves the outputs of the one before it."""
    return all(os.path.exists(path) and os.lstat(path).st_mtime >= begun for path in outputs)  # links lead into a cache


def controller_answers() -> bool:
    """Also where `scontrol` can't be asked: then sbatch says what is wrong."""
    try:
        return subprocess.run(["scontrol", "ping"], capture_output=True, timeout=60).returncode == 0
    except subprocess.TimeoutExpired:
        return False
    except OSError:
        return True
