"""Jobs claim GPUs of this machine. They are pretended by an nvidia-smi on PATH; jobs are real processes of the command line, held
where they have claimed devices by a configuration that is a named pipe.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import psutil
import pytest
import yaml
from conftest import REPOSITORY
from test_cli import refused, tamtrl
from test_training import paper_run

from tamtrl.errors import UserError
from tamtrl.jobs import devices, machine
from tamtrl.settings import Resources


def wait_for(condition, seconds: float = 90):
    deadline = time.time() + seconds
    while not (found := condition()) and time.time() < deadline:
        time.sleep(0.1)
    assert found
    return found


@pytest.fixture
def gpus(monkeypatch):
    """A function that makes this a machine with so many GPUs, whose locks nobody else has."""
    folder, name = Path(tempfile.mkdtemp(prefix="gpus-")), uuid.uuid4().hex
    folder.chmod(0o755)  # another user's job asks as well

    def pretend(count: int) -> None:
        lines = "".join(f"echo '{number}, GPU-{name}-{number}'\n" for number in range(count))
        (folder / "nvidia-smi").write_text(f'#!/bin/sh\n[ "$1" = --query-gpu=index,uuid ] || exit 1\n{lines}')
        (folder / "nvidia-smi").chmod(0o755)

    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    for variable in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "SLURM_JOB_ID"):
        monkeypatch.delenv(variable, raising=False)
    yield pretend
    shutil.rmtree(folder)
    for lock in devices.LOCKS.glob(f"GPU-{name}-*"):
        lock.unlink()


class Job:
    """`tamtrl predict`, which ends when its pipe is let go."""

    def __init__(self, folder: Path, count: int, variables: dict[str, str]):
        folder.mkdir()
        self.pipe, self.log = folder / "run.yaml", folder / "log"
        os.mkfifo(self.pipe)
        arguments = ["predict", self.pipe, "--model", "m", "--data", "d", "--output", folder, "--scratch", folder]
        arguments += ["--device", "gpu", "--devices", count]
        command = [sys.executable, "-m", "tamtrl.cli", *map(str, arguments)]
        self.process = subprocess.Popen(command, stderr=self.log.open("w"), env=os.environ | variables)

    def says(self, text: str) -> str:
        wait_for(lambda: text in self.log.read_text() or self.process.poll() is not None)
        assert text in self.log.read_text()
        return self.log.read_text()

    def claimed(self) -> set[str]:
        return set(self.says(")").rpartition("(CUDA_VISIBLE_DEVICES=")[2].split(")")[0].split(","))

    def end(self) -> str:
        """Let it read its configuration, which is empty."""
        wait_for(lambda: let_go(self.pipe))
        assert self.process.wait(timeout=60) == 2
        return self.log.read_text()


def let_go(pipe: Path) -> bool:
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:  # nobody has come to read it yet
        return False
    return True


@pytest.fixture
def start(tmp_path):
    jobs = []

    def one(count: int, **variables: str) -> Job:
        jobs.append(Job(tmp_path / f"job{len(jobs)}", count, variables))
        return jobs[-1]

    yield one
    for job in jobs:
        job.process.kill()
        job.process.wait()


def test_jobs_get_devices_of_their_own_and_free_them_whatever_their_end(gpus, start):
    gpus(4)
    first, second = start(2), start(1)
    pair, single = first.claimed(), second.claimed()
    assert len(pair) == 2 and len(single) == 1 and not pair & single
    third = start(2)
    third.says("Waiting for 2 of 4 GPUs: 1 are free")
    # What a waiting job can't use is free for others.
    assert start(1).claimed() == {"0", "1", "2", "3"} - pair - single
    first.process.send_signal(signal.SIGKILL)
    assert third.claimed() == pair
    second.end()
    assert start(1).claimed() == single


def test_what_a_job_was_given_it_keeps(gpus, start):
    gpus(2)
    assert start(2).claimed() == {"0", "1"}
    for given in (start(1, CUDA_VISIBLE_DEVICES="1"), start(2, SLURM_JOB_ID="7")):
        said = given.end()
        assert "Claimed" not in said and "Waiting" not in said


def test_of_more_than_it_needs_a_job_takes_some(gpus, start):
    """Half of a machine's devices, or a whole node of SLURM's, shared by jobs of one device each."""
    gpus(4)
    first, second = (start(1, CUDA_VISIBLE_DEVICES="2,3", SLURM_JOB_ID="7").claimed() for _ in range(2))
    assert sorted(first | second) == ["2", "3"]
    start(1, CUDA_VISIBLE_DEVICES="2,3").says("Waiting for 1 of 2 GPUs: 0 are free")


def test_more_devices_than_there_are_are_refused(gpus):
    gpus(2)
    rest = ["predict", "run.yaml", "--model", "m", "--data", "d", "--output", "o", "--scratch", "s", "--device", "gpu"]
    refused(tamtrl(*rest, "--devices", "3"), "needs 3 GPUs but 2 are visible")
    gpus(0)
    refused(tamtrl(*rest), "needs 1 GPUs but 0 are visible")


@pytest.mark.slow
def test_children_see_the_claimed_devices(gpus, start, tmp_path):
    """The process that would train is started with them, and dies with the one that holds the lock."""
    gpus(2)
    other = start(1).claimed()
    for name in ("train", "validation"):
        (tmp_path / f"{name}.parquet").touch()
    files = {f"{name}_data": str(tmp_path / f"{name}.parquet") for name in ("train", "validation")}
    paper_run(**files).save(tmp_path / "run.yaml")
    run = yaml.safe_load((tmp_path / "run.yaml").read_text())
    run["reading"] |= yaml.safe_load((REPOSITORY / "config" / "toy.yaml").read_text())["reading"]
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(run))
    command = ["train", tmp_path / "run.yaml", "--output", tmp_path / "out", "--scratch", tmp_path / "scratch"]
    command = [sys.executable, "-m", "tamtrl.cli", *map(str, command), "--device", "gpu", "--devices", "1"]
    with subprocess.Popen(command) as job:
        try:
            inside = psutil.Process(job.pid)
            (child,) = wait_for(lambda: [c for c in inside.children() if "tamtrl.training.launch" in c.cmdline()])
            variables = child.environ()
        finally:
            job.kill()
    assert {variables["CUDA_VISIBLE_DEVICES"]} == {"0", "1"} - other and variables["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    shutil.rmtree(variables["RAY_TMPDIR"])  # which the next attempt would clear away


def claimer(code: str, **options) -> subprocess.Popen:
    script = f"import os, subprocess, time; from pathlib import Path; from tamtrl.jobs import devices\n{code}"
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, **options)


def test_children_that_outlive_a_job_do_not_hold_its_devices(gpus, start):
    gpus(1)
    job = claimer("""
