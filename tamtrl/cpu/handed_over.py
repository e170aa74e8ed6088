"""What a forked process takes over from the one that asked for it: arguments, environment, working folder and open files. Only
the standard library, and little of it: Ray starts the sender (worker.py) once a worker."""

import fcntl
import json
import os
import signal
import socket
import struct

_LENGTH = struct.Struct("!Q")
_ABOVE = 500  # file numbers that nobody uses yet


def send(channel: socket.socket, arguments: list[str], files: list[int]) -> None:
    values = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd(), "files": files}
    data = json.dumps(values).encode()
    socket.send_fds(channel, [_LENGTH.pack(len(data))], files)
    channel.sendall(data)


def receive(channel: socket.socket) -> tuple[dict, list[int]] | None:
    """None where the sender is gone."""
    head, files, _, _ = socket.recv_fds(channel, _LENGTH.size, 64)
    if len(head) < _LENGTH.size:
        return None
    with channel.makefile("rb") as stream:
        return json.loads(stream.read(_LENGTH.unpack(head)[0])), files


def take_over(values: dict, files: list[int]) -> list[str]:
    """Make this process what was handed over; returns the arguments. ``files`` get the numbers that the sender knew them by."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    copies = [fcntl.fcntl(file, fcntl.F_DUPFD, _ABOVE) for file in files]
    for file in files:
        os.close(file)
    for copy, number in zip(copies, values["files"], strict=True):
        os.dup2(copy, number)
        os.close(copy)
    # Only what differs: the title of a process is written over its first environment, and setproctitle must find that.
    for name in os.environ.keys() - values["environment"].keys():
        del os.environ[name]
    os.environ.update({k: v for k, v in values["environment"].items() if os.environ.get(k) != v})
    os.chdir(values["folder"])
    return values["arguments"]
