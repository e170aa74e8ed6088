"""The GPUs of this machine, and which of them are a job's: one that was given none takes free ones for itself.

A device is taken by a lock on a file of its own, in a folder that all jobs and users of the machine share. The kernel frees the
lock when the process ends, in whatever way.
"""

import fcntl
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

from tamtrl.errors import UserError

VISIBLE = "CUDA_VISIBLE_DEVICES"
LOCKS = Path("/tmp/tamtrl-devices")  # not under TMPDIR, which differs from job to job
POLL_SECONDS = 2

_held: list[int] = []


def present() -> dict[str, str]:
    """The uuid of every device of this machine by its number."""
    query = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    try:
        listed = subprocess.run(query, capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(re.findall(r"^(\d+), *(\S+)$", listed, re.MULTILINE))


def visible() -> list[str]:
    """The devices that a process started now would see. Of what CUDA_VISIBLE_DEVICES names, CUDA takes no more after the first
    that can't be a device (``-1``, SLURM's ``NoDevFiles``)."""
    named = os.environ.get(VISIBLE)
    if named is None:
        return list(present())
    return list(takewhile(re.compile(r"\d+$|GPU-|MIG-").match, (name.strip() for name in named.split(","))))


def require(count: int, there: int) -> None:
    if there < count:
        raise UserError(
            f"This run needs {count} GPUs but {there} are visible; lower the GPUs in `resources` of the configuration, or use a "
            "CPU configuration such as config/toy.yaml."
        )


def claim(count: int, say: Callable[[str], None]) -> None:
    """See to it that CUDA_VISIBLE_DEVICES names ``count`` devices that no other job has, waiting for them where they are taken.
    What a scheduler or the user has given is left as it is, but where it is more than that: then some of it. Before anything
    asks CUDA."""
    if VISIBLE not in os.environ and "SLURM_JOB_ID" in os.environ:
        return
    there = present()
    if VISIBLE in os.environ:
        given = visible()
        there = {number: uuid for number, uuid in there.items() if number in given or uuid in given}
        if len(given) <= count or len(there) < len(given):
            return
    require(count, len(there))
    waiting = False
    while len(taken := _take(there, count)) < count:
        if not waiting:
            say(f"Waiting for {count} of {len(there)} GPUs: {len(taken)} are free, other jobs have the rest.")
            waiting = True
        time.sleep(POLL_SECONDS)
    # By number, since vLLM reads numbers; nvidia-smi counts in this order and CUDA by default in another.
    os.environ |= {VISIBLE: ",".join(taken), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    say(f"Claimed GPU {', '.join(taken)} of {len(there)} ({VISIBLE}={os.environ[VISIBLE]}).")


def _take(there: dict[str, str], count: int) -> list[str]:
    """The numbers of the free devices, ``count`` at most; they are locked from here on if ``count`` were free, else none is."""
    taken: dict[str, int] = {}
    with _alone():
        for number, uuid in there.items():
            if len(taken) == count:
                break
            lock = _open(LOCKS / uuid)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                taken[number] = lock
            except BlockingIOError:
                os.close(lock)
        if len(taken) == count:
            _held.extend(taken.values())
        else:
            for lock in taken.values():
                os.close(lock)
    return list(taken)


@contextmanager
def _alone() -> Iterator[None]:
    """One job at a time looks for free devices: two that each need all would else hold a part each. What fails in here fails
    in the folder of locks."""
    umask = os.umask(0)  # others' jobs must be able to make and open files here
    folder = None
    try:
        LOCKS.mkdir(mode=0o1777, exist_ok=True)
        folder = os.open(LOCKS, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    except OSError as error:
        raise UserError(
            f"Devices can't be shared out among jobs ({LOCKS}: {error.strerror}); remove that folder, or set {VISIBLE} by hand."
        ) from None
    finally:
        os.umask(umask)
        if folder is not None:
            os.close(folder)


def _open(path: Path) -> int:
    """To read, which is all that a lock needs: another user's file can be neither written nor, where fs.protected_regular is on,
    opened by a call that would create it."""
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o644)


def _forget() -> None:
    """A forked child, which would hold the locks beyond the job's end. (One that is started anew doesn't inherit them.)"""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_forget)
