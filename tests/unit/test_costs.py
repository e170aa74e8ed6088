"""Does the paper's configuration fit its hardware? By arithmetic; expected values computed by hand in the comments."""

import pandas as pd
import pytest
import yaml
from conftest import REPOSITORY

from tamtrl.planning import costs, plan
from tamtrl.planning.costs import A100, GIB, MODELS, Step

CONFIG = yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text())
GPU = yaml.safe_load((REPOSITORY / "tamtrl" / "training" / "config" / "gpu.yaml").read_text())
DEVICES = CONFIG["resources"]["train"]["devices"]
SHARE = GPU["actor_rollout_ref"]["rollout"]["gpu_memory_utilization"]
TOKENS = CONFIG["training"]["micro_batch_tokens"]


def test_parameters_and_cache():
    # 0.6B: 28 * (1024 * 128 * 48 + 3 * 1024 * 3072) + 151936 * 1024 = 440,401,920 + 155,582,464
    assert MODELS["0.6B"].parameters == 595_984_384
    # 1.7B: 28 * (2048 * 128 * 48 + 3 * 2048 * 6144) + 151936 * 2048 = 1,409,286,144 + 311,164,928
    assert MODELS["1.7B"].parameters == 1_720_451_072
    # keys and values: 2 * 28 layers * 8 heads * 128 * 2 bytes
    assert MODELS["0.6B"].kv_bytes == MODELS["1.7B"].kv_bytes == 114_688


def test_optimizer_state():
    # 16 bytes * 1,720,451,072 / 8 devices / 2^30
    assert costs.optimizer_gib(MODELS["1.7B"], 8) == pytest.approx(3.2046, abs=1e-3)


def test_logits():
    # 16,384 tokens * 151,936 * 10 bytes / 2^30
    assert costs.logits_gib(MODELS["0.6B"], 16384) == pytest.approx(23.184, abs=1e-3)


def test_every_row_fits_a_micro_batch():
    reading = CONFIG["reading"]
    assert (
        reading["window_tokens"] <= TOKENS and TOKENS >= CONFIG["distillation"]["micro_batch_tokens"] >= reading["window_tokens"]
    )


@pytest.mark.parametrize("name", ["0.6B", "1.7B"])
def test_training_fits_beside_a_judge(name):
    used = costs.training_gib(MODELS[name], DEVICES, TOKENS)
    assert used < 0.5 * A100.memory_gib  # 0.6B: 26 GiB, 1.7B: 30 GiB
    # the judge's server stays on the device; the rollout engine sleeps
    assert used + CONFIG["judge"]["gpu_memory"] * A100.memory_gib < 0.8 * A100.memory_gib


@pytest.mark.parametrize("name", ["0.6B", "1.7B"])
def test_rollouts_fit(name):
    rows = CONFIG["training"]["rollout_batch"] * CONFIG["training"]["group"] / DEVICES
    window = CONFIG["reading"]["window_tokens"]
    assert costs.cached_tokens(MODELS[name], A100, SHARE) >= rows * window  # all trajectories of a device at once
    # beside a judge some wait, but more than half go on
    assert costs.cached_tokens(MODELS[name], A100, SHARE - CONFIG["judge"]["gpu_memory"]) >= rows * window / 2


def test_the_judge_fits_its_share():
    share, window = CONFIG["judge"]["gpu_memory"], CONFIG["judge"]["window_tokens"]
    assert costs.cached_tokens(MODELS["Qwen3-8B"], A100, share) >= 2 * window
    # the judge sees what the policy sees, both memories, and its own instructions
    reading = CONFIG["reading"]
    assert window >= reading["query_tokens"] + reading["chunk_tokens"] + 2 * reading["memory_tokens"] + 512


