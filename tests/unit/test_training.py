"""What of training can be checked without running it: verl's validation of both devices, metrics, process clean-up."""

import errno
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from multiprocessing import shared_memory
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml
from conftest import REPOSITORY

from tamtrl import credit
from tamtrl.credit.base import Turns
from tamtrl.errors import UserError
from tamtrl.settings import Resources, Run, build
from tamtrl.training import launch, metrics, processes
from tamtrl.training.environment import environment
from tamtrl.training.job import Job
from tamtrl.training.train import identity

GPU = Resources("gpu", 8, 1, 64, 256)
CPU = Resources("cpu", 1, 1, 2, 10)


def paper_run(**changes) -> Run:
    config = yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text())
    run = {
        "model": "0.6B", "method": "tamtrl", "variant": "main", "seed": 0, "model_path": str(REPOSITORY / "models/toy"),
        "train_data": "train.parquet", "validation_data": "validation.parquet", "reading": config["reading"],
        "credit": {"method": "teacher"} | config["credit"], "training": config["training"],
    }  # fmt: skip
    return replace(build(Run, run, "run"), **changes)


@pytest.fixture(scope="module")
def verl_configs():
    """Both devices' configurations, each validated by verl's own validator (it raises)."""
    from omegaconf import OmegaConf

    return {r.device: OmegaConf.to_container(launch.verl_config(paper_run(), r, Path("ck"))) for r in (GPU, CPU)}


def test_verl_accepts_both_devices(verl_configs):
    gpu = verl_configs["gpu"]
    assert gpu["trainer"]["n_gpus_per_node"] == 8 and gpu["trainer"]["device"] == "cuda"
    actor = gpu["actor_rollout_ref"]["actor"]
    # the paper's section on training, as verl will see it
    assert actor["optim"]["lr"] == 1e-6 and actor["optim"]["lr_warmup_steps"] == 20
    assert actor["optim"]["betas"] == [0.9, 0.95] and actor["optim"]["weight_decay"] == 0.01
    assert actor["loss_agg_mode"] == "token-mean" and actor["entropy_coeff"] == 0 and actor["grad_clip"] == 1.0
    assert actor["use_kl_loss"] and actor["kl_loss_coef"] == 1e-3 and actor["kl_loss_type"] == "low_var_kl"
    assert (actor["clip_ratio_low"], actor["clip_ratio_high"], actor["clip_ratio_c"]) == (0.2, 0.2, 3.0)
    assert gpu["data"]["train_batch_size"] == 32 and gpu["actor_rollout_ref"]["rollout"]["n"] == 8
    assert gpu["trainer"]["total_training_steps"] == 800
    assert gpu["actor_rollout_ref"]["rollout"]["max_model_len"] == 8192


def test_devices_differ_only_in_devices_and_sizes(verl_configs):
    """What the algorithm is must be equal; the list says what may differ."""
    may_differ = ("dtype", "device", "compile", "attn_implementation", "offload", "gpu", "ray", "cache", "sleep", "eager",
                  "load_format", "max_num", "prefill", "checkpointing", "num_workers", "storage", "bucket", "poll_seconds",
                  "tensor_model_parallel", "mixed_precision", "override_config")  # fmt: skip

    def flat(node, path=""):
        if isinstance(node, dict):
            return {k: v for key, value in node.items() for k, v in flat(value, f"{path}.{key}").items()}
        return {path: node}

    gpu, cpu = flat(verl_configs["gpu"]), flat(verl_configs["cpu"])
    differing = {key for key in gpu.keys() | cpu.keys() if gpu.get(key, "absent") != cpu.get(key, "absent")}
    assert not {key for key in differing if not any(word in key for word in may_differ)}


def test_a_key_that_verl_renames_is_an_error(monkeypatch):
    values = launch.verl_values(paper_run(), CPU, Path("ck"))
    values["actor_rollout_ref"]["actor"]["kl_loss_coefficient"] = 1
    monkeypatch.setattr(launch, "verl_values", lambda *arguments: values)
    with pytest.raises(Exception, match="kl_loss_coefficient"):
        launch.verl_config(paper_run(), CPU, Path("ck"))


