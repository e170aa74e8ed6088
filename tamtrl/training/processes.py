"""Watch a training process and leave nothing behind: its descendants, its temporary folder, its shared memory.

Ray and vLLM start processes that outlive a killed parent, so descendants are found by an environment variable they all
inherit, not by parentage.
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

MARK = "TAMTRL_PROCESS_GROUP"
# What verl leaves in shared memory when a weight transfer is cut off.
SEGMENTS = ("verl_weights_",)
_CAUSE = re.compile(r"^(?:\x1b\[[0-9;]*m)?(?:\([^)]*\) ?)?(?:\x1b\[[0-9;]*m)?\s*([\w.]*(?:Error|Exception|Killed)\b.*)")
_PR_SET_PDEATHSIG = 1


def marked(mark: str) -> list[psutil.Process]:
    """Every live process of ours that inherited the mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def kill_marked(mark: str) -> int:
    """Kill until none is left (a dying process may have started another); returns how many were killed."""
    killed = 0
    for _ in range(20):
        processes = marked(mark)
        if not processes:
            break
        for process in processes:
            try:
                process.kill()
                killed += 1
            except psutil.NoSuchProcess:
                pass
        psutil.wait_procs(processes, timeout=3)
    return killed


def remove_orphan_segments(folder: Path = Path("/dev/shm")) -> list[str]:
    """Unlink verl's segments that are this user's and that no live process maps; a running job's stay."""
    if not folder.is_dir():
        return []
    names = [f for f in folder.iterdir() if f.name.startswith(SEGMENTS) and f.stat().st_uid == os.getuid()]
    if not names:
        return []
    mapped = ""
    for process in psutil.process_iter():
        try:
            mapped += Path(f"/proc/{process.pid}/maps").read_text()
        except OSError:
            continue
    orphans = [f for f in names if str(f) not in mapped]
    for segment in orphans:
        segment.unlink(missing_ok=True)
    return [f.name for f in orphans]


def cause(log: Path) -> str:
    """The last line of a log that names an exception, for the one sentence a user sees."""
    found = "no exception in the log"
    for line in log.read_text(errors="replace").splitlines():
        if match := _CAUSE.match(line):
            found = match[1].strip()
    return found[:500]


def _die_with_parent() -> None:
    """In the child, before exec: the kernel kills it when this process dies, whatever the way. Ray's own processes do the
    same towards it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """SIGTERM (a scheduler's) takes the same orderly way out as Ctrl-C."""

    def interrupt(number, frame):
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def supervise(
    command: list[str], environment: dict[str, str], log: Path, progress: Callable[[], float], stall_seconds: float
) -> int:
    """Run ``command`` to its end and return its exit code; -1 if it stalled.

    ``progress`` is called every second and returns the time of the last sign of life. Whatever happens, nothing that
    the command started survives this call.
    """
    mark = uuid.uuid4().hex
    # Ray's socket paths must stay short (107 bytes), so not under the run's folder.
    temporary = tempfile.mkdtemp(prefix="tamtrl-")
    log.parent.mkdir(parents=True, exist_ok=True)
    full = os.environ | environment | {MARK: mark, "RAY_TMPDIR": temporary}
    started = time.time()
    try:
        with _terminate_as_interrupt(), log.open("ab") as stream:
            child = subprocess.Popen(
                command, env=full, stdout=stream, stderr=subprocess.STDOUT, preexec_fn=_die_with_parent
            )
            while child.poll() is None:
                if time.time() - max(started, progress()) > stall_seconds:
                    return -1
                time.sleep(1)
            progress()
            return child.returncode
    finally:
        kill_marked(mark)
        shutil.rmtree(temporary, ignore_errors=True)
        remove_orphan_segments()
