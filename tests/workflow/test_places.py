"""Wherever Snakemake is started, whatever lies there: this checkout's code and files, and results where they were asked for."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml
from conftest import REPOSITORY
from test_workflow import planned, refused, snakemake, with_path

MODEL = "Org/toy+1"
DATA = "results/toy/data/toy_two_hops.parquet"
SCORES = f"runs/{MODEL}/base/main/seed0/scores/toy_two_hops.csv"


@pytest.fixture
def elsewhere(tmp_path) -> Path:
    """A folder with another tamtrl in it, and another one first on the PATH; neither may run."""
    folder = tmp_path / "some where"
    (folder / "tamtrl").mkdir(parents=True)
    (folder / "tamtrl" / "__init__.py").write_text("raise ImportError('the code of another checkout')\n")
    (folder / "bin").mkdir()
    (folder / "bin" / "tamtrl").write_text("#!/bin/sh\necho the command of another environment >&2\nexit 99\n")
    (folder / "bin" / "tamtrl").chmod(0o755)
    return folder


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
    path = f"{folder / 'bin'}:{with_path()['PATH']}"
    command = [sys.executable, "-m", "snakemake", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ | {"PATH": path} | variables)


def content(folder: Path) -> dict[str, bytes]:
    """Without what Python keeps beside code wherever it may."""
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path): hashlib.sha256(path.read_bytes()).digest() for path in files}


def test_a_module_of_another_workflow(checkout, elsewhere):
    """Its own runs with our rules and credit methods, its results behind a link to another disk; nothing is written into the
    checkout, which may be read-only, and every word of a path may be strange."""
    disk = elsewhere.parent / "another disk's"
    disk.mkdir()
    (elsewhere / "res ult's").symlink_to(disk)
    row = f"{MODEL}\t{{}}\tmain\t{{}}\t{{}}\tcredit.combine=sum\ttable1\n"
    header = "model\tmethod\tvariant\ttraining\tcredit\toverrides\titems\n"
    (elsewhere / "runs.tsv").write_text(header + row.format("base", "none", "") + row.format("mine", "rl", "teacher"))
    (elsewhere / "my models.yaml").write_text(yaml.safe_dump({MODEL: {"path": "models/toy"}, "toy": {"path": "models/toy"}}))
    config = {
        "extends": "tests/slurm/small.yaml",
        "runs": "runs.tsv",
        "models": "my models.yaml",
        "select": {"model": [MODEL], "method": ["base", "mine"]},
        "pathvars": {"results": "res ult's", "logs": "lo gs", "scratch": "scr atch"},
    }
    (elsewhere / "Snakefile").write_text(
        f"module tamtrl:\n    snakefile: {str(checkout / 'Snakefile')!r}\n    config: {config}\n\n\n"
        "use rule * from tamtrl as tamtrl_*\n"
    )
    before = content(checkout)
    table = planned(run(elsewhere, "-n", "res ult's/tables/table1.csv").stdout)
    assert table["tamtrl_train_rl"] == 1 and table["tamtrl_predict"] == 2
    done = run(elsewhere, "--cores", "2", f"res ult's/{SCORES}")
    assert done.returncode == 0, done.stderr[-5000:]
    assert len(pd.read_csv(disk / SCORES)) and content(checkout) == before
    sums = (disk / "models" / "given" / f"{MODEL}.sha256").read_text().splitlines()
    assert f"{hashlib.sha256((REPOSITORY / 'models/toy/config.json').read_bytes()).hexdigest()}  ./config.json" in sums


def test_started_from_elsewhere(checkout, elsewhere):
    """By -s, with a profile and configurations of the checkout; and from the checkout with --directory."""
    before = content(checkout)
    places = ["-s", str(checkout / "Snakefile"), "--profile", str(checkout / "toy")]
    done = run(elsewhere, *places, "--configfile", str(checkout / "config" / "toy-full.yaml"), "--", DATA)
    assert done.returncode == 0 and f"Done. Results are in {elsewhere}/results/toy." in done.stderr, done.stderr[-3000:]
    assert "Nothing to be done" in run(elsewhere, *places, "--", DATA).stderr
    done = run(elsewhere, "-s", str(checkout / "Snakefile"), "--cores", "1", "paper_tables")
    assert done.returncode == 0 and f"The published numbers are in {elsewhere}/results/published" in done.stderr, done.stderr
    assert "43.21" in (elsewhere / "results" / "published" / "table1.md").read_text()
    slurm = run(elsewhere, "-s", str(checkout / "Snakefile"), "--profile", str(checkout / "slurm"), "-n")
    assert slurm.returncode == 0 and planned(slurm.stdout)["train_rl"] == 22, slurm.stderr
    assert content(checkout) == before
    done = snakemake(checkout, "--directory", str(elsewhere), "--profile", "toy", "-n", "--", DATA, check=True)
    assert "Nothing to be done" in done.stdout + done.stderr


def test_text_is_utf_8_under_every_locale(checkout, elsewhere):
    """A document of ours with letters beyond ASCII, in a locale that has none. (Python takes C and POSIX for UTF-8 unless it is
    told not to.)"""
    ascii_only = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    target = "results/toy/tables/choices.md"
    arguments = ["-s", str(checkout / "Snakefile"), "--cores", "1", "--configfile", str(checkout / "config" / "toy.yaml"), "--"]
    done = run(elsewhere, *arguments, target, **ascii_only)
    assert done.returncode == 0, done.stderr[-3000:]
    made = (elsewhere / target).read_text(encoding="utf-8")
    words = {word for word in (checkout / "docs" / "choices.md").read_text(encoding="utf-8").split() if not word.isascii()}
    assert any(word in made for word in words)


def test_two_checkouts_in_one_workflow(checkout, elsewhere):
    """Each would describe code of the other."""
    other = elsewhere / "other"
    shutil.copytree(checkout, other, symlinks=True, ignore=shutil.ignore_patterns("results", "scratch", ".snakemake"))
    modules = "".join(
        f"module {name}:\n    snakefile: {str(folder / 'Snakefile')!r}\n    config: {{'extends': 'config/toy.yaml'}}\n\n\n"
        f"use rule * from {name} as {name}_*\n\n\n"
        for name, folder in (("one", checkout), ("two", other))
    )
    (elsewhere / "Snakefile").write_text(modules)
    refused(run(elsewhere, "-n", "--cores", "1"), "one workflow can use one checkout only")


# What Snakemake's linter says, and why it stays.
LINTS = {
    "Specify a conda environment or container for each rule.:": "all rules share one locked environment (envs)",
}


def test_lint(checkout):
    done = snakemake(checkout, "--lint")
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
    told = {line.removeprefix("* ") for line in lines if line.startswith("* ")}
    assert told == set(LINTS), told
