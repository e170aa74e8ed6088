"""Watch a training process and leave nothing behind: its descendants, its temporary folder, its shared memory.

Ray and vLLM start processes that outlive a killed parent, so descendants are found by an environment variable they all
inherit, not by parentage.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import psutil

from tamtrl import files
from tamtrl.errors import UserError
from tamtrl.system import die_with_parent

MARK = "TAMTRL_PROCESS_GROUP"
REGISTER_SECONDS = 5
ENGINE = "VLLM::EngineCore"  # what vLLM calls an engine's process
ENGINE_SECONDS = 30  # for the death of an engine to be noticed by the server it belongs to, or to be part of an orderly end
SHARED_MEMORY = Path("/dev/shm")
_COLOUR = r"(?:\x1b\[[0-9;]*m)?"
_PROCESS = r"(?:\([^)]*\) ?|\[rank\d+\]: ?)?"  # Ray's prefix or torchrun's
_LOGGER = r"(?:ERROR \S+ \S+ \[[^\]]*\] )?"  # vLLM's
_CAUSE = re.compile(rf"^{_COLOUR}{_PROCESS}{_COLOUR}{_LOGGER}\s*([\w.]*(?:Error|Exception|Killed)\b.*)")
_CONSEQUENCES = ("ChildFailedError", "EngineDeadError")  # of an error that was logged before


def family(mark: str) -> set[psutil.Process]:
    """Every live process that inherited the mark, and its descendants: Ray's agents hide their environment."""
    parents, found = {}, set()
    for process in psutil.process_iter():
        with suppress(psutil.Error), process.oneshot():
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            parents[process] = process.ppid()
            if process.environ().get(MARK) == mark:
                found.add(process)
    pids = {process.pid for process in found}
    while children := {process for process, parent in parents.items() if parent in pids} - found:
        found |= children
        pids |= {process.pid for process in children}
    return found


def _alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def kill_family(mark: str, seen: Set[psutil.Process] = frozenset()) -> None:
    """Kill until none is left (a dying process may have started another), nor any of those ``seen`` in the family before, whose
    parents may be gone."""
    for _ in range(20):
        processes = family(mark) | {process for process in seen if _alive(process)}
        if not processes:
            break
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=3)


class Engines:
    """Notices that a vLLM engine has died under a server that lives on: verl's trainer, if it is just handing weights over,
    then waits for ever."""

    def __init__(self) -> None:
        self.servers: dict[psutil.Process, psutil.Process | None] = {}
        self.missed: dict[psutil.Process, float] = {}

    def lost(self, processes: set[psutil.Process], now: float) -> bool:
        """Whether an engine seen before has been missing for ENGINE_SECONDS; ``processes`` are the live ones at ``now``."""
        self.missed = {
            engine: self.missed.get(engine, now)
            for engine, server in self.servers.items()
            if engine not in processes and server in processes
        }
        for process in processes:
            with suppress(psutil.Error):
                if process not in self.servers and _is_engine(process) and not _is_engine(server := process.parent()):
                    self.servers[process] = server
        return any(now - since >= ENGINE_SECONDS for since in self.missed.values())


def _is_engine(process: psutil.Process | None) -> bool:
    """By its title, which a process that an engine starts has too until it becomes another program: its parent is one."""
    return process is not None and "".join(process.cmdline()[:1]).startswith(ENGINE)


def segments(processes: set[psutil.Process]) -> set[str]:
    """The shared-memory files that the processes map: verl's weight buffers, vLLM's queues and semaphores."""
    inodes = set().union(*(_mapped_inodes(process.pid) for process in processes))
    with os.scandir(SHARED_MEMORY) as entries:
        return {entry.path for entry in entries if entry.inode() in inodes}


def _mapped_inodes(pid: int) -> set[int]:
    """By inode, because glibc maps a semaphore under another name than it then gives the file."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    fields = [line.split(maxsplit=5) for line in lines if str(SHARED_MEMORY) in line]
    return {int(field[4]) for field in fields if len(field) == 6 and field[5].startswith(str(SHARED_MEMORY))}


def remove_segments(paths: set[str]) -> list[str]:
    """Unlink those of the files that are this user's and that no live process maps any more."""
    inodes = {path: Path(path).stat() for path in paths if Path(path).exists()}
    own = {path: stat.st_ino for path, stat in inodes.items() if stat.st_uid == os.getuid()}
    if own:
        in_use = set().union(*(_mapped_inodes(process.pid) for process in psutil.process_iter()))
        own = {path: inode for path, inode in own.items() if inode not in in_use}
    for path in own:
        Path(path).unlink(missing_ok=True)
    return sorted(own)


