"""Does this machine have what a run was configured for?"""

import os

import psutil

from tamtrl.errors import UserError
from tamtrl.jobs import control_groups, devices
from tamtrl.settings import Resources


def cores() -> int:
    """Cores this process may use (a scheduler or a container may give fewer than the machine has)."""
    return min(len(os.sched_getaffinity(0)), control_groups.cores() or 2**16)


def gpus() -> int:
    """Devices this process may use: those that CUDA_VISIBLE_DEVICES names, where it is set."""
    return len(devices.visible())


def require(resources: Resources) -> None:
    """Refuse before anything is loaded when cores, memory or GPUs are fewer than the configuration says."""
    if cores() < resources.cores:
        raise UserError(
            f"This run is configured for {resources.cores} CPU cores but {cores()} are available; lower the cores in "
            "`resources` of the configuration."
        )
    _require_memory(resources.memory_gib)
    if resources.device == "gpu":
        devices.require(resources.devices, gpus())


def _require_memory(gib: float) -> None:
    needed = int(1024 * gib) * 2**20  # whole mebibytes, as a scheduler is asked for
    memory, limit = psutil.virtual_memory().total, control_groups.memory()
    if memory < needed:
        raise UserError(
            f"This run needs {gib:g} GiB of memory but this machine has {memory / 2**30:.1f} GiB; lower memory_gib in "
            "`resources` of the configuration only if you know that it fits."
        )
    if limit and limit[0] < needed:
        raise UserError(
            f"This run needs {gib:g} GiB of memory but its control group allows {limit[0] / 2**30:.1f} GiB ({limit[1]}); ask "
            "the scheduler or container for more, or lower memory_gib in `resources` of the configuration only if you know that "
            "it fits."
        )
