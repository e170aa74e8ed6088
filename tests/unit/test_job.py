"""Processes and locks of a training job."""

import errno
import io
import json
import os
import shlex
import subprocess
import sys
import time
from multiprocessing import shared_memory
from pathlib import Path

import psutil
import pytest

from tamtrl.errors import UserError
from tamtrl.jobs import job, processes

ORPHAN = """
import subprocess, sys, time
from multiprocessing import resource_tracker, shared_memory
resource_tracker.register = lambda *a: None
segment = shared_memory.SharedMemory(name={name!r}, create=True, size=4096)
segment.buf[0] = 1
subprocess.Popen(["sleep", "300"], start_new_session=True)
open({marker!r}, "w").close()
{end}
"""


def supervised(tmp_path, end: str, **options):
    name = f"tamtrl_test_{os.getpid()}_{tmp_path.name[-8:]}"
    marker = str(tmp_path / "started")
    script = ORPHAN.format(name=name, marker=marker, end=end)
    arguments = dict(progress=lambda: 0.0, stall_seconds=60) | options
    code = processes.supervise([sys.executable, "-c", script], {}, tmp_path / "log", tmp_path / "register", **arguments)
    return code, Path("/dev/shm") / name


def sleepers():
    return [p for p in processes.psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "300"]]


@pytest.mark.slow
def test_a_failed_run_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(processes.tempfile, "tempdir", str(tmp_path))
    before = len(sleepers())
    code, segment = supervised(tmp_path, "time.sleep(0.5); raise SystemExit(3)")
    assert code == 3 and len(sleepers()) == before and not segment.exists()
    assert not list(tmp_path.glob("tamtrl-*"))


def left_in_memory():
    return list(Path("/dev/shm").glob(f"tamtrl_test_{os.getpid()}_*"))


@pytest.mark.slow
def test_a_hung_run_is_stopped(tmp_path):
    before = len(sleepers())
    with pytest.raises(UserError, match=r"no progress for 0.1 minutes and was stopped \(stall_minutes\)"):
        supervised(tmp_path, "time.sleep(300)", stall_seconds=6)
    assert len(sleepers()) == before and not left_in_memory()


ENGINE = "exec -a VLLM::EngineCore sleep 7"


@pytest.mark.slow
def test_a_run_whose_engine_died_is_stopped(tmp_path, monkeypatch):
    """A server that lives on without its engine, and a trainer that waits for both."""
    monkeypatch.setattr(processes, "ENGINE_SECONDS", 4)
    before = len(sleepers())
    with pytest.raises(UserError, match=r"a vLLM engine died .* the same command continues"):
        supervised(tmp_path, f"subprocess.run(['bash', '-c', {ENGINE!r}]); time.sleep(300)")
    assert len(sleepers()) == before and not left_in_memory()


@pytest.mark.slow
def test_an_engine_that_ends_with_its_server_is_not_missed(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "ENGINE_SECONDS", 4)
    code, _ = supervised(tmp_path, f"subprocess.run(['bash', '-c', {f'({ENGINE}); true'!r}]); time.sleep(12)")
    assert code == 0


def test_what_an_engine_starts_is_no_engine():
    """Between fork and exec it has the engine's title; when it becomes another program, no engine has died."""
    code = "import os, time; child = os.fork(); time.sleep(60 if child else 1)"
    command = f"exec -a VLLM::EngineCore {sys.executable} -c {code!r}"
    with subprocess.Popen(["bash", "-c", f"bash -c {shlex.quote(command)}; true"]) as server:
        tree = psutil.Process(server.pid)
        while len(live := {tree, *tree.children(recursive=True)}) < 3:  # server, engine and its child
            time.sleep(0.02)
        engines = processes.Engines()
        assert not engines.lost(live, 0.0) and len(engines.servers) == 1
        (engine,) = engines.servers
        (child,) = engine.children()
        assert child.cmdline() == engine.cmdline()
        assert not engines.lost(live - {child}, 1.0) and not engines.lost(live - {child}, 100.0)
        assert not engines.lost(live - {engine}, 200.0) and engines.lost(live - {engine}, 300.0)  # its own death is noticed
        for process in live:
            process.kill()


@pytest.mark.slow
def test_processes_that_hide_the_mark_do_not_stay(tmp_path):
    """As Ray's agents do; here, by starting without an environment."""
    before = len(sleepers())
    hidden = "subprocess.Popen(['sleep', '300'], env={})"
    code = f"import subprocess, time; {hidden}; time.sleep(300)"
    supervised(tmp_path, f"subprocess.Popen([sys.executable, '-c', {code!r}], start_new_session=True); time.sleep(3)")
    assert len(sleepers()) == before


