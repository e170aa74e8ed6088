"""What is asked of the operating system."""

import ctypes
import signal
import socket

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """The kernel kills this process when the one that started it dies, whatever the way."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]
