"""Weights go from verl's trainer to its rollout engines through /tmp/rl-colocate-zmq-JOB-...sock, where JOB is the number that
the run's own Ray gave it: 01000000 in every run, so that two on one machine would take each other's weights. Loaded through
VERL_USE_EXTERNAL_MODULES in every process of a run, this moves the sockets to the run's own temporary folder.
"""

import os

import zmq

SHARED = "ipc:///tmp/rl-colocate-zmq-"


def own(address: str) -> str:
    folder = os.environ.get("RAY_TMPDIR")  # of this run alone (processes.py)
    return address.replace("ipc:///tmp/", f"ipc://{folder}/", 1) if folder and address.startswith(SHARED) else address


def _own(name: str) -> None:
    original = getattr(zmq.Socket, name)
    setattr(zmq.Socket, name, lambda self, addr: original(self, own(addr)))


_own("bind")
_own("connect")