@pytest.mark.slow
def test_a_full_disk_leaves_nothing_running(tmp_path, monkeypatch):
    """The register can't be written any more; what it said before has to do."""
    monkeypatch.setattr(processes.tempfile, "tempdir", str(tmp_path))
    before = len(sleepers())
    write, told = processes._write, []

    def full_after_the_first(*arguments):
        told.append(arguments)
        if len(told) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(*arguments)

    monkeypatch.setattr(processes, "_write", full_after_the_first)
    with pytest.raises(OSError, match="No space left"):
        supervised(tmp_path, "time.sleep(300)")
    for segment in Path("/dev/shm").glob(f"tamtrl_test_{os.getpid()}_*"):  # what no register could name
        segment.unlink()
    assert len(told) == 3 and len(sleepers()) == before  # tried once more at the end
    assert not list(tmp_path.glob("tamtrl-*")) and not (tmp_path / "register").exists()


def test_a_log_on_the_same_full_disk_says_nothing(tmp_path, monkeypatch):
    """What the trainer would have said of it could not be written either."""

    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    training = job.Job(tmp_path, 6, ["false"], lambda log: {}, 1, "model", "data.pt", 1, lambda step, values: None)
    with pytest.raises(UserError, match=r"no exception in the log .exit code 1"):
        training.run(print)
    monkeypatch.setattr(job.tempfile, "TemporaryFile", lambda dir: Full())
    with pytest.raises(OSError, match="No space left"):
        training.run(print)


@pytest.mark.slow
def test_what_a_killed_supervisor_leaves_is_cleared_by_the_next_start(tmp_path):
    name = f"tamtrl_test_killed_{os.getpid()}"
    script = ORPHAN.format(name=name, marker=str(tmp_path / "started"), end="time.sleep(300)")
    code = (
        "import sys; from pathlib import Path; from tamtrl.jobs import processes; "
        f"processes.supervise([sys.executable, '-c', {script!r}], {{}}, Path({str(tmp_path)!r}, 'log'), "
        f"Path({str(tmp_path)!r}, 'register'), lambda: 0.0, 60)"
    )
    before = len(sleepers())
    supervisor = subprocess.Popen([sys.executable, "-c", code])
    register, segment = tmp_path / "register", Path("/dev/shm") / name
    deadline = time.time() + 60
    while not (register.exists() and name in register.read_text()) and time.time() < deadline:
        time.sleep(0.2)
    (child,) = processes.psutil.Process(supervisor.pid).children()
    supervisor.kill()
    supervisor.wait()
    child.wait(10)  # the kernel kills the child; its own child and its shared memory stay
    assert segment.exists() and len(sleepers()) == before + 1
    temporary = Path(json.loads(register.read_text())["temporary"])
    assert processes.supervise(["true"], {}, tmp_path / "log", register, lambda: 0.0, 60) == 0
    assert not segment.exists() and len(sleepers()) == before and not register.exists() and not temporary.exists()


def test_segments_in_use_are_kept():
    segment = shared_memory.SharedMemory(create=True, size=4096)
    try:
        assert processes.remove_segments({f"/dev/shm/{segment.name}"}) == []
    finally:
        segment.close()
        segment.unlink()


def test_cause_is_the_last_exception(tmp_path):
    log = tmp_path / "log"
    log.write_text("Traceback\nValueError: first\n\x1b[36m(Worker pid=1)\x1b[0m RuntimeError: the real one\nbye\n")
    assert processes.cause(log) == "RuntimeError: the real one"
    assert processes.cause(log, begin=log.read_text().index("bye")) == "no exception in the log"  # an earlier attempt's
    log.write_text("[rank0]: RuntimeError: why\nelastic.multiprocessing.errors.ChildFailedError: \n====\n")
    assert processes.cause(log) == "RuntimeError: why"  # and not torchrun's
    vllm = "ERROR 11-30 01:15:04 [core.py:1351]"
    log.write_text(f"(Worker pid=1) {vllm} RuntimeError: why\n(APIServer pid=2) {vllm} vllm.v1.EngineDeadError: See above\n")
    assert processes.cause(log) == "RuntimeError: why"  # nor vLLM's
    log.write_text("nothing")
    assert processes.cause(log) == "no exception in the log"


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def flock(stream, operation):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(job.fcntl, "flock", flock)
    refused = pytest.raises(UserError, match=f"The file system of {tmp_path} has no locks .* pathvars.scratch")
    with refused, job.locked(tmp_path):
        pass
