"""What Ray starts instead of Python (``py_executable``): asks the run's template for a forked worker. Where there is none, it
becomes Python itself. Run as a file, without site-packages."""

import os
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import handed_over  # type: ignore[import-not-found]  # from its own folder


def main(socket_path: str, *arguments: str) -> None:
    channel = socket.socket(socket.AF_UNIX)
    try:
        channel.connect(socket_path)
    except OSError:
        os.execv(sys.executable, [sys.executable, *arguments])
    handed_over.send(channel, list(arguments), [0, 1, 2])
    channel.recv(1)  # until the worker has been forked


main(*sys.argv[1:])
