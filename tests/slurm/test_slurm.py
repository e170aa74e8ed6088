"""`snakemake --profile slurm` on a real SLURM: the whole path, and again with faults, to the same tables."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import psutil
import pytest
import yaml
from jobs import checkpoints, ended, environment, left_running, lose_processes, queue, start, wait_for

RUN = "runs/toy/memagent/main/seed0"
# Pretend GPUs are handed out like real ones, though nothing computes on them here.
ON_GPUS = ["--set-resources", "train_rl:gpu=2", "train_rl:gpu_model=a100"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> dict[str, str]:
    return {"SNAKEMAKE_OUTPUT_CACHE": str(tmp_path_factory.mktemp("cache"))}


@pytest.fixture(scope="module")
def undisturbed(cluster, checkout, cache) -> tuple[Path, pd.DataFrame]:
    """The whole path, once, with nothing in its way; and what SLURM was asked for."""
    before = queue()["job"]  # of other tests
    run = start(checkout, *ON_GPUS, **cache)
    _, told = run.communicate(timeout=1100)
    assert run.returncode == 0, told[-5000:]
    jobs = queue()
    return checkout, jobs[~jobs["job"].isin(before)]


def test_the_whole_path_through_slurm(undisturbed):
    folder, jobs = undisturbed
    table = pd.read_csv(folder / "results/small/tables/table1.csv")
    assert set(table["method"]) == {"base", "memagent", "tamtrl"} and table["reproduced"].notna().all()
    assert (folder / "results/small/figures/dynamics.png").exists()
    assert (jobs["state"] == "COMPLETED").all() and not left_running()


def test_resources_that_were_asked_for(undisturbed):
    _, jobs = undisturbed
    training = jobs[jobs["comment"].str.contains("train_rl")]
    assert len(training) == 2 and (training["partition"] == "gpu").all() and (training["gres"] == "gres:gpu:a100:2").all()
    assert (training["memory"] == "10G").all() and (training["nodes"] == "1").all() and (training["cpus"] == "2").all()
    others = jobs[~jobs["comment"].str.contains("train_rl")]
    assert len(others) and (others["partition"] == "cpu").all() and not others["gres"].str.contains("gpu").any()
    # a place in the queue is for work: scores, lists, tables and figures are made where Snakemake runs
    assert not jobs["comment"].str.contains("score|table|figure|configure|list").any()


def test_second_run_does_nothing(undisturbed):
    folder, _ = undisturbed
    run = start(folder, *ON_GPUS)
    _, told = run.communicate(timeout=300)
    assert run.returncode == 0 and "Nothing to be done" in told


def test_a_first_run_and_its_list_of_checks(undisturbed):
    """What config/smoke.yaml asks of one GPU, here of CPUs: the run again, killed and resumed in a job of its own."""
    folder, _ = undisturbed
    run = start(folder, *ON_GPUS, "--", "smoke")
    _, told = run.communicate(timeout=600)
    assert run.returncode == 0, told[-5000:]
    checks = [line for line in (folder / "results/small/smoke.md").read_text().splitlines() if "| yes |" in line]
    assert len(checks) == 7 and any("killed after its first checkpoint" in line for line in checks)
    again = [
        pd.read_csv(folder / f"results/small/{RUN}/{name}").set_index("step") for name in ("metrics.csv", "resumed/metrics.csv")
    ]
    pd.testing.assert_series_equal(again[0]["outcome"], again[1]["outcome"], check_exact=True)
    assert not left_running()


def test_another_folder_takes_all_from_the_cache(undisturbed, cache, tmp_path):
    """Data, models and predictions, in jobs that only fetch; tables and figures are made of them again."""
    folder, _ = undisturbed
    other = tmp_path / "other"
    made = shutil.ignore_patterns("small", "scratch", ".snakemake", "undisturbed.*")
    shutil.copytree(folder, other, symlinks=True, ignore=made)
    run = start(other, **cache)
    _, told = run.communicate(timeout=600)
    assert run.returncode == 0, told[-5000:]
    assert not (other / "scratch").exists()  # where training and predictions would have worked
    for name in ("runs/toy/tamtrl/main/seed0/metrics.csv", "tables/table1.csv"):
        assert (other / "results/small" / name).read_bytes() == (folder / "results/small" / name).read_bytes()


def without_hours(folder: Path) -> dict[str, list[str]]:
    """Lines of the tables by file name, but for those that hold how long something took."""
    tables = (folder / "results/small/tables").glob("*.csv")
    lines = {table.name: table.read_text(encoding="utf-8").splitlines() for table in tables}
    return {
        name: [line for line in content if "hours_total" not in line]
        for name, content in lines.items()
        if name not in ("tableA2.csv", "cards.csv")
    }


def test_the_same_tables_after_three_faults(undisturbed):
    """The training job that is first to save is cancelled, the trainer of the other is killed, and then Snakemake itself."""
    folder, before = undisturbed
    tables = without_hours(folder)
    for name in ("results", "scratch", ".snakemake"):
        (folder / name).rename(folder / f"undisturbed.{name}")
    shutil.copytree(folder / "undisturbed.results" / "paper", folder / "results" / "paper")  # published numbers

    run = start(folder)
    methods = ("memagent", "tamtrl")
    first = wait_for(lambda: next((m for m in methods if checkpoints(folder, m)), None), 900, "a checkpoint")
    (second,) = set(methods) - {first}

    def new() -> pd.DataFrame:
        jobs = queue()
        return jobs[~jobs["job"].isin(before["job"]) & (jobs["state"] == "RUNNING")]

    victim = new()[new()["comment"].str.contains("train_rl") & new()["comment"].str.contains(first)]
    subprocess.run(["scancel", victim["job"].iloc[0]], check=True)

    wait_for(lambda: checkpoints(folder, second), 900, "a checkpoint of the other")
    trainers = [p for p in psutil.process_iter(["cmdline"]) if "tamtrl.training.launch" in (p.info["cmdline"] or [])]
    killed = [p for p in trainers if any(f"/{second}/main/" in part for part in p.info["cmdline"])]
    assert killed
    killed[0].kill()

    wait_for(lambda: len(new()), 300, "another job")
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    # as docs/cluster.md says for after a kill: jobs of the dead Snakemake first, then its lock
    subprocess.run(["scancel", "--user", "root"], check=True)
    wait_for(lambda: new().empty and not left_running(), 120, "the end of all jobs")
    again = start(folder, "--unlock")
    assert again.wait(timeout=120) == 0
    again = start(folder)
    _, told = again.communicate(timeout=1100)
    assert again.returncode == 0, told[-5000:]

    assert without_hours(folder) == tables
    for method in methods:
        run = f"small/runs/toy/{method}/main/seed0"
        trained, resumed = (pd.read_csv(folder / results / run / "metrics.csv") for results in ("undisturbed.results", "results"))
        # what vLLM says of its own probabilities depends on which requests it happened to compute together
        columns = [name for name in trained.columns if not name.startswith(("seconds_", "log_prob_difference"))]
        pd.testing.assert_frame_equal(resumed[columns], trained[columns], check_exact=True)
        weights = [(folder / results / run / "model.sha256").read_bytes() for results in ("undisturbed.results", "results")]
        assert weights[0] == weights[1]
        assert len(list(folder.glob(f"scratch/small/toy/{method}/main/seed0/*/attempts/*"))) > 1
    assert not left_running()


@pytest.mark.rare
def test_time_limit_lost_node_drained_node(undisturbed):
    """A training job hangs in mid-step until its time limit; the node of its successor is lost; the third works on a node that is
    drained. The next job of the workflow goes elsewhere, and the numbers are those of before."""
    folder, _ = undisturbed
    runs = folder / "results/small/runs/toy/memagent/main/seed0"
    metrics, table = pd.read_csv(runs / "metrics.csv"), (folder / "results/small/tables/table1.csv").read_bytes()
    for made in (runs, folder / "results/small/tables", folder / "scratch/small/toy/memagent"):
        shutil.rmtree(made)
    before = set(queue()["job"])

    def training() -> dict[str, str]:
        jobs = queue()
        jobs = jobs[jobs["comment"].str.contains("train_rl") & (jobs["state"] == "RUNNING") & ~jobs["job"].isin(before)]
        return dict(jobs.iloc[0]) if len(jobs) else {}

    def saved() -> int:
        trackers = checkpoints(folder, "memagent")
        return int(trackers[0].read_text() or 0) if trackers else 0

    def scontrol(*changes: str) -> None:
        subprocess.run(["scontrol", "update", *changes], check=True)

    run = start(folder)
    wait_for(saved, 300, "a checkpoint")
    first = training()
    (trainer,) = [p for p in psutil.process_iter(["cmdline"]) if "ray::TaskRunnerV1" in " ".join(p.info["cmdline"] or [])]
    trainer.suspend()
    scontrol(f"JobId={first['job']}", "TimeLimit=1")
    assert wait_for(lambda: ended(first["job"]), 120, "the time limit") == "TIMEOUT"
    step = saved()
    assert step < 4
    wait_for(lambda: saved() > step, 300, "another checkpoint")
    second = training()
    for state in ("DOWN", "DRAIN"):  # lost, and it doesn't come back
        scontrol(f"NodeName={second['node']}", f"State={state}", "Reason=test")
    wait_for(lambda: queue().set_index("job")["state"][second["job"]] == "PENDING", 60, "the requeued job")
    scontrol(f"JobId={second['job']}", "StartTime=now")  # and not after two minutes
    third = wait_for(training, 120, "the job on another node")
    assert third["job"] == second["job"] and third["node"] != second["node"]
    scontrol(f"NodeName={second['node']}", "State=RESUME")
    scontrol(f"NodeName={third['node']}", "State=DRAIN", "Reason=test")
    _, told = run.communicate(timeout=600)
    scontrol(f"NodeName={third['node']}", "State=RESUME")
    assert run.returncode == 0, told[-5000:]
    jobs = queue().set_index("job")
    assert jobs["state"][third["job"]] == "COMPLETED"
    predicted = jobs[jobs["comment"].str.contains("predict") & ~jobs.index.isin(before)]
    assert set(predicted["node"]) == {second["node"]}
    pd.testing.assert_series_equal(pd.read_csv(runs / "metrics.csv")["outcome"], metrics["outcome"])
    assert (folder / "results/small/tables/table1.csv").read_bytes() == table and not left_running()
    lose_processes(second["job"], second["node"])


# -- single jobs -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared(cluster, checkout) -> Path:
    """Data and run.yaml of the small workflow, where it hasn't made them."""
    wanted = ["data", "results/small/runs/toy/memagent/main/seed0/run.yaml"]
    command = [sys.executable, "-m", "snakemake", *wanted, "--profile", "toy", "--configfile", "tests/slurm/small.yaml"]
    done = subprocess.run(command, cwd=checkout, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return checkout


def run_file(folder: Path, steps: int) -> Path:
    """The small workflow's memagent run with another number of steps."""
    run = yaml.safe_load((folder / "results/small/runs/toy/memagent/main/seed0/run.yaml").read_text())
    run["training"] |= {"steps": steps, "validate_every": 1000}
    (folder / "single.yaml").write_text(yaml.safe_dump(run))
    return folder / "single.yaml"


def submit(folder: Path, *options: str, command: str) -> str:
    """The job's number."""
    arguments = ["sbatch", "--parsable", "--output=job.log", *options, f"--wrap=srun -n1 {command}"]
    return subprocess.run(arguments, cwd=folder, env=environment(), capture_output=True, text=True, check=True).stdout.strip()


def test_nodes_that_the_job_does_not_have(prepared):
    folder = prepared
    command = f"tamtrl train {run_file(folder, 1)} --output none --scratch none.scratch --device cpu --cores 2 --nodes 2"
    job = submit(folder, "--time=5", "--cpus-per-task=2", "--mem=10000", command=command)
    wait_for(lambda: ended(job), 120, "the end of the job")
    assert "resources.train.nodes is 2, but the SLURM job has 1" in (folder / "job.log").read_text()
    alone = subprocess.run(
        [sys.executable, "-m", "tamtrl.cli", *command.split()[1:]], cwd=folder, env=environment(), capture_output=True, text=True
    )
    assert alone.returncode == 2 and "this is no SLURM job" in alone.stderr