def test_step_by_the_roofline():
    step = Step(rows=8, prompt_tokens=90, response_tokens=10, turns=4, teacher_tokens=20)
    model = MODELS["0.6B"]
    seconds = costs.step_seconds(model, step, A100, devices=2, mfu=0.5)
    rate, weights = 0.5 * 312e12 * 2, 595_984_384
    assert seconds["prefill"] == pytest.approx(2 * weights * 720 / rate)
    assert seconds["update"] == pytest.approx(8 * weights * 800 / rate)
    assert seconds["teacher"] == pytest.approx(2 * weights * 6 * 20 / rate)  # six of the eight rows are memories
    # 40 passes; one trajectory a device holds 95 tokens on average
    assert seconds["sampling"] == pytest.approx(40 * (2 * weights + 95 * 114_688) / 2.0e12)
    assert seconds["step"] == pytest.approx(sum(v for k, v in seconds.items() if k != "step"))


@pytest.mark.parametrize(("name", "published_hours"), [("0.6B", 33.79)])
def test_the_bound_is_below_what_the_paper_took(name, published_hours):
    """100 documents: 14,000 tokens, three chunks and the answer; memories of 500 tokens."""
    step = Step(rows=32 * 8 * 4, prompt_tokens=5000, response_tokens=500, turns=4, teacher_tokens=1500)
    bound = costs.step_seconds(MODELS[name], step, A100, DEVICES)["step"]
    assert 0.1 < bound * CONFIG["training"]["steps"] / 3600 / published_hours < 1


def test_gib():
    assert GIB == 1024**3


def test_plan_of_a_dry_run():
    """Two trainings on 8 GPUs for 48 hours, one of which is projected, and a fetched model."""
    text = """
rule train_rl:
    wildcards: model=0.6B, method=tamtrl, variant=main, seed=0
    resources: mem_mb=1024, runtime=2880, nodes=1, gpu=8, gpu_model=a100, place=--device gpu

rule train_rl:
    wildcards: model=toy, method=tamtrl, variant=main, seed=0
    resources: runtime=60, nodes=2, gres=gpu:a100:4

localrule fetch_model:
    wildcards: model=0.6B
    resources: tmpdir=/tmp
"""
    projected = pd.DataFrame([{"model": "0.6B", "method": "tamtrl", "variant": "main", "gpu_hours": 135.0}])
    table = plan.summary(list(plan.jobs(text)), projected)
    training = table.loc["train_rl"]
    assert training["jobs"] == 2 and training["GPU-hours at most"] == 8 * 48 + 2 * 4 and training["GPU-hours projected"] == 135
    # weights and two moments in float32 twice, and the model in bfloat16: 26 bytes a parameter; fetched: 2
    parameters = costs.MODELS["0.6B"].parameters
    assert training["disk GiB"] == pytest.approx(26 * parameters / 2**30)
    assert table.loc["fetch_model", "disk GiB"] == pytest.approx(2 * parameters / 2**30) and table.loc["total", "jobs"] == 3


def test_a_rollout_batch_of_the_paper():
    """14,000 tokens in 3 chunks, so 4 turns of 32 x 8 trajectories; prompts (14,000 + 3 x 712 + 712) / 4 tokens."""
    step = costs.rollout_batch(CONFIG["reading"], CONFIG["training"], 100)
    assert (step.rows, step.turns, step.prompt_tokens, step.response_tokens) == (1024, 4, 4212, 512)
    assert step.teacher_tokens == pytest.approx(280 / 3 + 1024 + 200)
    settings = (CONFIG["reading"], CONFIG["training"], 100, 8)
    without, teacher, judge = (costs.training_seconds("0.6B", needs, *settings) for needs in ((), ("teacher",), ("judge",)))
    forward = 2 * MODELS["0.6B"].parameters * 768 * step.teacher_tokens / (0.35 * 312e12 * 8)
    assert teacher - without == pytest.approx(forward)
    assert judge - without == pytest.approx(2 * MODELS["Qwen3-8B"].parameters * 768 * 4724 / (0.35 * 312e12 * 8))
