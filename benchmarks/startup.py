"""Seconds by phase of the shortest toy training (one step of 4 x 4 rollouts) and of a toy evaluation (8 documents), each started
through the tamtrl command. CPU seconds say what a busy machine would take longer for.

    python benchmarks/startup.py
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import psutil
from common import REPOSITORY, config_model, toy_evaluation, toy_run

from tamtrl.tasks import toy
from tamtrl.tasks.example import write_examples

# What is first in the log when a phase is over; the last phase ends with the command.
TRAINING = {
    "checks": "",
    "imports": "ray init kwargs",
    "Ray": "Started a local Ray instance",
    "trainer": "dataloader initialized",
    "actor and reference": "model engine initialized",
    "engine": "ready to fit",
    "first validation": "step:0 ",
    "step, checkpoint, validation": "Final validation metrics",
    "end": None,
}
EVALUATION = {"imports, engine": " 1/8 documents", "documents": " 8/8 documents", "end": None}


def timed(command: list[str], log: str, folder: Path, phases: dict[str, str | None]) -> pd.Series:
    """``log``: a pattern of the file whose words end phases."""
    ends, cpu, begun = {}, {}, time.time()
    with (folder / "output").open("w") as output:
        process = psutil.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        while process.poll() is None:
            text = "".join(path.read_text(encoding="utf-8", errors="replace") for path in folder.glob(log))
            for name, words in phases.items():
                if name not in ends and words is not None and words in text and any(folder.glob(log)):
                    ends[name] = time.time() - begun
            for one in [process, *process.children(recursive=True)]:
                try:
                    cpu[one.pid] = sum(one.cpu_times()[:2])
                except psutil.Error:
                    continue
            time.sleep(0.1)
    if process.returncode:
        sys.exit((folder / "output").read_text(encoding="utf-8"))
    whole = time.time() - begun
    seconds = pd.Series([ends.get(name, whole) for name in phases], phases).diff()
    seconds.iloc[0] = next(iter(ends.values()))
    return pd.concat([seconds, pd.Series({"whole": whole, "CPU": sum(cpu.values())})])


def training(folder: Path) -> pd.Series:
    run = toy_run(folder, "teacher", steps=1, save_every=1, validate_every=1, rollout_batch=4, group=4)
    places = ["--output", folder / "output_of_run", "--scratch", folder / "scratch"]
    command = [sys.executable, "-m", "tamtrl.cli", "train", run, "--device", "cpu", *places]
    return timed([str(word) for word in command], "scratch/*/train.log", folder, TRAINING)


def evaluation(folder: Path) -> pd.Series:
    toy_evaluation().save(folder / "evaluation.yaml")
    write_examples(folder / "documents.parquet", toy.generate("heldout", 8, 6, seed=0))
    command = [sys.executable, "-m", "tamtrl.cli", "predict", folder / "evaluation.yaml", "--device", "cpu"]
    command += ["--model", REPOSITORY / config_model(), "--output", folder / "predictions", "--scratch", folder / "kept"]
    command += ["--data", folder / "documents.parquet"]
    return timed([str(word) for word in command], "output", folder, EVALUATION)


def main() -> None:
    for measure in (training, evaluation):
        with tempfile.TemporaryDirectory() as folder:
            print(measure.__name__, measure(Path(folder)).round(1).to_string(), "", sep="\n")


if __name__ == "__main__":
    main()
