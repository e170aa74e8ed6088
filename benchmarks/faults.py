"""A training run, disturbed again and again by one fault or another and started again, beside the same run undisturbed: where
each attempt went on, and whether metrics and weights are the same in the end.

As root, because the checkpoints lie on a small memory disk that one of the faults fills:

    python benchmarks/faults.py
"""

import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import psutil
from common import toy_run

from tamtrl.jobs.job import TRACKER

ROUNDS = 1
DISK_MIB = 400
STEP_SECONDS = 4.0  # about a step of this run: faults strike anywhere within one
TRAINING = ("tamtrl.training", "raylet", "gcs_server", "ray::", "VLLM::")


def command(folder: Path) -> list[str]:
    arguments = ["train", folder / "run.yaml", "--output", folder / "out", "--scratch", folder / "scratch", "--device", "cpu"]
    return [sys.executable, "-m", "tamtrl.cli", *map(str, arguments)]


def checkpoint(folder: Path) -> int:
    trackers = list((folder / "scratch").glob(f"*/checkpoints/{TRACKER}"))
    return int(trackers[0].read_text(encoding="utf-8") or 0) if trackers else 0


def processes(*texts: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline", "name"]):
        told = " ".join([*(process.info["cmdline"] or []), process.info["name"] or ""])
        if any(text in told for text in texts):
            found.append(process)
    return found


def left_running() -> int:
    """Processes of training, once the dead ones have been given time to go."""
    for _ in range(50):
        found = [process for process in processes(*TRAINING) if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
        if not found:
            break
        time.sleep(0.1)
    return len(found)


def resize(folder: Path, mebibytes: float) -> None:
    subprocess.run(["mount", "-o", f"remount,size={int(1024 * mebibytes)}k", str(folder / "scratch")], check=True)


def kill_trainer(folder: Path, run: subprocess.Popen) -> None:
    processes("tamtrl.training.launch")[0].kill()


def kill_ray_worker(folder: Path, run: subprocess.Popen) -> None:
    processes("ray::WorkerDict")[0].kill()


def kill_rollout_engine(folder: Path, run: subprocess.Popen) -> None:
    processes("VLLM::EngineCore")[0].kill()


def kill_engine_at_handover(folder: Path, run: subprocess.Popen) -> None:
    """Ray shows in a worker's name what it does."""
    while run.poll() is None and not processes("ray::WorkerDict.actor_rollout_ref_update_weights"):
        time.sleep(0.01)
    kill_rollout_engine(folder, run)


def fill_disk(folder: Path, run: subprocess.Popen) -> None:
    used = sum(path.stat().st_size for path in (folder / "scratch").rglob("*") if path.is_file()) / 2**20
    resize(folder, used + 1)  # a checkpoint is several times that


def end_of_time(folder: Path, run: subprocess.Popen) -> None:
    """As SLURM does at the limit: SIGTERM to every process of the job, SIGKILL to what is left after a while."""
    victims = [run.pid, *(child.pid for child in psutil.Process(run.pid).children(recursive=True))]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for victim in victims:
            if psutil.pid_exists(victim):
                os.kill(victim, number)
        time.sleep(2)


def kill_everything(folder: Path, run: subprocess.Popen) -> None:
    """As a node that loses power, but for what the disk had not taken yet."""
    for process in [psutil.Process(run.pid), *processes(*TRAINING)]:
        process.kill()


FAULTS = {
    "trainer killed": kill_trainer,
    "Ray worker killed": kill_ray_worker,
    "rollout engine killed": kill_rollout_engine,
    "rollout engine killed while weights are handed over": kill_engine_at_handover,
    "disk full": fill_disk,
    "SIGTERM, then SIGKILL, to all processes": end_of_time,
    "all processes killed at once": kill_everything,
}


def attempt(folder: Path, step: int, fault: str, delay: float) -> dict:
    """Start the run, wait for the checkpoint of ``step``, inject within the next; what the run said at its end, and when."""
    run = subprocess.Popen(command(folder), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    while checkpoint(folder) < step:
        if run.poll() is not None:
            sys.exit(f"The run ended before step {step}: {run.stderr.read()[-500:]}")
        time.sleep(0.1)
    time.sleep(delay)
    FAULTS[fault](folder, run)
    injected = time.time()
    _, told = run.communicate(timeout=600)
    resize(folder, DISK_MIB)
    return {
        "fault": fault,
        "after_step": step,
        "delay": round(delay, 1),
        "exit_code": run.returncode,
        "ended_after": round(time.time() - injected, 1),
        "checkpoint": checkpoint(folder),
        "left_running": left_running(),
        "told": (told.strip().splitlines() or [""])[-1].replace(str(folder), "RUN")[:200],
    }


def weights(folder: Path) -> str:
    return hashlib.sha256((folder / "out" / "model" / "model.safetensors").read_bytes()).hexdigest()


def main() -> None:
    plan = list(FAULTS) * ROUNDS
    options = dict(rollout_batch=4, group=4, steps=2 * len(plan) + 2, save_every=1, validate_every=1000)
    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as temporary:
        plain, folder = (Path(temporary) / name for name in ("undisturbed", "disturbed"))
        for each in (plain, folder):
            (each / "scratch").mkdir(parents=True)
            toy_run(each, "teacher", **options)
        subprocess.run(command(plain), check=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(folder / "scratch")], check=True)
        try:
            for number, fault in enumerate(plan):
                told = attempt(folder, checkpoint(folder) + 1, fault, draw.uniform(0, STEP_SECONDS))
                print(f"{number + 1}/{len(plan)}", told, flush=True)
            done = subprocess.run(command(folder), capture_output=True, text=True)
            print("the last attempt:", done.stderr.strip().splitlines()[-1].replace(str(folder), "RUN"), flush=True)
            tables = [pd.read_csv(each / "out" / "metrics.csv").set_index("step") for each in (plain, folder)]
            same_weights = weights(plain) == weights(folder)
            attempts = len(list(folder.glob("scratch/*/attempts/*")))
        finally:
            subprocess.run(["umount", "-l", str(folder / "scratch")], check=True)
    steps = [list(table.index) for table in tables]
    columns = ["outcome", "reward", "response_length", "kl", "grad_norm"]
    difference = (tables[0][columns] - tables[1][columns]).abs().max()
    print(
        f"{attempts} attempts; steps {'the same, each once' if steps[0] == steps[1] else steps}; final weights "
        f"{'the same' if same_weights else 'differ'}; largest differences:\n{difference.to_string()}"
    )


if __name__ == "__main__":
    if os.getuid():
        sys.exit("benchmarks/faults.py mounts a memory disk and so needs root.")
    main()
