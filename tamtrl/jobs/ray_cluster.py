"""One Ray over all nodes of a SLURM job: its head beside the training process, a worker on each other node.

On one node Ray needs none of this: verl starts it inside the training process, with a folder and ports of its own.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import ray

from tamtrl.errors import UserError
from tamtrl.settings import Resources
from tamtrl.system import die_with_parent, free_port

WAIT_SECONDS = 300


def other_nodes() -> list[str]:
    """The nodes of this SLURM job, without the one that this process runs on."""
    job = os.environ.get("SLURM_JOB_ID")
    if not job:
        raise UserError("resources.train.nodes is more than 1, but this is no SLURM job; only SLURM says which nodes there are.")
    # Asked by job id: inside a job step the variables speak of the step.
    asked = subprocess.run(["squeue", "-h", "-j", job, "-o", "%N"], capture_output=True, text=True, check=True).stdout.strip()
    listed = subprocess.run(["scontrol", "show", "hostnames", asked], capture_output=True, text=True, check=True).stdout.split()
    return [node for node in listed if node != os.environ["SLURMD_NODENAME"]]


def start_command(cpus: int, gpus: int, address: str | None, port: int) -> list[str]:
    """``ray start``: the head at ``port``, or a worker that joins ``address``; either lives as long as the process."""
    place = ["--address", address] if address else ["--head", "--port", str(port), "--include-dashboard", "false"]
    if not address and (folder := os.environ.get("RAY_TMPDIR")):
        place += ["--temp-dir", folder]
    counts = ["--num-cpus", str(cpus), "--num-gpus", str(gpus), "--disable-usage-stats", "--block"]
    return [sys.executable, "-m", "ray.scripts.scripts", "start", *place, *counts]


def worker_command(node: str, cores: int, cpus: int, gpus: int, address: str) -> list[str]:
    """A job step on another node of the job."""
    step = [
        "srun",
        "--overlap",
        "--nodes=1",
        "--ntasks=1",
        f"--nodelist={node}",
        f"--cpus-per-task={cores}",
        "--kill-on-bad-exit=1",
        "--cpu-bind=none",  # not the mask of the step that this is called from, whose cores are another node's
    ]
    # SLURM names the step's GPUs for AMD's software too, and verl refuses both.
    return [*step, "env", "-u", "ROCR_VISIBLE_DEVICES", *start_command(cpus, gpus, address, 0)]


@contextlib.contextmanager
def over_nodes(resources: Resources, num_cpus: int) -> Iterator[str]:
    """Yield the address of a Ray that is up on all nodes; nothing for one node. ``num_cpus``: what Ray is told that a node
    has."""
    if resources.nodes == 1:
        yield ""
        return
    others = other_nodes()
    if 1 + len(others) != resources.nodes:
        raise UserError(f"resources.train.nodes is {resources.nodes}, but the SLURM job has {1 + len(others)}.")
    port = free_port()
    address = f"{ray.util.get_node_ip_address()}:{port}"
    started = [_start([*start_command(num_cpus, resources.devices, None, port)])]
    try:
        _wait(lambda: _alive(address) == 1, started, "the head of Ray")
        started += [_start(worker_command(node, resources.cores, num_cpus, resources.devices, address)) for node in others]
        _wait(lambda: _alive(address) == resources.nodes, started, f"Ray on {resources.nodes} nodes")
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=30)


def _start(command: list[str]) -> subprocess.Popen:
    return subprocess.Popen(command, preexec_fn=die_with_parent)


def _alive(address: str) -> int:
    """How many nodes the Ray at ``address`` has; 0 while it doesn't answer."""
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        return sum(node["Alive"] for node in ray.nodes())
    except (ConnectionError, RuntimeError, TimeoutError):
        return 0
    finally:
        ray.shutdown()


def _wait(condition: Callable[[], object], processes: list[subprocess.Popen], what: str) -> None:
    deadline = time.time() + WAIT_SECONDS
    while not condition():
        if any(process.poll() is not None for process in processes):
            raise RuntimeError(f"Ray ended on one of the nodes while waiting for {what}; its last words are above.")
        if time.time() > deadline:
            raise RuntimeError(f"Waited {WAIT_SECONDS} s for {what}.")
        time.sleep(1)
