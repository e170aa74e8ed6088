"""What a job asks a scheduler for, and what its command is told of the machine."""

from collections.abc import Mapping


def of_job(resources: Mapping, stage: str, gpu_constraint: str | None = None) -> dict:
    """Of a job of a stage, and ``place``: the options that tell the command where it runs. In the shell command through
    resources, so that moving to another machine reruns nothing. GPUs are asked for only where the configuration has them: a
    laptop schedules by cores alone. ``gpu_constraint``: of a site, for jobs with GPUs."""
    where, device, model = resources[stage], resources["device"], resources["gpu_model"]
    job = {"mem_mb": int(1024 * where["memory_gib"]), "runtime": where["minutes"], "nodes": where["nodes"]}
    if device == "gpu" and (resources["gres"] or where["nodes"] > 1):
        # Of each node. A total over nodes says nothing about one, neither to a partition file nor to a job step.
        named = resources["gres"] or (f"gpu:{model}" if model else "gpu")
        job["gres"] = f"{named}:{where['devices']}"
    elif device == "gpu":
        job |= {"gpu": where["devices"]} | ({"gpu_model": model} if model else {})
    if where["nodes"] > 1:  # a task on each; `tasks` would mean tasks of a GPU where there are some
        job |= {"slurm_extra": "--ntasks-per-node=1"} if device == "gpu" else {"tasks": where["nodes"]}
    if device == "gpu" and gpu_constraint:
        job["constraint"] = gpu_constraint
    options = f"--device {device} --devices {where['devices']} --nodes {where['nodes']}"
    return job | {"place": f"{options} --cores {where['cores']} --memory-gib {where['memory_gib']}"}


def devices(resources: Mapping, stage: str) -> int:
    """How many a job of the stage has, on all its nodes; turns are labelled without any."""
    return 0 if stage == "label" else resources[stage]["devices"] * resources[stage]["nodes"]
