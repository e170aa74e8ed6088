"""One toy run, disturbed after each of its checkpoints by another fault and started again, against the same run undisturbed.

As root (the scratch folder is a small memory disk, which one of the faults fills):

    python benchmarks/faults.py
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import psutil
from common import toy_run

from tamtrl.training.job import TRACKER

FAULTS = ("trainer killed", "Ray worker killed", "rollout engine killed", "disk full", "killed at the time limit, mid-step")


def command(folder: Path) -> list[str]:
    arguments = ["train", folder / "run.yaml", "--output", folder / "out", "--scratch", folder / "scratch", "--device", "cpu"]
    return [sys.executable, "-m", "tamtrl.cli", *map(str, arguments)]


def checkpoint(folder: Path) -> int:
    trackers = list((folder / "scratch").glob(f"*/checkpoints/{TRACKER}"))
    return int(trackers[0].read_text() or 0) if trackers else 0


def processes(text: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline", "name"]):
        if text in " ".join(process.info["cmdline"] or []) or text in (process.info["name"] or ""):
            found.append(process)
    return found


def resize(folder: Path, mebibytes: float) -> None:
    subprocess.run(["mount", "-o", f"remount,size={int(1024 * mebibytes)}k", str(folder / "scratch")], check=True)


def inject(fault: str, folder: Path, run: subprocess.Popen) -> None:
    match fault:
        case "trainer killed":
            processes("tamtrl.training.launch")[0].kill()
        case "Ray worker killed":
            processes("ray::WorkerDict")[0].kill()
        case "rollout engine killed":
            processes("VLLM::EngineCore")[0].kill()
        case "disk full":
            used = sum(path.stat().st_size for path in (folder / "scratch").rglob("*") if path.is_file()) / 2**20
            resize(folder, used + 1)  # a checkpoint is several times that
        case _:
            time.sleep(5)  # into the next step
            victims = [run, *psutil.Process(run.pid).children(recursive=True)]
            for victim in victims:
                victim.send_signal(signal.SIGTERM)
            time.sleep(2)  # SLURM's KillWait
            for victim in victims:
                if victim.poll() is None if victim is run else victim.is_running():
                    victim.send_signal(signal.SIGKILL)


def attempt(folder: Path, step: int, fault: str) -> str:
    """Start the run, wait for the checkpoint of ``step``, inject; what the run said at its end."""
    run = subprocess.Popen(command(folder), stderr=subprocess.PIPE, text=True)
    while checkpoint(folder) < step:
        if run.poll() is not None:
            sys.exit(f"the run ended before step {step}: {run.stderr.read()[-500:]}")
        time.sleep(0.1)
    inject(fault, folder, run)
    _, told = run.communicate(timeout=600)
    resize(folder, 400)
    return told.strip().splitlines()[-1][:160]


def main() -> None:
    steps = len(FAULTS) + 1
    options = dict(rollout_batch=4, group=4, steps=steps, save_every=1, validate_every=1000)
    with tempfile.TemporaryDirectory() as temporary:
        folders = {name: Path(temporary) / name for name in ("undisturbed", "disturbed")}
        for folder in folders.values():
            (folder / "scratch").mkdir(parents=True)
            toy_run(folder, "teacher", **options)
        subprocess.run(command(folders["undisturbed"]), check=True)
        folder = folders["disturbed"]
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", str(folder / "scratch")], check=True)
        try:
            for step, fault in enumerate(FAULTS, start=1):
                told = attempt(folder, step, fault)
                print(f"{fault}: {told}; checkpoint {checkpoint(folder)}", flush=True)
            done = subprocess.run(command(folder), capture_output=True, text=True)
            print("the last attempt:", done.stderr.strip().splitlines()[-1], flush=True)
        finally:
            subprocess.run(["umount", "-l", str(folder / "scratch")], check=True)
        tables = [pd.read_csv(folder / "out" / "metrics.csv").set_index("step") for folder in folders.values()]
    columns = ["outcome", "reward", "response_length", "kl", "grad_norm"]
    difference = (tables[0][columns] - tables[1][columns]).abs().max()
    print(f"steps: {list(tables[0].index)} and {list(tables[1].index)}; largest differences:\n{difference.to_string()}")


if __name__ == "__main__":
    if os.getuid():
        sys.exit("benchmarks/faults.py mounts a memory disk and so needs root.")
    main()
