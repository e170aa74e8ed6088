"""What of training can be checked without running it: verl's validation of both devices, metrics, process clean-up."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml
from conftest import REPOSITORY

from tamtrl import credit
from tamtrl.cpu import attention
from tamtrl.credit.base import Turns
from tamtrl.credit.rounding import LOG_ODDS
from tamtrl.errors import UserError
from tamtrl.jobs import step_log
from tamtrl.jobs.environment import environment
from tamtrl.settings import Resources, Run
from tamtrl.stored import build
from tamtrl.training import launch, metrics
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
    # 4 questions x 8 rollouts an engine, and no CUDA graph for more; gradient checkpointing until a GPU has shown it can go
    rollout = gpu["actor_rollout_ref"]["rollout"]
    assert rollout["max_num_seqs"] == 32 and rollout["cudagraph_capture_sizes"] == [1, 2, 4, 8, 16, 24, 32]
    assert gpu["actor_rollout_ref"]["model"]["enable_gradient_checkpointing"]
    assert gpu["actor_rollout_ref"]["model"]["external_lib"] == "tamtrl.training.response_logits"


def test_devices_differ_only_in_devices_and_sizes(verl_configs):
    """What the algorithm is must be equal; the list says what may differ."""
    may_differ = ("dtype", "device", "compile", "attn_implementation", "offload", "gpu", "ray", "cache", "sleep", "eager",
                  "load_format", "max_num", "prefill", "checkpointing", "num_workers", "storage", "bucket", "cudagraph",
                  "tensor_model_parallel", "mixed_precision", "override_config", "executor_backend")  # fmt: skip

    def flat(node, path=""):
        if isinstance(node, dict):
            return {k: v for key, value in node.items() for k, v in flat(value, f"{path}.{key}").items()}
        return {path: node}

    gpu, cpu = flat(verl_configs["gpu"]), flat(verl_configs["cpu"])
    differing = {key for key in gpu.keys() | cpu.keys() if gpu.get(key, "absent") != cpu.get(key, "absent")}
    assert not {key for key in differing if not any(word in key for word in may_differ)}


@pytest.mark.parametrize(("dtype", "precision"), [("bfloat16", "bf16"), ("float32", "fp32")])
@pytest.mark.parametrize(("where", "flash"), [(GPU, True), (CPU, False)])
def test_one_setting_is_the_precision_of_every_pass(dtype, precision, where, flash):
    """The trainer takes the resolution of scores from the teacher's."""
    run = paper_run()
    run = replace(run, training=replace(run.training, dtype=dtype, attention_by_row=False))
    actors = launch.verl_config(run, where, Path("ck")).actor_rollout_ref
    found = {actors[engine].fsdp_config.mixed_precision.param_dtype for engine in ("actor", "ref")}
    assert found == {precision} <= set(LOG_ODDS) and actors.rollout.dtype == dtype
    assert actors.actor.fsdp_config.model_dtype == "fp32"  # master weights
    expected = "flash_attention_2" if flash and dtype == "bfloat16" else "sdpa"
    assert actors.model.override_config.attn_implementation == expected


def test_attention_by_row_is_for_cpus(verl_configs):
    chosen = {device: made["actor_rollout_ref"]["model"]["override_config"] for device, made in verl_configs.items()}
    assert chosen["cpu"]["attn_implementation"] == attention.NAME and chosen["gpu"]["attn_implementation"] == "flash_attention_2"


@pytest.mark.parametrize(("stored", "used"), [("bfloat16", "bf16"), ("float32", "fp32"), (None, "fp32")])
def test_the_reference_keeps_the_precision_of_its_checkpoint(tmp_path, stored, used):
    shutil.copytree(REPOSITORY / "models" / "toy", tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config.pop("dtype")
    (tmp_path / "model" / "config.json").write_text(json.dumps(config | ({"torch_dtype": stored} if stored else {})))
    made = launch.verl_config(paper_run(model_path=str(tmp_path / "model")), GPU, Path("ck")).actor_rollout_ref
    assert made.ref.fsdp_config.model_dtype == used and made.actor.fsdp_config.model_dtype == "fp32"


@pytest.mark.parametrize("change", [{"rollout_is": "token"}, {"rollout_rs": "token_k1"}, {"bypass_mode": True}])
def test_rollout_correction_is_refused(change):
    """Our advantages replace those that verl would correct."""
    from omegaconf import OmegaConf

    from tamtrl.training.trainer import TurnCreditTrainer

    config = launch.verl_config(paper_run(), CPU, Path("ck"))
    config.algorithm.rollout_correction = OmegaConf.merge(config.algorithm.rollout_correction, change)
    with pytest.raises(UserError, match=r"algorithm\.rollout_correction is set"):
        TurnCreditTrainer(config)


def test_graph_sizes_by_hand():
    assert (
        launch.graph_sizes(1) == [1] and launch.graph_sizes(6) == [1, 2, 4, 6] and launch.graph_sizes(17) == [1, 2, 4, 8, 16, 17]
    )


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
    assert not any("tamtrl.cpu" in value for value in variables.values()) and "VERL_PLATFORM" not in variables
    code = "import sys, tamtrl.training.launch, tamtrl.training.train; print('tamtrl.cpu.platform' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
    # the vLLM plugin is installed everywhere, and does nothing outside a CPU training run
    code = "from tamtrl.cpu.vllm_plugin import register; register(); import sys; print('vllm' in sys.modules)"
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
    table = tmp_path / "metrics.csv"
    assert step_log.write_table([second, first], table, metrics.COLUMNS, metrics.PREFIXES) == 3
    table = pd.read_csv(tmp_path / "metrics.csv").set_index("step")
    assert list(table.index) == [0, 1, 2, 3]
    assert table["outcome"].tolist()[1:] == [0.1, 0.3, 0.4] and table["validation_outcome"].tolist()[:2] == [0.5, 0.6]


def test_credit_methods_declare_what_they_need():
    for name in credit.names():
        assert credit.needs(name) == credit.load(name).NEEDS