def cause(log: Path, begin: int = 0) -> str:
    """The last line of a log, from byte ``begin`` on, that names an exception: for the one sentence a user sees. torchrun's own,
    which says that a rank failed, comes after the one that says why."""
    found = "no exception in the log"
    for line in log.read_bytes()[begin:].decode(errors="replace").splitlines():
        if (match := _CAUSE.match(line)) and not any(name in line for name in _CONSEQUENCES):
            found = match[1].strip()
    return found[:500]


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """SIGTERM (a scheduler's) takes the same orderly way out as Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def supervise(
    command: list[str],
    environment: dict[str, str],
    log: Path,
    register: Path,
    progress: Callable[[], float],
    stall_seconds: float,
) -> int:
    """Run ``command`` to its end and return its exit code; UserError if it had to be stopped because it hung.

    ``progress`` is called every second and returns the time of the last sign of life. Whatever happens, nothing that
    the command started survives this call. If this process itself is killed, ``register`` says what may be left, and
    the next call with the same register clears it away.
    """
    clear(register)
    mark = uuid.uuid4().hex
    # Ray's socket paths must stay short (107 bytes), so not under the run's folder.
    temporary = tempfile.mkdtemp(prefix="tamtrl-")
    log.parent.mkdir(parents=True, exist_ok=True)
    full = os.environ | environment | {MARK: mark, "RAY_TMPDIR": temporary}
    started, due, engines = time.time(), 0.0, Engines()
    known: set[str] = set()
    seen: set[psutil.Process] = set()
    mapped: set[str] = set()
    try:
        with _terminate_as_interrupt(), log.open("ab") as stream:
            _write(register, mark, temporary, mapped)
            child = subprocess.Popen(command, env=full, stdout=stream, stderr=subprocess.STDOUT, preexec_fn=die_with_parent)
            while child.poll() is None:
                if time.time() - max(started, progress()) > stall_seconds:
                    raise UserError(
                        f"Training made no progress for {stall_seconds / 60:g} minutes and was stopped (stall_minutes); the last "
                        f"lines of {log} say where it hung."
                    )
                there = _in_shared_memory()
                if time.time() >= due or there - known:
                    known, due = there, time.time() + REGISTER_SECONDS
                    processes = family(mark)
                    seen |= processes
                    if engines.lost(processes, time.time()):
                        raise UserError(
                            "Training was stopped: a vLLM engine died (by hand, or for want of memory) and the trainer went on "
                            f"waiting for it; the same command continues (full log: {log})."
                        )
                    if (found := segments(processes)) - mapped:
                        mapped |= found
                        _write(register, mark, temporary, mapped)
                _second_or_new_file(child, known)
            progress()
            return child.returncode
    finally:
        with suppress(OSError):  # on a full disk, what was written last has to do
            _write(register, mark, temporary, mapped | segments(family(mark)))
        kill_family(mark, seen)
        clear(register)


def _in_shared_memory() -> set[str]:
    """This user's files there: on a shared node other people's come and go."""
    found = set()
    with os.scandir(SHARED_MEMORY) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.stat().st_uid == os.getuid():
                    found.add(entry.name)
    return found


def _second_or_new_file(child: subprocess.Popen, known: set[str]) -> None:
    """Wait a second, or less where shared memory has a new file: whose it is can be seen while a process maps it, and a process
    may end at once."""
    for _ in range(10):
        time.sleep(0.1)
        if child.poll() is not None or _in_shared_memory() - known:
            return


def _write(register: Path, mark: str, temporary: str, mapped: set[str]) -> None:
    files.write_text(register, json.dumps({"mark": mark, "temporary": temporary, "segments": sorted(mapped)}))


def clear(register: Path) -> None:
    """Remove what a register names: processes, the temporary folder, shared memory; then the register."""
    if not register.exists():
        return
    left = json.loads(register.read_text(encoding="utf-8"))
    kill_family(left["mark"])
    shutil.rmtree(left["temporary"], ignore_errors=True)
    remove_segments(set(left["segments"]))
    register.unlink()
