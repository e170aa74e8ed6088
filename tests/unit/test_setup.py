"""What make and envs/install.sh do and refuse, with pretended commands: nothing is installed, here least of all by accident."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY

from tamtrl.jobs import machine

# A Python that says what the real one says, but makes no environment and installs nothing: it writes down what pip is told.
PYTHON = f"""case "$1 $2" in
"-m venv") mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
"-m pip")
    cat > /dev/null
    echo "$* | $FLASH_ATTN_CUDA_ARCHS $MAX_JOBS $NVCC_THREADS $FLASH_ATTENTION_FORCE_BUILD $CUDA_HOME" >> "$LOG"
    ;;
"- "*) exit 0 ;;
*) exec {sys.executable} "$@" ;;
esac"""
GOOD = {
    "python": PYTHON,
    "uname": "echo x86_64",
    "getconf": "echo glibc 2.31",
    "nvidia-smi": 'case "$1" in *driver*) echo 580.65.06 ;; *) echo 8.0 ;; esac',
    "nvcc": 'case "$1" in --version) echo "tools, release 13.0, V13.0.88" ;; *) echo "#$ TOP=$TOOLKIT" >&2 ;; esac',
    "g++": "echo 9",
    "df": "echo header; echo - - - 20971520",  # 20 GiB
}
MISSING = "exit 127"


class Machine:
    def __init__(self, folder: Path) -> None:
        self.folder, self.bin, self.log = folder, folder / "bin", folder / "log"
        (folder / "cuda" / "include").mkdir(parents=True)
        (folder / "cuda" / "include" / "cuda_runtime.h").touch()
        (folder / "cuda" / "bin").mkdir()
        (folder / "cuda" / "bin" / "nvcc").symlink_to(folder / "bin" / "nvcc")
        self.bin.mkdir()
        for name, text in GOOD.items():
            self.command(name, text)

    def command(self, name: str, text: str) -> None:
        (self.bin / name).write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        (self.bin / name).chmod(0o755)

    def install(self, kind: str = "gpu", **variables: str) -> subprocess.CompletedProcess:
        env = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.folder), "LOG": str(self.log), "PYTHONPATH": str(REPOSITORY)}
        env |= {"TOOLKIT": str(self.folder / "cuda")} | variables
        command = ["bash", str(REPOSITORY / "envs" / "install.sh"), kind, str(self.bin / "python"), "env"]
        return subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def pip(self) -> list[str]:
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines


@pytest.fixture
def computer(tmp_path):
    return Machine(tmp_path)


def refused(done: subprocess.CompletedProcess, message: str) -> None:
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("uname", "echo aarch64", "is for x86-64 and this machine is aarch64"),
        ("getconf", "echo glibc 2.28", "need glibc 2.31 or later and this machine has 2.28; use the Apptainer image"),
        ("getconf", "exit 1", "this machine has none"),
        ("nvidia-smi", "echo 550.54.15", "needs NVIDIA driver 580 or later and this machine has 550.54.15"),
        ("nvidia-smi", 'case "$1" in *driver*) echo 590.1 ;; *) echo 9.0 ;; esac', "the GPU here has compute capability 9.0"),
        ("df", "echo header; echo - - - 9437184", "the gpu environment needs 16 GiB of disk and 9 are free"),
        (
            "df",
            'echo header; case "$2" in /tmp) echo - - - 1048576 ;; *) echo - - - 99999999 ;; esac',
            "set TMPDIR to a folder with",
        ),
        ("g++", MISSING, "takes g++ 9 or later and g++ is missing"),
        ("g++", "echo 8", "takes g++ 9 or later and g++ is 8"),
        ("nvcc", MISSING, "nvcc of CUDA 13 and"),
        ("nvcc", "echo Cuda compilation tools, release 12.8, V12.8.61", "nvcc is 12.8; load such a module, use conda"),
        ("nvcc", 'echo "release 13.0, V"', "takes the headers of CUDA and"),
        ("python", 'case "$*" in *sysconfig*) echo /nowhere ;; *) exec ' + sys.executable + ' "$@" ;; esac', "has no headers"),
        ("python", "exit 1", "is not a released Python 3.11 or 3.12"),
    ],
)
def test_one_sentence_before_anything_is_made(computer, name, text, message):
    computer.command(name, text)
    refused(computer.install(), message)
    assert not (computer.folder / "env").exists() and not computer.pip()


def test_other_refusals(computer):
    refused(computer.install("tpu"), "there is no environment 'tpu'; it must be cpu or gpu")
    refused(computer.install(FLASH_ATTN_CUDA_ARCHS="8.0"), "FLASH_ATTN_CUDA_ARCHS=8.0; it must be 80, 90, 100 or 120")
    refused(computer.install(FLASH_ATTN_WHEEL="nowhere.whl"), "there is no file FLASH_ATTN_WHEEL=nowhere.whl")
    refused(computer.install(CUDA_HOME="/nowhere"), "takes nvcc of CUDA 13 and /nowhere/bin/nvcc is missing")
    assert not (computer.folder / "env").exists() and not computer.pip()


def test_flash_attn_is_compiled_for_one_architecture_and_once(computer):
    done = computer.install()
    assert done.returncode == 0, done.stderr
    assert "No GPU is seen here" not in done.stdout
    *_, project, flash = computer.pip()
    assert "--no-build-isolation -e" in project
    called, variables = flash.split(" | ")
    archs, at_once, *others = variables.split()
    assert called.endswith("install -q --no-deps --force-reinstall --no-cache-dir --no-build-isolation flash-attn==2.8.3")
    assert archs == "80" and 1 <= int(at_once) <= machine.cores() and others == ["1", "TRUE", f"{computer.folder}/cuda"]
    env = computer.folder / "env"
    made = {name: (env / name).read_text(encoding="utf-8") for name in ("kind", "flash-attn", "ready")}
    assert made == {"kind": "gpu\n", "flash-attn": "torch==2.11.0\n", "ready": ""}

    def again(**variables: str) -> list[str]:
        assert computer.install(**variables).returncode == 0
        return [line for line in computer.pip() if "--force-reinstall" in line]

    computer.command("nvcc", MISSING)  # not needed any more
    assert again() == []
    (computer.folder / "built.whl").touch()
    assert "built.whl | " in again(FLASH_ATTN_WHEEL="built.whl")[0]
    computer.command("nvcc", GOOD["nvcc"])
    assert "| 80;90 3 2 TRUE" in again(FLASH_ATTN_CUDA_ARCHS="80;90", MAX_JOBS="3", NVCC_THREADS="2")[0]
    (env / "flash-attn").write_text("torch==2.10.0\n")  # built for another
    assert "flash-attn==2.8.3 | 80 " in again()[0]


def test_a_login_node_without_gpus(computer):
    computer.command("nvidia-smi", "echo NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.; exit 9")
    done = computer.install()
    assert (
        done.returncode == 0 and "No GPU is seen here; the nodes that use this environment need NVIDIA driver 580" in done.stdout
    )


def jobs(gib: float) -> int:
    command = [sys.executable, REPOSITORY / "envs" / "jobs.py", str(gib)]
    return int(subprocess.run(command, capture_output=True, check=True, env=os.environ | {"PYTHONPATH": str(REPOSITORY)}).stdout)


def test_jobs_fit_memory_and_cores():
    assert jobs(0.001) == machine.cores() and jobs(10_000) == 1


@pytest.mark.parametrize("known_by", ["kind", "torch"])
@pytest.mark.parametrize(("there", "asked"), [("cpu", "gpu"), ("gpu", "cpu")])
def test_a_folder_keeps_its_kind(computer, known_by, there, asked):
    packages = computer.folder / "env" / "lib" / "python3.11" / "site-packages" / "torch"
    packages.mkdir(parents=True)
    if known_by == "kind":
        (computer.folder / "env" / "kind").write_text(f"{there}\n")
    else:  # by an install.sh that wrote none
        (packages / "version.py").write_text(f"cuda: Optional[str] = {'None' if there == 'cpu' else repr('13.0')}\n")
    refused(computer.install(asked), f"env holds the {there} environment; give the {asked} one a folder of its own")
    assert not computer.pip()
    assert computer.install(there).returncode == 0
    assert (computer.folder / "env" / "kind").read_text() == f"{there}\n"


# -- make --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def make(tmp_path):
    """`make -n` in a copy; files it compares are older than `.venv/ready`, unless touched afterwards."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, tmp_path)
    shutil.copytree(REPOSITORY / "envs", tmp_path / "envs")

    def run(*arguments: str, kind: str | None = None, newer: str | None = None) -> subprocess.CompletedProcess:
        shutil.rmtree(tmp_path / ".venv", ignore_errors=True)
        for path in [tmp_path / "pyproject.toml", *(tmp_path / "envs").iterdir()]:
            os.utime(path, (1_000, 1_000))
        if kind:
            (tmp_path / ".venv").mkdir()
            (tmp_path / ".venv" / "kind").write_text(f"{kind}\n")
            (tmp_path / ".venv" / "ready").touch()
            os.utime(tmp_path / ".venv" / "ready", (2_000, 2_000))
        if newer:
            os.utime(tmp_path / newer, (3_000, 3_000))
        env = {name: value for name, value in os.environ.items() if name not in ("VENV", "MAKEFLAGS", "PYTHON")}
        return subprocess.run(["make", "-n", *arguments], cwd=tmp_path, env=env, capture_output=True, text=True)

    return run


