"""What the workflow would run: dry-runs of the configurations, and what jobs ask for."""

import json
import os
import re
import shlex
import subprocess
import sys
import time

import pandas as pd
import pytest
import yte
from test_workflow import planned, snakemake, with_path

from tamtrl import cli


@pytest.mark.parametrize("arguments", [["--profile", "toy"], ["--profile", "local-gpu"], ["--profile", "slurm"], []])
def test_dry_runs(checkout, arguments):
    done = snakemake(checkout, "-n", *arguments)
    assert done.returncode == 0 and "train_rl" in done.stdout, done.stderr


def test_gpus_that_are_asked_for(checkout):
    """Other sites and machines: tests/unit/test_job_resources.py."""

    def asked(*arguments) -> str:
        done = snakemake(
            checkout, "-n", "results/full/runs/0.6B/memagent/main/seed0/metrics.csv", "--profile", "slurm", *arguments
        )
        assert done.returncode == 0, done.stderr
        return re.search(r"rule train_rl:.*?resources: (.*?)\n", done.stdout, re.DOTALL)[1]

    assert "runtime=2880, nodes=1, gpu=8, gpu_model=a100, place=" in asked() and "mem_mb=262144" in asked()
    two = asked("--config", "resources={train: {nodes: 2, devices: 4}}")
    # of a node: a total over nodes fits no partition and no job step
    assert "nodes=2, gres=gpu:a100:4, slurm_extra=--ntasks-per-node=1" in two and "--devices 4 --nodes 2" in two
    assert "gpu=" not in two.replace("gres=gpu", "") and "gpu_model" not in two


def test_what_differs_between_sites(checkout, monkeypatch):
    """Environment variables of the slurm profile: some end in what jobs ask for, the others in options of Snakemake's own."""
    for name, value in {"QOS": "long", "CONSTRAINT": "ib", "GPU_CONSTRAINT": "a100_80", "ACCOUNT": "lab"}.items():
        monkeypatch.setenv(f"TAMTRL_SLURM_{name}", value)
    target = "results/full/runs/0.6B/memagent/main/seed0/metrics.csv"
    done = snakemake(checkout, "-n", target, "--profile", "slurm", check=True).stdout
    for rule, constraint in {"train_rl": "a100_80", "prepare_multihop": "ib"}.items():
        asked = re.search(rf"rule {rule}:.*?resources: (.*?)\n", done, re.DOTALL)[1]
        assert f"constraint={constraint}" in asked and "qos=long" in asked and "slurm_account=lab" in asked
    profile = checkout / "workflow" / "profiles" / "slurm" / "config.yaml"
    told = {"RETRIES": "7", "LOCAL_CORES": "4", "STATUS": "sacct", "JOBS": "9", "POLL": "11", "PARTITIONS": "~/mine.yaml"}
    for name, value in told.items():
        monkeypatch.setenv(f"TAMTRL_SLURM_{name}", value)
    with profile.open() as stream:
        options = yte.process_yaml(stream, require_use_yte=True)
    assert (options["retries"], options["local-cores"], options["slurm-status-command"], options["jobs"]) == (7, 4, "sacct", 9)
    assert options["slurm-partition-config"] == os.path.expanduser("~/mine.yaml")
    assert options["slurm-init-seconds-before-status-checks"] == 11


@pytest.mark.parametrize("profile", ["slurm", "local-gpu"])
def test_a_first_run_on_one_gpu(checkout, profile):
    """config/smoke.yaml: the real model at the real budgets, small enough for minutes, with one download of data."""
    done = snakemake(checkout, "-n", "--profile", profile, "--configfile", "config/smoke.yaml", "--", "smoke", check=True).stdout
    jobs = planned(done)
    assert (jobs["train_rl"], jobs["smoke_resume"], jobs["predict"], jobs["fetch_file"], jobs["fetch_model"]) == (1, 1, 2, 1, 1)
    training = re.search(r"rule train_rl:.*?resources: (.*?)\n", done, re.DOTALL)[1]
    assert "gpu=1, gpu_model=a100" in training and "runtime=60" in training and "--devices 1 --nodes 1" in training


