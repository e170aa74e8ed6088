"""A process forked while its parent is young and kept for the first process that multiprocessing spawns there: vLLM's engine,
which would otherwise import all of vLLM again (13 s of a core). It is a child of its parent like any other, and dies with it."""

import importlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from multiprocessing import util
from typing import Any

from tamtrl.cpu import handed_over
from tamtrl.system import die_with_parent

_SPAWNED = "--multiprocessing-fork"


def keep(*modules: str) -> None:
    """``modules``: what the spawned process will import. Where there are threads already, which a fork would lose, the process is
    spawned as ever."""
    if not hasattr(util, "spawnv_passfds"):
        raise RuntimeError("multiprocessing has no util.spawnv_passfds any more; adapt tamtrl/cpu/spare.py.")
    for module in modules:
        importlib.import_module(module)
    if threading.active_count() > 1:
        return
    ours, its = socket.socketpair()
    pid = os.fork()
    if not pid:
        ours.close()
        _wait(its)
    its.close()
    waiting, original = [(pid, ours)], util.spawnv_passfds

    def spawnv_passfds(path: bytes, args: Sequence[Any], passfds: Sequence[int]) -> int:
        if not waiting or _SPAWNED not in args:
            return original(path, args, passfds)
        pid, channel = waiting.pop()
        with channel:
            handed_over.send(channel, [os.fsdecode(argument) for argument in args], [0, 1, 2, *sorted(set(passfds))])
        return pid

    util.spawnv_passfds = spawnv_passfds


def _wait(channel: socket.socket) -> None:
    """Never returns. Without the parent's clean-up at exit, as any process that multiprocessing forks."""
    code = 1
    try:
        die_with_parent()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent tells this one to end
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if (handed := handed_over.receive(channel)) is None:
            os._exit(0)
        channel.close()
        arguments = handed_over.take_over(*handed)
        sys.argv = ["-c", _SPAWNED]
        exec(arguments[arguments.index("-c") + 1], {})
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