devices.claim(1, lambda line: None)
other = subprocess.Popen(["sleep", "300"], close_fds=False)
if forked := os.fork():
    print(other.pid, forked, flush=True)
time.sleep(300)
""")
    children = [psutil.Process(int(pid)) for pid in job.stdout.readline().split()]
    try:
        second = start(1)
        second.says("Waiting for 1 of 1 GPUs: 0 are free")
        job.kill()
        assert second.claimed() == {"0"} and all(child.is_running() for child in children)
    finally:
        for process in (job, *children):
            process.kill()
        job.communicate()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start another user's job")
def test_another_user_shares_the_folder(gpus):
    gpus(2)
    folder = f"/tmp/tamtrl-test-{uuid.uuid4().hex}"
    code = f"devices.LOCKS = Path('{folder}'); devices.claim(1, lambda line: None)\n"
    code += "print(os.environ[devices.VISIBLE], flush=True); time.sleep(300)\n"
    started = []
    try:
        for user, device in ((0, "0"), (65534, "1")):
            started.append(claimer(f"os.setuid({user}); os.umask(0o077); {code}"))
            assert started[-1].stdout.readline().strip() == device
    finally:
        for job in started:
            job.kill()
            job.communicate()
        shutil.rmtree(folder)


def test_devices_that_are_visible(gpus, monkeypatch):
    gpus(3)
    assert machine.gpus() == 3
    for named, count in {"": 0, "-1": 0, "NoDevFiles": 0, "5": 1, "0,2": 2, "1,-1,2": 1, "GPU-1f, GPU-2f": 2}.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
        assert machine.gpus() == count, named
    with pytest.raises(UserError, match="needs 3 GPUs but 2 are visible"):
        machine.require(Resources("gpu", 3, 1, 1, 0))


SNAKEFILE = """
rule all:
    input: "0.done", "1.done"

rule predict:
    input: "{n}.yaml"
    output: "{n}.done"
    log: "{n}.log"
    resources: gpu=1
    shell:
        "{PYTHON} -m tamtrl.cli predict {input} --model m --data d --output . --scratch . --device gpu --devices 1 2> {log} "
        "|| touch {output}"
"""


@pytest.mark.slow
def test_two_jobs_of_the_profile_side_by_side(gpus, tmp_path):
    gpus(2)
    (tmp_path / "Snakefile").write_text(SNAKEFILE.replace("{PYTHON}", sys.executable))
    pipes, logs = ([tmp_path / f"{n}.{kind}" for n in range(2)] for kind in ("yaml", "log"))
    for pipe in pipes:
        os.mkfifo(pipe)
    command = ["snakemake", "--profile", str(REPOSITORY / "local-gpu"), "--cores", "2"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as snakemake:
        try:
            wait_for(lambda: all(log.exists() and "Claimed" in log.read_text() for log in logs))
            for pipe in pipes:
                wait_for(lambda pipe=pipe: let_go(pipe))
            assert snakemake.wait(timeout=60) == 0, snakemake.stderr.read()
        finally:
            snakemake.terminate()
    seen = {log.read_text().rpartition("(CUDA_VISIBLE_DEVICES=")[2].split(")")[0] for log in logs}
    assert seen == {"0", "1"}
