"""Snakemake on the test cluster, and what SLURM and this machine say meanwhile."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pandas as pd
import psutil

STARTED: list[subprocess.Popen] = []
SMALL = ["--profile", "slurm", "--configfile", "tests/slurm/small.yaml"]


def environment(**changes: str) -> dict[str, str]:
    """With the hub switched off: jobs run on nodes without a network."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "TAMTRL_SLURM_POLL": "3", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"} | changes


def start(folder: Path, *arguments: str, **changes: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "snakemake", *SMALL, *arguments]
    options = dict(text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    STARTED.append(subprocess.Popen(command, cwd=folder, env=environment(**changes), **options))
    return STARTED[-1]


def stop_started() -> None:
    """What a failed test left."""
    for run in STARTED:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()


def queue() -> pd.DataFrame:
    """The jobs that SLURM knows, ended ones included."""
    columns = {"JobArrayID": "job", "Partition": "partition", "State": "state", "tres-per-job": "gres", "NumCPUs": "cpus"}
    columns |= {"MinMemory": "memory", "Comment": "comment", "NumNodes": "nodes", "NodeList": "node"}
    columns |= {"NumTasks": "tasks", "tres-per-node": "gres_of_a_node"}
    command = ["squeue", "-h", "--states=all", "-O", ",".join(f"{name}:|" for name in columns)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return pd.DataFrame([line.split("|")[: len(columns)] for line in lines], columns=list(columns.values()))


def checkpoints(folder: Path, method: str) -> list[Path]:
    return list(folder.glob(f"scratch/small/toy/{method}/main/seed0/*/checkpoints/latest_checkpointed_iteration.txt"))


def wait_for(condition, seconds: float, what: str, run: subprocess.Popen | None = None):
    """``run``: what it depends on; its end ends the waiting."""
    deadline = time.time() + seconds
    while not (value := condition()):
        assert run is None or run.poll() is None, run.stderr.read()[-3000:]
        assert time.time() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.2)
    return value


def left_running() -> list[str]:
    """Processes of training that nothing on this machine may leave behind."""
    found = []
    for process in psutil.process_iter(["cmdline", "name"]):
        text = " ".join(process.info["cmdline"] or []) or process.info["name"]
        if re.search(r"tamtrl\.(cli|training|distillation)|tamtrl train|raylet|gcs_server|VLLM::", text):
            found.append(f"{process.pid} {text[:100]}")
    return found


def lose_processes(job: str, node: str) -> None:
    """SLURM asks the processes of a lost node to end and no more, and Snakemake's own may hang there. A node that is really lost
    takes them with it."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().items() >= {"SLURM_JOB_ID": job, "SLURMD_NODENAME": node}.items():
                process.kill()


def ended(job: str) -> str | None:
    jobs = queue().set_index("job")["state"]
    return jobs[job] if jobs[job] not in ("PENDING", "RUNNING", "COMPLETING") else None
