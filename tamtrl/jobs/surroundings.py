"""What a job must not take over from where it was started: a temporary folder too long for sockets, and the variables of another
Ray."""

import os
import socket
import tempfile
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

from tamtrl.errors import UserError

# The longest path below the temporary folder at which somebody opens a socket is that of Ray's dashboard
# (ray/_private/node.py, ray/dashboard/subprocesses/utils.py); the kernel takes 107 bytes in all, so 23 are left:
#   /tamtrl-XXXXXXXX                              16  processes.supervise
#   /session_2026-01-31_23-59-59_123456_4194304   43  time and process id
#   /sockets                                       8
#   /dash_MetricsHead                             17  where there is no dashboard: /plasma_store, 13
# Others need less: vLLM /UUID (37), Python's multiprocessing /pymp-XXXXXXXX/listener-XXXXXXXX (32).
BELOW = 16 + 43 + 8 + 17
LONGEST = 107 - BELOW
FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")  # the same on every node; the last is memory


def settle(say: Callable[[str], None]) -> None:
    """Before anything imports Ray, vLLM or torch, which look at some of this only then."""
    foreign = sorted(name for name in os.environ if name.startswith("RAY_"))
    for name in foreign:
        del os.environ[name]
    if foreign:
        say(f"Ignored {', '.join(foreign)}: a job starts a Ray of its own.")
    asked = [os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
    folder = temporary_folder([*asked, *FOLDERS])
    if asked and folder != os.path.abspath(asked[0]):
        why = f"{asked[0]} can't be written, or is too long for sockets (more than {LONGEST} bytes)"
        say(f"Temporary files go to {folder}: {why}.")
    os.environ["TMPDIR"] = tempfile.tempdir = folder


def temporary_folder(folders: Iterable[str | Path]) -> str:
    """The first in which every socket of a job can be opened."""
    tried = [os.path.abspath(folder) for folder in folders]
    for folder in tried:
        if _holds_sockets(folder):
            return folder
    raise UserError(
        f"Ray and vLLM can't open sockets in any of {', '.join(dict.fromkeys(tried))}: set TMPDIR to a folder of this machine "
        f"that can be written and is no longer than {LONGEST} bytes."
    )


def _holds_sockets(folder: str) -> bool:
    """Tried, with a path as long as they get: a folder may be too long, not writable, or on a file system without sockets."""
    path = f"{folder}/.tamtrl-{uuid.uuid4().hex}".ljust(len(folder) + BELOW, "_")
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.bind(path)
        except OSError:
            return False
    os.unlink(path)
    return True
