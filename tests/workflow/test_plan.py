"""`tamtrl plan` where it must not disturb: a folder with a live workflow, and one that can't be written."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from test_workflow import SNAKEMAKE, refused, snakemake, with_path

PLAN = [sys.executable, "-m", "tamtrl.cli", "plan", "--"]
DATA = "results/toy/data/toy_two_hops.parquet"


def plan(folder: Path, *arguments: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    return subprocess.run([*before, *PLAN, *arguments], cwd=folder, capture_output=True, text=True, env=with_path())


def jobs(done: subprocess.CompletedProcess) -> dict[str, list[str]]:
    """What stands beside each rule."""
    assert done.returncode == 0, done.stderr
    return {words[0]: words[1:] for words in map(str.split, done.stdout.splitlines()) if len(words) == 5}


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if "__pycache__" not in path.parts)


@pytest.fixture
def live(checkout):
    """A workflow that is making DATA, and goes on with that."""
    command = checkout / "workflow" / "bin" / "tamtrl"
    text = command.read_text(encoding="utf-8")
    command.write_text('#!/usr/bin/env bash\ntouch results/begun "${@: -1}"\nsleep 600\n', encoding="utf-8")
    process = subprocess.Popen(
        [*SNAKEMAKE, DATA, "--profile", "toy"], cwd=checkout, env=with_path(), start_new_session=True, stderr=subprocess.DEVNULL
    )
    try:
        while not (checkout / "results" / "begun").exists():
            assert process.poll() is None
            time.sleep(0.1)
        yield checkout
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        command.write_text(text, encoding="utf-8")
        shutil.rmtree(checkout / "results" / "toy")
        shutil.rmtree(checkout / ".snakemake")


def test_of_a_folder_where_a_workflow_runs(live):
    refused(snakemake(live, "data", "--profile", "toy"), "Directory cannot be locked")  # so it does run
    before = files(live)
    told = jobs(plan(live, "data"))
    assert told["prepare_multihop"][0] == "12" and "prepare_toy" not in told  # the paper's configuration
    told = jobs(plan(live, DATA, "--profile", "toy"))
    assert told["prepare_toy"][0] == told["total"][0] == "1"  # half made by the other
    assert files(live) == before


def test_of_a_folder_that_cannot_be_written(checkout):
    """As an unprivileged user finds another's checkout; root, whom permissions don't stop, has it mounted so."""
    before = files(checkout)
    assert ".snakemake" not in before
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd "$0" && ! touch Snakefile 2> /dev/null && exec "$@"'
    if os.geteuid() == 0:
        told = jobs(plan(checkout, "--profile", "slurm", before=("unshare", "-m", "sh", "-c", mount, str(checkout))))
    else:
        folders = [checkout, *(path for path in checkout.rglob("*") if path.is_dir())]
        try:
            for folder in folders:
                folder.chmod(0o555)
            told = jobs(plan(checkout, "--profile", "slurm"))
        finally:
            for folder in folders:
                folder.chmod(0o755)
    assert told["train_rl"][0] == "22" and told["total"][2] == told["train_rl"][2] != "–"
    assert files(checkout) == before


def test_projects_what_the_table_shows(checkout):
    snakemake(checkout, "project", "--cores", "1", check=True)
    hours = pd.read_csv(checkout / "results" / "full" / "tables" / "tableA2.projected.csv")["gpu_hours"].sum()
    told = jobs(plan(checkout, "train", "--profile", "slurm"))
    assert hours > 1000 and told["train_rl"][2] == f"{hours:,.0f}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "select={method: [no]}"], "can't be planned: Unknown method 'no'; there are base,"),
        (["nowhere.md"], "can't be planned: No rule to produce nowhere.md"),
        (["--bogus"], "error: unrecognized arguments: --bogus"),
        (["data", "--quiet"], "Snakemake listed no jobs; leave out options that make it print less"),
        (
            ["--configfile", "config/sample.yaml", "--config", "hotpotqa_train=nowhere.json"],
            "Missing input files for rule prepare_multihop: output: results/sample/data/sample_training.parquet "
            "wildcards: dataset=sample_training affected files: nowhere.json",
        ),
    ],
)
def test_refuses_in_one_line(checkout, arguments, message):
    done = plan(checkout, *arguments)
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
