"""Does this machine have what a run was configured for?"""

import ctypes
import os
import signal

import psutil

from tamtrl.errors import UserError
from tamtrl.settings import Resources

_PR_SET_PDEATHSIG = 1


def cores() -> int:
    """Cores this process may use (a scheduler may give fewer than the machine has)."""
    return len(os.sched_getaffinity(0))


def gpus() -> int:
    import torch

    return torch.cuda.device_count()


def require(resources: Resources) -> None:
    """Refuse before anything is loaded when cores, memory or GPUs are fewer than the configuration says."""
    if cores() < resources.cores:
        raise UserError(
            f"This run is configured for {resources.cores} CPU cores but {cores()} are available; lower the cores in "
            "`resources` of the configuration."
        )
    memory = psutil.virtual_memory().total / 2**30
    if memory < resources.memory_gib:
        raise UserError(
            f"This run needs {resources.memory_gib:g} GiB of memory but this machine has {memory:.1f} GiB; lower "
            "memory_gib in `resources` of the configuration only if you know that it fits."
        )
    if resources.device == "gpu" and gpus() < resources.devices:
        raise UserError(
            f"This run needs {resources.devices} GPUs but {gpus()} are visible; lower the GPUs in `resources` of the "
            "configuration, or use a CPU configuration such as config/toy.yaml."
        )


def die_with_parent() -> None:
    """The kernel kills this process when the one that started it dies, whatever the way."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
