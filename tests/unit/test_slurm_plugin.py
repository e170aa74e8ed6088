"""Snakemake's SLURM plugin beside a controller that goes away: its own code, with an `squeue` and a `scontrol` that say what
the test tells them."""

import asyncio
import importlib
import logging
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from throttler import Throttler

from tamtrl.workflow import slurm


@pytest.fixture
def plugin(monkeypatch):
    """As it is again afterwards."""
    module = importlib.import_module(slurm.PLUGIN)
    for name in ("query_job_status", "get_min_job_age"):
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(module.Executor, "patient", False, raising=False)
    for name in ("check_active_jobs", "run_job", "cancel"):
        monkeypatch.setattr(module.Executor, name, getattr(module.Executor, name))
    return module


@pytest.fixture
def controller(tmp_path, monkeypatch) -> Path:
    """A file of what the controller answers; it is away where there is none."""
    answer = tmp_path / "answer"
    for name, shown in {"squeue": f"cat {answer}", "scontrol": f"[ -e {answer} ] && echo MinJobAge = 600 sec"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{shown}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return answer


def executor(plugin):
    """Of the plugin, without a workflow around it; it notes which jobs it reports."""
    made = object.__new__(plugin.Executor)
    made.workflow = SimpleNamespace(executor_settings=plugin.ExecutorSettings(status_command="squeue"))
    made.logger, made.status_rate_limiter, made.ended = logging.getLogger("test"), Throttler(rate_limit=100), []
    made.failed = []
    made.__post_init__()
    made.next_seconds_between_status_checks = 3
    made.report_job_success = lambda job: made.ended.append(job.external_jobid)
    made.report_job_error = lambda job, **told: made.failed.append(job.external_jobid)
    return made


class Job:
    """Of Snakemake, as far as the plugin's part that is tested here looks at it."""

    def __init__(self, output: list[Path]):
        self.output = output


@pytest.fixture
def jobs(tmp_path) -> list[SimpleNamespace]:
    return [
        SimpleNamespace(external_jobid=number, aux={"slurm_logfile": Path("none")}, job=Job([tmp_path / f"output{number}"]))
        for number in ("7", "8")
    ]


def running(made, jobs) -> list[str]:
    """What is left after one look at the jobs."""

    async def look() -> list[str]:
        return [job.external_jobid async for job in made.check_active_jobs(jobs)]

    return asyncio.run(look())


def test_jobs_outlive_a_controller_that_is_away(plugin, controller, jobs):
    assert running(executor(plugin), jobs) == []  # the plugin's own: forgotten. Where this fails, workflow/slurm.py may go.
    slurm.be_patient()
    made = executor(plugin)
    assert running(made, jobs) == ["7", "8"] and made.ended == []
    controller.write_text("7|RUNNING\n8|COMPLETED\n")
    assert running(made, jobs) == ["7"] and made.ended == ["8"]


def test_a_job_that_slurm_has_forgotten_has_ended(plugin, controller, monkeypatch, jobs):
    """After three answers without it; well, if it made its outputs. One that was never seen may not be there yet."""
    monkeypatch.setattr(plugin.Executor, "run_job", lambda self, job: None)
    slurm.be_patient()
    made = executor(plugin)
    for job in jobs:
        old = job.job.output[0]
        old.write_text("of the run before")
        os.utime(old, (1, 1))
    controller.write_text("7|RUNNING\n8|PENDING\n")
    for job in jobs:
        made.run_job(job.job)
    assert running(made, jobs) == ["7", "8"]
    jobs[0].job.output[0].write_text("new")
    controller.write_text("")
    assert running(made, jobs) == running(made, jobs) == ["7", "8"] and made.ended == made.failed == []
    controller.unlink()  # no answer is no answer without it
    assert running(made, jobs) == ["7", "8"] and made.ended == made.failed == []
    controller.write_text("")
    assert running(made, jobs) == [] and made.ended == ["7"] and made.failed == ["8"]
    unseen = SimpleNamespace(external_jobid="9", aux=jobs[0].aux, job=Job([]))
    made.run_job(unseen.job)
    assert [running(made, [unseen]) for _ in range(4)] == [["9"]] * 4
    monkeypatch.setattr(slurm, "UNSEEN_SECONDS", -1)  # long ago
    assert [running(made, [unseen]) for _ in range(3)] == [["9"], ["9"], []] and made.ended == ["7", "9"]


def test_sacct_is_not_asked_while_the_controller_is_away(plugin, controller, jobs, tmp_path):
    """The profile says squeue; where accounting is kept elsewhere, sacct would answer that there are no jobs."""
    (tmp_path / "sacct").write_text(f"#!/bin/sh\ntouch {tmp_path / 'asked'}\n")
    (tmp_path / "sacct").chmod(0o755)
    slurm.be_patient()
    made = executor(plugin)
    controller.write_text("7|RUNNING\n8|RUNNING\n")
    assert running(made, jobs) == ["7", "8"]
    controller.unlink()
    assert [running(made, jobs) for _ in range(4)] == [["7", "8"]] * 4 and not (tmp_path / "asked").exists()


def test_a_cancelled_job_has_failed_for_sacct_too(plugin, controller, jobs):
    """Which says who cancelled it."""
    slurm.be_patient()
    made = executor(plugin)
    controller.write_text("7|CANCELLED by 1000\n8|RUNNING\n")
    assert running(made, jobs) == ["8"] and made.failed == ["7"]


def test_submission_waits_for_the_controller(plugin, controller, monkeypatch):
    submitted = []
    monkeypatch.setattr(plugin.Executor, "run_job", lambda self, job: submitted.append(job))
    monkeypatch.setattr(slurm, "WAIT_SECONDS", 0.1)
    slurm.be_patient()
    waiting = threading.Thread(target=executor(plugin).run_job, args=["job"])
    waiting.start()
    time.sleep(0.5)
    assert not submitted
    controller.write_text("")
    waiting.join(timeout=10)
    assert submitted == ["job"]


def test_nothing_is_submitted_after_ctrl_c(plugin, controller, monkeypatch):
    submitted = []
    monkeypatch.setattr(plugin.Executor, "run_job", lambda self, job: submitted.append(job))
    monkeypatch.setattr(plugin.Executor, "cancel", lambda self: None)
    slurm.be_patient()
    made = executor(plugin)
    waiting = threading.Thread(target=made.run_job, args=["job"])
    waiting.start()
    made.cancel()
    waiting.join(timeout=10)
    assert not waiting.is_alive()
    controller.write_text("")
    made.run_job("another")
    assert not submitted