def test_everything_at_toy_scale(checkout):
    """toy-full.yaml extends toy.yaml: its methods too, the teacher's trajectories sampled once for both that learn from them."""
    done = snakemake(checkout, "-n", "--profile", "toy", "--configfile", "config/toy-full.yaml", check=True).stdout
    jobs = planned(done)
    # with one seed 15 and 19; memagent, tamtrl and five variants have two seeds more
    assert (jobs["train_rl"], jobs["distil"], jobs["keep_correct"], jobs["predict"]) == (15 + 14, 3, 2, 19 + 14)
    assert jobs["premise"] == 1
    assert jobs["predict_test"] == 10  # Figures 5 and 6 train nothing for their tests
    assert jobs["generate"] == 2 and jobs["prm_label"] == jobs["train_prm_model"] == 1  # STaR's trajectories serve the PRM
    assert "results/toy/runs/toy/vanilla_kd/main/seed0/model" in done


# By Snakemake's own functions, in a process of its own: one process can have the code of one checkout.
KEYS = """
import asyncio, json, sys
from pathlib import Path
from snakemake.api import SnakemakeApi
from snakemake.caching.hash import ProvenanceHashMap
from snakemake.settings.enums import Quietness
from snakemake.settings.types import ConfigSettings, DAGSettings, OutputSettings, ResourceSettings

config = ConfigSettings(configfiles=[Path(name) for name in sys.argv[1:]])
with SnakemakeApi(OutputSettings(quiet={Quietness.ALL}, dryrun=True)) as api:
    planned = api.workflow(ResourceSettings(cores=1), config_settings=config, snakefile=Path("Snakefile"))
    planned.dag(DAGSettings(targets={"all"})).execute_workflow(executor="dryrun")
    every = list(planned._workflow.dag.jobs)
    jobs = [job for job in every if job.rule.cache.output]
    keys = ProvenanceHashMap()
    hashes = [asyncio.run(keys.get_provenance_hash(job)) for job in jobs]
folders = {file for job in every for file in job.output if file.is_directory}
inputs = [file for job in jobs for file in job.input if file in folders or Path(file).is_dir()]
print(json.dumps({"folders": inputs, "rules": [job.rule.name for job in jobs], "keys": hashes}))
"""


@pytest.mark.parametrize("files", [[], ["config/toy-full.yaml"]])
def test_every_cached_job_has_a_key(checkout, files):
    """Where parameters or inputs have no hash, Snakemake says so only in the job, after it waited for its GPUs."""
    command = [sys.executable, "-c", KEYS, *files]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, env=with_path())
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    # a job on a cluster knows no other jobs, so it takes the content of its inputs, which folders don't have
    assert not told["folders"]
    assert {"train_rl", "distil", "generate", "predict", "predict_test", "train_prm_model"} <= set(told["rules"])
    assert len(set(told["keys"])) == len(told["rules"])


@pytest.mark.parametrize("arguments", [[], ["--configfile", "config/toy-full.yaml"]])
def test_every_command_is_one_that_tamtrl_takes(checkout, arguments):
    told = snakemake(checkout, "-n", "-p", *arguments, check=True).stdout
    words = [shlex.split(command) for command in re.findall(r"^Shell command: tamtrl (.*)$", told, re.MULTILINE)]
    cut = [command[: next(n for n, word in enumerate(command) if word.startswith("2>"))] for command in words]
    verbs = {cli.parser().parse_args(command).verb for command in cut}
    assert {"train", "distil", "generate", "keep-correct", "predict", "prm-label", "prm-train", "table-hours"} <= verbs