@pytest.mark.parametrize("target", ["lint", "plan", "report", "format"])
def test_targets_for_both_kinds_bring_up_to_date_only_their_own(make, target):
    for kind, other in (("gpu", "cpu"), ("cpu", "gpu")):
        assert "install.sh" not in make(target, kind=kind, newer=f"envs/{other}.lock").stdout
        told = make(target, kind=kind, newer=f"envs/{kind}.lock").stdout
        assert f'install.sh {kind} "python3.11" ".venv"' in told and f"install.sh {other}" not in told


@pytest.mark.parametrize("target", ["toy", "test", "setup"])
def test_what_takes_the_cpu_environment(make, target):
    assert 'install.sh cpu "python3.11" ".venv"' in make(target).stdout
    assert 'install.sh cpu "python3.11" ".venv-cpu"' in make(target, "VENV=.venv-cpu", kind="gpu").stdout
    for newer in (None, "envs/cpu.lock", "envs/gpu.lock"):
        done = make(target, kind="gpu", newer=newer)
        assert "install.sh" not in done.stdout
        refused(
            done, f".venv is a GPU environment, and `make {target}` takes the CPU one, which goes beside it: say VENV=.venv-cpu"
        )


def test_what_makes_the_gpu_environment(make):
    assert 'install.sh gpu "python3.11" ".venv"' in make("gpu").stdout
    assert 'install.sh gpu "python3.11" ".venv"' in make("gpu", kind="gpu").stdout
    assert 'install.sh gpu "python3.11" ".venv-gpu"' in make("gpu", "VENV=.venv-gpu", kind="cpu").stdout
    refused(make("gpu", kind="cpu"), ".venv is a CPU environment; the GPU one goes beside it: `make gpu VENV=.venv-gpu`")


def test_lint_has_its_tools_in_either():
    for kind in ("cpu", "gpu"):
        packages = {line.split("==")[0].lower() for line in (REPOSITORY / "envs" / f"{kind}.lock").read_text().splitlines()}
        assert {
            "ruff",
            "mypy",
            "pandas-stubs",
            "types-jsonschema",
            "types-psutil",
            "types-pyyaml",
            "snakefmt",
            "black",
            "snakemake",
        } <= packages
