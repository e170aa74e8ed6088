"""What sites ask of a workflow: several nodes, short time limits, a controller that goes away; by the user's own command."""

import os
import signal
import subprocess

import pandas as pd
import psutil
import pytest
from jobs import checkpoints, left_running, queue, start, wait_for

RUN = "results/small/runs/toy/memagent/main/seed0"
METRICS = f"{RUN}/metrics.csv"


def devices_by_node() -> dict[str, str]:
    """What the Ray of each node was given."""
    found = {}
    for process in psutil.process_iter(["name"]):
        if process.info["name"] == "raylet":
            variables = process.environ()
            found[variables["SLURMD_NODENAME"]] = variables.get("CUDA_VISIBLE_DEVICES", "")
    return found


def test_two_nodes_with_their_gpus(cluster, checkout):
    """One Ray over two nodes of four GPUs each. The GPUs are pretend ones, so training itself is told to use the CPUs."""
    asked = "resources={device: gpu, train: {devices: 4, nodes: 2}}"
    place = "train_rl:place=--device cpu --devices 1 --nodes 2 --cores 2"
    run = start(checkout, "--config", asked, "training={steps: 1}", "--set-resources", place, "--", METRICS)
    wait_for(lambda: len(devices_by_node()) == 2, 300, "Ray on two nodes", run)
    assert devices_by_node() == {"n1": "0,1,2,3", "n2": "0,1,2,3"}
    _, told = run.communicate(timeout=600)
    assert run.returncode == 0, told[-5000:]
    job = queue().query("comment.str.contains('train_rl')").iloc[-1]
    assert (job["partition"], job["nodes"], job["tasks"], job["gres_of_a_node"]) == ("gpu", "2", "2", "gres:gpu:a100:4")
    assert list(pd.read_csv(checkout / METRICS)["step"].dropna())[-1] == 1
    saved = checkout.glob("scratch/small/toy/memagent/main/seed0/*/checkpoints/global_step_1/actor/model_world_size_2_rank_*.pt")
    assert len(list(saved)) == 2 and not left_running()


@pytest.mark.rare
def test_short_time_limits_and_a_controller_that_goes_away(cluster, checkout):
    """Training stops itself before its time limit and is put back into the queue, without a retry; it ends while nobody can ask
    SLURM anything, and Snakemake hears of it afterwards."""
    steps = "training={steps: 60, save_every: 100, validate_every: 100}"
    others = {number for number in queue()["job"]}

    def training() -> dict[str, str]:
        jobs = queue()
        jobs = jobs[jobs["comment"].str.contains("train_rl") & ~jobs["job"].isin(others)]
        return dict(jobs.iloc[-1]) if len(jobs) else {"state": "", "job": ""}

    arguments = ["--config", steps, "--set-resources", "train_rl:runtime=4", "--", METRICS]
    run = start(checkout, *arguments, TAMTRL_SLURM_RETRIES="0")
    wait_for(lambda: training()["state"] == "RUNNING", 120, "training", run)
    job = training()["job"]
    wait_for(lambda: training()["state"] == "PENDING", 300, "the planned stop", run)
    tracker = max(checkpoints(checkout, "memagent"), key=os.path.getmtime)  # the other run's is there too
    assert 0 < int(tracker.read_text()) < 60 and not (checkout / METRICS).exists()
    log = checkout / "logs/small/runs/toy/memagent/main/seed0/train.log"

    def goes_on() -> bool:
        """The rest in one go, and not after SLURM's two minutes, which begin anew when the job has left its node."""
        if training()["state"] == "PENDING":
            subprocess.run(["scontrol", "update", f"JobId={job}", "TimeLimit=60", "StartTime=now"])
        return log.exists() and "resuming after step" in log.read_text()

    wait_for(goes_on, 180, "the second job", run)
    wait_for(lambda: "/60:" in log.read_text(), 300, "a step of it", run)
    controller = int((cluster / "slurmctld.pid").read_text())
    os.kill(controller, signal.SIGTERM)
    wait_for(lambda: not psutil.pid_exists(controller), 60, "the controller's end")
    wait_for(lambda: (checkout / METRICS).exists() and not left_running(), 300, "the end of training", run)
    subprocess.run(["slurmctld"], check=True)
    _, told = run.communicate(timeout=300)
    assert run.returncode == 0, told[-5000:]
    assert training()["job"] == job and training()["state"] == "COMPLETED"
    assert list(pd.read_csv(checkout / METRICS).dropna(subset="outcome")["step"]) == list(range(1, 61)) and not left_running()
