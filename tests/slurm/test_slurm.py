"""`snakemake --profile slurm` on a real SLURM: the whole path, and again with faults, to the same tables."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
import yaml

SCRIPT = Path(__file__).parent / "cluster.sh"
SMALL = ["--profile", "slurm", "--configfile", "tests/slurm/small.yaml"]
# Pretend GPUs are handed out like real ones, though nothing computes on them here.
ON_GPUS = ["--set-resources", "train_rl:gpu=2", "train_rl:gpu_model=a100"]


def environment() -> dict[str, str]:
    """With the hub switched off: jobs run on nodes without a network."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "TAMTRL_SLURM_POLL": "3", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


def start(folder: Path, *arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "snakemake", *SMALL, *arguments]
    options = dict(text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    return subprocess.Popen(command, cwd=folder, env=environment(), **options)


def queue() -> pd.DataFrame:
    """The jobs that SLURM knows, ended ones included."""
    columns = {"JobArrayID": "job", "Partition": "partition", "State": "state", "tres-per-job": "gres", "NumCPUs": "cpus"}
    columns |= {"MinMemory": "memory", "Comment": "comment", "NumNodes": "nodes"}
    command = ["squeue", "-h", "--states=all", "-O", ",".join(f"{name}:|" for name in columns)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return pd.DataFrame([line.split("|")[: len(columns)] for line in lines], columns=list(columns.values()))


def checkpoints(folder: Path, method: str) -> list[Path]:
    return list(folder.glob(f"scratch/small/toy/{method}/main/seed0/*/checkpoints/latest_checkpointed_iteration.txt"))


def wait_for(condition, seconds: float, what: str):
    deadline = time.time() + seconds
    while not (value := condition()):
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


@pytest.fixture(scope="session")
def cluster(tmp_path_factory) -> Path:
    """One node that says it has eight A100s; yields the folder of its logs."""
    if not os.environ.get("TAMTRL_TEST_SLURM"):
        pytest.skip("TAMTRL_TEST_SLURM=1 lets these tests install SLURM's Debian packages and write /etc/slurm, as root")
    folder = tmp_path_factory.mktemp("slurm")
    started = subprocess.run(["bash", SCRIPT, "up", folder], capture_output=True, text=True)
    try:
        assert started.returncode == 0, started.stdout + started.stderr
        yield folder
    finally:
        subprocess.run(["bash", SCRIPT, "down", folder], check=True)


@pytest.fixture(scope="module")
def undisturbed(cluster, checkout) -> tuple[Path, pd.DataFrame]:
    """The whole path, once, with nothing in its way; and what SLURM was asked for."""
    run = start(checkout, *ON_GPUS)
    _, told = run.communicate(timeout=1100)
    assert run.returncode == 0, told[-5000:]
    return checkout, queue()


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


def test_the_same_tables_after_three_faults(undisturbed):
    """A training job is cancelled, the trainer of the other is killed, and then Snakemake itself."""
    folder, before = undisturbed
    tables = {path.name: path.read_bytes() for path in (folder / "results/small/tables").glob("*.csv")}
    tables = {name: content for name, content in tables.items() if name not in ("tableA2.csv", "cards.csv")}  # hold times
    trained = {m: pd.read_csv(folder / f"results/small/runs/toy/{m}/main/seed0/metrics.csv") for m in ("memagent", "tamtrl")}
    for name in ("results", "scratch", ".snakemake"):
        (folder / name).rename(folder / f"undisturbed.{name}")
    shutil.copytree(folder / "undisturbed.results" / "paper", folder / "results" / "paper")  # published numbers

    run = start(folder)
    wait_for(lambda: checkpoints(folder, "memagent"), 900, "a checkpoint of memagent")

    def new() -> pd.DataFrame:
        jobs = queue()
        return jobs[~jobs["job"].isin(before["job"]) & (jobs["state"] == "RUNNING")]

    victim = new()[new()["comment"].str.contains("train_rl") & new()["comment"].str.contains("memagent")]
    subprocess.run(["scancel", victim["job"].iloc[0]], check=True)

    wait_for(lambda: checkpoints(folder, "tamtrl"), 900, "a checkpoint of tamtrl")
    trainers = [p for p in psutil.process_iter(["cmdline"]) if "tamtrl.training.launch" in (p.info["cmdline"] or [])]
    killed = [p for p in trainers if any("/tamtrl/main/" in part for part in p.info["cmdline"])]
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

    for name, content in tables.items():
        assert (folder / "results/small/tables" / name).read_bytes() == content, name
    for method, metrics in trained.items():
        resumed = pd.read_csv(folder / f"results/small/runs/toy/{method}/main/seed0/metrics.csv")
        assert list(resumed["step"]) == list(metrics["step"])
        pd.testing.assert_series_equal(resumed["outcome"], metrics["outcome"])
        assert len(list(folder.glob(f"scratch/small/toy/{method}/main/seed0/*/attempts/*"))) > 1
    assert not left_running()


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


def ended(job: str) -> str | None:
    jobs = queue().set_index("job")["state"]
    return jobs[job] if jobs[job] not in ("PENDING", "RUNNING", "COMPLETING") else None


def test_training_stops_itself_before_the_time_limit(prepared):
    folder = prepared
    command = f"tamtrl train {run_file(folder, 1000)} --output limited --scratch limited.scratch --device cpu --cores 2"
    job = submit(folder, "--time=4", "--cpus-per-task=2", "--mem=10000", command=command)
    state = wait_for(lambda: ended(job), 400, "the end of the job")
    log = (folder / "job.log").read_text()
    told = re.search(r"Training stopped after step (\d+) of 1000, before the job's time limit; the same command continues", log)
    assert state == "FAILED" and told and int(told[1]) > 0, log  # and not TIMEOUT
    (tracker,) = folder.glob("limited.scratch/*/checkpoints/latest_checkpointed_iteration.txt")
    assert tracker.read_text() == told[1] and not (folder / "limited").exists() and not left_running()


def test_one_ray_over_two_nodes(prepared):
    folder = prepared
    command = f"tamtrl train {run_file(folder, 1)} --output two --scratch two.scratch --device cpu --cores 2 --nodes 2"
    job = submit(folder, "--time=20", "--nodes=2", "--ntasks=2", "--cpus-per-task=2", "--mem=10000", command=command)
    state = wait_for(lambda: ended(job), 600, "the end of the job")
    log = (folder / "job.log").read_text()
    assert state == "COMPLETED", log
    metrics = pd.read_csv(folder / "two" / "metrics.csv")
    assert list(metrics["step"].dropna())[-1] == 1
    assert len(list(folder.glob("two.scratch/*/checkpoints/global_step_1/actor/model_world_size_2_rank_*.pt"))) == 2
    assert not left_running()


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