def test_rows_must_fit_a_micro_batch():
    run = paper_run()
    run = replace(run, training=replace(run.training, micro_batch_tokens=4096))
    with pytest.raises(UserError, match=r"micro_batch_tokens \(4096\) is less than reading.window_tokens \(8192\)"):
        launch.verl_values(run, GPU, Path("ck"))


def test_no_cpu_adaptation_reaches_a_gpu_run():
    variables = environment(paper_run().model_path, GPU, Path("log.jsonl"))
    assert not any("tamtrl.training.cpu" in value for value in variables.values()) and "VERL_PLATFORM" not in variables
    code = "import sys, tamtrl.training.launch, tamtrl.training.train; print('tamtrl.training.cpu.platform' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
    # the vLLM plugin is installed everywhere, and does nothing outside a CPU training run
    code = "from tamtrl.training.cpu.vllm_plugin import register; register(); import sys; print('vllm' in sys.modules)"
    plain = {k: v for k, v in os.environ.items() if k != "VERL_PLATFORM"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=plain)
    assert done.stdout.strip() == "False", done.stderr


# -- run files ---------------------------------------------------------------------------------------------------------


def test_run_file_round_trip(tmp_path):
    run = paper_run()
    run.save(tmp_path / "run.yaml")
    assert Run.load(tmp_path / "run.yaml") == run


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: run.pop("seed"), "key 'seed' is missing"),
        (lambda run: run["training"].update(stepz=3), "training: unknown key 'stepz'; known are rollout_batch"),
        (lambda run: run["training"].update(steps="many"), "training: steps must be int, not 'many'"),
        (lambda run: run["training"].update(lr="fast"), "training: lr must be a number, not 'fast'"),
        (lambda run: run["credit"].update(minmax="none"), "credit.minmax is 'none'"),
        (lambda run: run.update(reading=3), "reading must hold keys and values"),
    ],
)
def test_bad_run_files(tmp_path, change, message):
    run = asdict(paper_run())
    change(run)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(run))
    with pytest.raises(UserError, match=message):
        Run.load(tmp_path / "run.yaml")


def test_identity_of_a_run(tmp_path):
    """A changed run must not continue from another's checkpoints; how it is carried out doesn't matter."""
    (tmp_path / "train.parquet").write_text("data")
    run = paper_run(train_data=str(tmp_path / "train.parquet"))
    name = identity(run)
    assert identity(replace(run, training=replace(run.training, stall_minutes=1, micro_batch_tokens=9999))) == name
    assert identity(replace(run, training=replace(run.training, lr=1e-5))) != name
    assert identity(replace(run, credit=replace(run.credit, minmax="off"))) != name and identity(replace(run, seed=1)) != name
    (tmp_path / "train.parquet").rename(tmp_path / "moved.parquet")
    assert identity(replace(run, train_data=str(tmp_path / "moved.parquet"))) == name
    (tmp_path / "moved.parquet").write_text("other data")
    assert identity(replace(run, train_data=str(tmp_path / "moved.parquet"))) != name


# -- metrics -----------------------------------------------------------------------------------------------------------


def test_turn_metrics_by_hand():
    turns = Turns(
        query=torch.zeros(4, dtype=torch.long), rollout=torch.tensor([0, 0, 1, 1]), turn=torch.tensor([0, 1, 0, 1]),
        is_answer=torch.tensor([False, True, False, True]), outcome=torch.tensor([1.0, 1, 0, 0]),
        score=torch.tensor([0.2, float("nan"), 0.6, float("nan")]),
    )  # fmt: skip
    rewards, lengths = torch.tensor([0.4, 1, 0, 0], dtype=torch.float64), torch.tensor([4, 2, 8, 6])
    out = metrics.turn_metrics(turns, rewards, lengths, torch.tensor([True, False, False, False]))
    assert out["tamtrl/outcome"] == 0.5 and out["tamtrl/reward"] == 0.35 and out["tamtrl/response_length"] == 5
    assert out["tamtrl/length_turn_0"] == 6 and out["tamtrl/length_turn_answer"] == 4
    assert out["tamtrl/reward_turn_answer"] == 0.5
    assert out["tamtrl/reward_turn_0_relevant"] == 0.4 and out["tamtrl/reward_turn_0_other"] == 0
    assert not {name for name in out if name.startswith("tamtrl/reward_turn_answer_")}
    assert out["tamtrl/score_q50"] == pytest.approx(0.4) and out["tamtrl/score_max"] == pytest.approx(0.6)


