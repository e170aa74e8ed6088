"""Training stops by itself before the scheduler ends its job."""

import os
from pathlib import Path

import pytest

from tamtrl.jobs import time_limit
from tamtrl.jobs.time_limit import STOP_AT, Clock, seconds, stop_at


@pytest.mark.parametrize(
    ("left", "expected"),
    [("2-03:04:05", 2 * 86400 + 3 * 3600 + 4 * 60 + 5), ("59:30", 3570), ("1:00:00\n", 3600), ("42", 42), ("UNLIMITED", None),
     ("INVALID", None), ("", None), ("N/A", None)],
)  # fmt: skip
def test_time_left_as_slurm_writes_it(left, expected):
    assert seconds(left) == expected


def test_no_scheduler_no_limit(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert stop_at() == {}


def test_the_limit_is_what_squeue_says(monkeypatch, tmp_path):
    squeue = tmp_path / "squeue"
    squeue.write_text('#!/bin/sh\n[ "$3" = 17 ] && echo 10:00\n')
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(time_limit.time, "time", lambda: 1000.0)
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert stop_at() == {STOP_AT: "1600.0"}
    monkeypatch.setenv("SLURM_JOB_ID", "18")  # squeue no longer knows it
    assert stop_at() == {}
    monkeypatch.setenv("PATH", str(Path("/nonexistent")))
    assert stop_at() == {}


def test_a_step_must_fit_with_a_reserve(monkeypatch):
    monkeypatch.setenv(STOP_AT, "1000")
    clock = Clock()
    assert clock.another_step_fits(0)
    assert clock.another_step_fits(100)  # the step took 100 s: 100 + 120 + 60 = 280
    assert clock.another_step_fits(150)  # the longest counts: 150 + 120 + 60
    assert not clock.another_step_fits(800)  # now 650 s: 800 + 780 + 60 = 1640


def test_without_a_limit_everything_fits(monkeypatch):
    monkeypatch.delenv(STOP_AT, raising=False)
    assert Clock().another_step_fits(1e12)


@pytest.mark.parametrize(
    ("answers", "asked", "said"),
    [
        (["exit 0"], 1, "Job 17 goes back to the queue"),
        (["echo 'Unable to contact slurm controller' >&2; exit 1", "exit 0"], 2, "Job 17 goes back to the queue"),
        (["echo 'Requested operation is presently disabled' >&2; exit 1"], 1, "does not start job 17 again by itself: Requested"),
    ],
)
def test_a_planned_stop_asks_for_the_queue(monkeypatch, tmp_path, answers, asked, said):
    """Until the controller answers; a refusal ends it, and then the stop costs a retry."""
    for number, answer in enumerate(answers):
        (tmp_path / f"answer{number}").write_text(answer)
    count = f"n=$(cat {tmp_path}/asked 2>/dev/null || echo 0); echo $((n + 1)) > {tmp_path}/asked"
    check = '[ "$1 $2" = "requeue 17" ] || exit 9'
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\n{check}\n{count}\n. {tmp_path}/answer$n\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(time_limit, "ASK_SECONDS", 0)
    monkeypatch.setattr(time_limit, "REQUEUE_SECONDS", 0)
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    told = []
    time_limit.requeue(told.append)
    assert not told and not (tmp_path / "asked").exists()  # a job that the workflow didn't submit
    monkeypatch.setenv(time_limit.RESTARTABLE, "1")
    time_limit.requeue(told.append)
    assert said in told[-1] and int((tmp_path / "asked").read_text()) == asked