def test_further_rounds_sample_with_the_model_of_the_round_before(checkout):
    runs = (checkout / "config" / "runs.tsv").read_text().replace("samples=8", "samples=8 distillation.rounds=3")
    (checkout / "config" / "rounds.tsv").write_text(runs)
    star = "results/toy/runs/toy/star/main/seed0"
    arguments = ["--profile", "toy", "--configfile", "config/toy-full.yaml", "--config", "runs=config/rounds.tsv"]
    done = snakemake(checkout, "-n", f"{star}/metrics.csv", *arguments, check=True).stdout
    jobs = planned(done)
    assert (jobs["generate"], jobs["generate_round"], jobs["distil_round"], jobs["distil"]) == (1, 2, 2, 1)
    assert f"--model {star}/rounds/2/model" in done and f"{star}/rounds/3/trajectories.parquet" in done


def test_the_paper_in_full(checkout):
    """All 30 runs in fewer than 1,000 jobs, planned in seconds, and what they cost before anything is submitted."""
    begun = time.monotonic()
    jobs = planned(snakemake(checkout, "-n", "--profile", "slurm", check=True).stdout)
    took = time.monotonic() - begun
    assert (jobs["train_rl"], jobs["distil"], jobs["predict"], jobs["predict_test"]) == (22, 6, 30, 14)
    assert jobs["table"] == 3 and jobs["figure_sweep"] == 3 and jobs["total"] < 1000
    assert took < 30, took  # 5 s on a quiet machine; tests share theirs
    command = [sys.executable, "-m", "tamtrl.cli", "plan", "--", "--profile", "slurm"]
    told = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True, env=with_path()).stdout
    row = next(line.split() for line in told.splitlines() if line.split()[:1] == ["train_rl"])
    assert row[1] == "22" and float(row[2].replace(",", "")) == 22 * 8 * 48  # GPU-hours at most: 48 h on 8 GPUs each


def test_tables_train_no_sweep(checkout):
    """Claims are about sweeps too, and so are made with the records, which need every run."""
    jobs = planned(snakemake(checkout, "-n", "--profile", "slurm", "tables", check=True).stdout)
    assert (jobs["train_rl"], jobs["predict"]) == (14, 22) and "claims" not in jobs


def test_sweeps_train_on_what_they_say(checkout):
    arguments = ["--profile", "toy", "--configfile", "config/toy-full.yaml", "-n"]
    run = "results/toy/runs/toy/tamtrl"
    done = snakemake(
        checkout, *arguments, f"{run}/documents_8/seed0/metrics.csv", f"{run}/main/seed0/metrics.csv", check=True
    ).stdout
    assert "--documents 8 --count 512" in done and planned(done)["prepare_toy"] == 3
    tested = f"{run}/main/seed0/tests/chunk_14/scores/toy_multihop.csv"
    assert planned(snakemake(checkout, *arguments, tested, check=True).stdout)["predict_test"] == 1


def test_downloads_names_every_source(checkout):
    """HotpotQA's two files, LongBench, the essays; two backbones, two teachers (one judges too), the two models that the filter
    asks, and BERT."""
    jobs = planned(snakemake(checkout, "-n", "downloads", check=True).stdout)
    assert jobs["fetch_file"] == 4 and jobs["fetch_model"] == 7


def test_training_on_another_set(checkout):
    sets = "train_sets={train: musique_training, validation: 2wikimultihopqa_original}"
    done = snakemake(checkout, "-n", "-p", "data", "--config", sets, "musique_train=README.md", check=True).stdout
    assert "--format musique --source README.md" in done
    assert "--format 2wikimultihopqa" in done and "--member dev.json" in done
    # documents that are the question's own have no known size: no projection, and no point of Figure 5
    snakemake(checkout, "project", "--cores", "1", "--config", sets, "musique_train=README.md", check=True)
    projected = pd.read_csv(checkout / "results" / "full" / "tables" / "tableA2.projected.csv")
    assert projected["variant"].str.match("documents|questions").all() and len(projected) == 5