def test_attempts_are_merged_and_a_cut_line_is_passed_over(tmp_path):
    def line(step, **data):
        return json.dumps({"step": step, "data": data}) + "\n"

    first, second = tmp_path / "0000.jsonl", tmp_path / "0001.jsonl"
    key = "val-core/toy/acc/mean@1"
    first.write_text(
        line(0, **{key: 0.5}) + line(1, **{"tamtrl/outcome": 0.1}) + line(2, **{"tamtrl/outcome": 0.2}) + '{"step": 3, "da'
    )
    # resumed after step 1: validates there again, and does step 2 once more
    second.write_text(line(1, **{key: 0.6}) + line(2, **{"tamtrl/outcome": 0.3}) + line(3, **{"tamtrl/outcome": 0.4}))
    assert metrics.write_table([second, first], tmp_path / "metrics.csv") == 3
    table = pd.read_csv(tmp_path / "metrics.csv").set_index("step")
    assert list(table.index) == [0, 1, 2, 3]
    assert table["outcome"].tolist()[1:] == [0.1, 0.3, 0.4] and table["validation_outcome"].tolist()[:2] == [0.5, 0.6]


# -- checkpoints and processes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tracked", ["6", "", "nonsense", "2", None])
def test_half_written_checkpoints_are_not_resumed(tmp_path, tracked):
    job = Job(tmp_path, 6, [], dict, "actor/huggingface", "data.pt", 1, lambda step, values: None)
    assert job.last_checkpoint() == 0
    for step, parts in {2: ["data"], 4: ["data", "model"], 6: ["model"]}.items():  # pruned, complete, cut off
        folder = job.checkpoints / f"global_step_{step}"
        (folder / "actor" / "huggingface").mkdir(parents=True)
        if "data" in parts:
            (folder / "data.pt").touch()
        if "model" in parts:
            (folder / "actor" / "huggingface" / "config.json").touch()
    tracker = job.checkpoints / "latest_checkpointed_iteration.txt"
    if tracked is not None:
        tracker.write_text(tracked)
    assert job.last_checkpoint() == 4 and tracker.read_text() == "4"
    assert [folder.name for folder in job.checkpoints.glob("global_step_*")] == ["global_step_4"]


ORPHAN = """
import subprocess, sys, time
from multiprocessing import resource_tracker, shared_memory
resource_tracker.register = lambda *a: None
segment = shared_memory.SharedMemory(name={name!r}, create=True, size=4096)
segment.buf[0] = 1
subprocess.Popen(["sleep", "300"], start_new_session=True)
open({marker!r}, "w").close()
{end}
"""


def supervised(tmp_path, end: str, **options):
    name = f"tamtrl_test_{os.getpid()}_{tmp_path.name[-8:]}"
    marker = str(tmp_path / "started")
    script = ORPHAN.format(name=name, marker=marker, end=end)
    arguments = dict(progress=lambda: 0.0, stall_seconds=60) | options
    code = processes.supervise([sys.executable, "-c", script], {}, tmp_path / "log", tmp_path / "register", **arguments)
    return code, Path("/dev/shm") / name


def sleepers():
    return [p for p in processes.psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "300"]]


def test_a_failed_run_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(processes.tempfile, "tempdir", str(tmp_path))
    before = len(sleepers())
    code, segment = supervised(tmp_path, "time.sleep(7); raise SystemExit(3)")
    assert code == 3 and len(sleepers()) == before and not segment.exists()
    assert not list(tmp_path.glob("tamtrl-*"))


def test_a_hung_run_is_stopped(tmp_path):
    before = len(sleepers())
    code, segment = supervised(tmp_path, "time.sleep(300)", stall_seconds=8)
    assert code == -1 and len(sleepers()) == before and not segment.exists()


def test_a_full_disk_leaves_nothing_running(tmp_path, monkeypatch):
    """The register can't be written any more; what it said before has to do."""
    monkeypatch.setattr(processes.tempfile, "tempdir", str(tmp_path))
    before = len(sleepers())
    write, told = processes._write, []

    def full_after_the_first(*arguments):
        told.append(arguments)
        if len(told) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(*arguments)

    monkeypatch.setattr(processes, "_write", full_after_the_first)
    with pytest.raises(OSError, match="No space left"):
        supervised(tmp_path, "time.sleep(300)")
    assert len(told) == 3 and len(sleepers()) == before  # tried once more at the end
    assert not list(tmp_path.glob("tamtrl-*")) and not (tmp_path / "register").exists()


def test_what_a_killed_supervisor_leaves_is_cleared_by_the_next_start(tmp_path):
    name = f"tamtrl_test_killed_{os.getpid()}"
    script = ORPHAN.format(name=name, marker=str(tmp_path / "started"), end="time.sleep(300)")
    code = (
        "import sys; from pathlib import Path; from tamtrl.training import processes; "
        f"processes.supervise([sys.executable, '-c', {script!r}], {{}}, Path({str(tmp_path)!r}, 'log'), "
        f"Path({str(tmp_path)!r}, 'register'), lambda: 0.0, 60)"
    )
    before = len(sleepers())
    supervisor = subprocess.Popen([sys.executable, "-c", code])
    register, segment = tmp_path / "register", Path("/dev/shm") / name
    deadline = time.time() + 60
    while not (register.exists() and name in register.read_text()) and time.time() < deadline:
        time.sleep(0.2)
    (child,) = processes.psutil.Process(supervisor.pid).children()
    supervisor.kill()
    supervisor.wait()
    child.wait(10)  # the kernel kills the child; its own child and its shared memory stay
    assert segment.exists() and len(sleepers()) == before + 1
    temporary = Path(json.loads(register.read_text())["temporary"])
    assert processes.supervise(["true"], {}, tmp_path / "log", register, lambda: 0.0, 60) == 0
    assert not segment.exists() and len(sleepers()) == before and not register.exists() and not temporary.exists()


def test_segments_in_use_are_kept():
    segment = shared_memory.SharedMemory(create=True, size=4096)
    try:
        assert processes.remove_segments({f"/dev/shm/{segment.name}"}) == []
    finally:
        segment.close()
        segment.unlink()


def test_cause_is_the_last_exception(tmp_path):
    log = tmp_path / "log"
    log.write_text("Traceback\nValueError: first\n\x1b[36m(Worker pid=1)\x1b[0m RuntimeError: the real one\nbye\n")
    assert processes.cause(log) == "RuntimeError: the real one"
    assert processes.cause(log, begin=log.read_text().index("bye")) == "no exception in the log"  # an earlier attempt's
    log.write_text("[rank0]: RuntimeError: why\nelastic.multiprocessing.errors.ChildFailedError: \n====\n")
    assert processes.cause(log) == "RuntimeError: why"  # and not torchrun's
    vllm = "ERROR 11-30 01:15:04 [core.py:1351]"
    log.write_text(f"(Worker pid=1) {vllm} RuntimeError: why\n(APIServer pid=2) {vllm} vllm.v1.EngineDeadError: See above\n")
    assert processes.cause(log) == "RuntimeError: why"  # nor vLLM's
    log.write_text("nothing")
    assert processes.cause(log) == "no exception in the log"


def test_credit_methods_declare_what_they_need():
    for name in credit.names():
        assert credit.needs(name) == credit.load(name).NEEDS
