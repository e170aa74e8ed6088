"""Does the paper's configuration fit its hardware? By arithmetic; expected values computed by hand in the comments."""

import pandas as pd
import pytest
import yaml
from conftest import REPOSITORY

from tamtrl.planning import costs, plan
from tamtrl.planning.costs import A100, GIB, MODELS
from tamtrl.reading.prompts import STYLES

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
    assert used < 0.3 * A100.memory_gib  # 0.6B: 15 GiB, 1.7B: 19 GiB
    # the judge's server stays on the device; the rollout engine sleeps
    assert used + CONFIG["judge"]["gpu_memory"] * A100.memory_gib < 0.8 * A100.memory_gib


def test_what_a_layer_keeps():
    """A layer more of a real Qwen3 keeps as many bytes a token as the formula says; saved_tensors_hooks sees each of them."""
    shape = costs.Transformer(hidden=64, layers=1, heads=4, kv_heads=2, head_dim=32, feed_forward=256, vocabulary=50)
    # 16 * 64 + 4 * (320 + 8) + 2 * (320 + 4) + 8 * 256 + 8
    assert costs.saved_bytes(shape) == 5040
    tokens = 40
    assert (_kept(shape, 2, tokens) - _kept(shape, 1, tokens)) / tokens == 5040
    # 16,384 tokens of 28 layers: what was measured of a layer of the real size, in GiB
    sizes = [28 * 16384 * costs.saved_bytes(MODELS[name]) / GIB for name in ("0.6B", "1.7B")]
    assert sizes == pytest.approx([30.70, 48.20], abs=0.01)


def _kept(shape: costs.Transformer, layers: int, tokens: int) -> int:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        hidden_size=shape.hidden, num_hidden_layers=layers, num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim, intermediate_size=shape.feed_forward, vocab_size=shape.vocabulary, tie_word_embeddings=True,
        attn_implementation="sdpa",
    )  # fmt: skip
    model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in weights:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(input_ids=torch.zeros(1, tokens, dtype=torch.long), use_cache=False)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def test_memory_without_checkpointing_by_hand():
    """0.6B on 8 devices: optimizer 16 * 595,984,384 / 8 bytes = 1.11 GiB; layers 30.70; gathered 2 * 440,401,920 / 28 bytes;
    logits of half of 16,384 tokens, 23.184 / 2."""
    used = costs.training_gib(MODELS["0.6B"], 8, 16384, checkpointing=False)
    assert used == pytest.approx(1.11 + 30.70 + 0.03 + 11.592, abs=0.01)
    training = CONFIG["training"]
    assert costs.fits_without_checkpointing("0.6B", training, 8) == (True, pytest.approx(43.43, abs=0.01))
    assert costs.fits_without_checkpointing("1.7B", training, 8) == (True, pytest.approx(63.09, abs=0.01))  # of 68
    assert not costs.fits_without_checkpointing("1.7B", training, 8, beside=0.3)[0]  # a judge's server
    assert not costs.fits_without_checkpointing("1.7B", training | {"response_logits": False}, 8)[0]


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


TINY = costs.Transformer(hidden=4, layers=2, heads=2, kv_heads=1, head_dim=3, feed_forward=5, vocabulary=10)


def test_operations_by_hand():
    """Weights of a layer: 4 * 3 * (4 + 2) + 3 * 4 * 5 = 132. Of 7 tokens: 2 * 264 * 7, and attention 2 * 2 layers * 6 * 49."""
    assert costs.layers_flops(TINY, 7) == 2 * 264 * 7 + 2 * 2 * 6 * 49
    assert costs.head_flops(TINY, 3) == 2 * 10 * 4 * 3


def test_attention_at_the_papers_lengths():
    """2 * 28 * 2048 * 5500^2 operations: a third of a forward pass of 0.6B over a row of 5,500 tokens."""
    whole = costs.layers_flops(MODELS["0.6B"], 5500)
    assert 2 * 28 * 2048 * 5500**2 / whole == pytest.approx(0.417, abs=0.001)
    assert 2 * 28 * 2048 * 5500**2 / (whole + costs.head_flops(MODELS["0.6B"], 5500)) == pytest.approx(0.346, abs=0.001)


def test_step_by_the_roofline():
    """4 questions x 2 rollouts; one memory turn of 90 + 10 tokens, of which 60 are common, and an answer turn of 20 + 5."""
    step = costs.Step(4, 2, (costs.Turn(90, 10, 60, 20), costs.Turn(20, 5)))
    seconds = costs.step_seconds(TINY, step, A100, devices=2, mfu=0.5)
    rate = 0.5 * 312e12 * 2

    def layers(tokens: int) -> int:
        return 528 * tokens + 24 * tokens**2

    prefill = 8 * (layers(90) - layers(60) + layers(20)) + 4 * layers(60)
    assert seconds["prefill"] == pytest.approx(prefill / rate)
    forward = 8 * (layers(100) + 80 * 10 + layers(25) + 80 * 5)
    assert seconds["log-probabilities"] == pytest.approx(2 * forward / rate)
    assert seconds["teacher"] == pytest.approx(8 * (layers(20) + 80 * 10) / rate)
    assert seconds["update"] == pytest.approx((3 * forward + 8 * (layers(100) + layers(25))) / rate)
    # passes over 304 weights of 2 bytes and the cache: 4 trajectories a device, 95 and 22.5 tokens of 2 * 2 * 3 * 2 bytes
    sampling = 10 * (608 + 4 * 95 * 24) + 5 * (608 + 4 * 22.5 * 24)
    assert seconds["sampling"] == pytest.approx(sampling / 2.0e12)
    assert seconds["step"] == pytest.approx(sum(v for k, v in seconds.items() if k != "step"))

    stock = costs.step_seconds(TINY, step, A100, devices=2, mfu=0.5, switches=costs.STOCK)
    all_logits = 8 * (layers(100) + 80 * 100 + layers(25) + 80 * 25)
    assert stock["log-probabilities"] == pytest.approx(2 * all_logits / rate)
    assert stock["update"] == pytest.approx(1.1 * (3 * all_logits + 8 * (layers(100) + layers(25))) / rate)
    # two rollouts meet on one of two engines half of the time: 1.5 engines read a question's beginning
    assert stock["prefill"] == pytest.approx((prefill + 4 * 0.5 * layers(60)) / rate)
    without = costs.step_seconds(TINY, step, A100, devices=2, mfu=0.5, switches=costs.Switches(checkpointing=False))
    assert without["update"] == pytest.approx(3 * forward / rate)


@pytest.mark.parametrize(("name", "published_hours"), [("0.6B", 33.79)])
def test_the_bound_is_below_what_the_paper_took(name, published_hours):
    bound = costs.training_seconds(name, ("teacher",), CONFIG["reading"], CONFIG["training"], 100, DEVICES)
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
    """14,000 tokens in chunks of 5,000, 5,000 and 4,000, and the answer; memories of 512 tokens, before the first turn none."""
    step = costs.rollout_batch(CONFIG["reading"], CONFIG["training"], 100)
    teacher = pytest.approx(280 / 3 + 1024 + 200)
    assert (step.questions, step.group, step.section_first) == (32, 8, False)
    prompts = [(turn.prompt, turn.response, turn.section) for turn in step.turns]
    assert prompts == [(5200, 512, 5200), (5712, 512, 5200), (4712, 512, 4200), (712, 512, 0)]
    assert [turn.teacher for turn in step.turns] == [teacher] * 3 + [0]
    settings = (CONFIG["reading"], CONFIG["training"], 100, 8)
    without, teacher_too, judge = (costs.training_seconds("0.6B", needs, *settings) for needs in ((), ("teacher",), ("judge",)))
    model, rate = MODELS["0.6B"], 0.40 * 312e12 * 8
    read = 768 * (costs.layers_flops(model, step.turns[0].teacher) + costs.head_flops(model, 512))
    assert teacher_too - without == pytest.approx(read / rate)
    # the judge reads each section once a question, and the memories of each rollout
    grading = sum(
        256 * (costs.layers_flops(MODELS["Qwen3-8B"], prompt + 512) - costs.layers_flops(MODELS["Qwen3-8B"], section))
        + 32 * costs.layers_flops(MODELS["Qwen3-8B"], section)
        for prompt, _, section in prompts[:3]
    )
    assert judge - without == pytest.approx(grading / rate)


def test_the_section_first():
    """The beginning of every turn is read once a question; the rest of the step stays as it is."""
    assert costs.SECTION_FIRST in STYLES
    both = []
    for prompts in ("full", costs.SECTION_FIRST):
        step = costs.rollout_batch(CONFIG["reading"] | {"prompts": prompts}, CONFIG["training"], 100)
        both.append(costs.step_seconds(MODELS["0.6B"], step, A100, 8))
    assert both[1]["prefill"] < 0.4 * both[0]["prefill"]
    assert {k: v for k, v in both[0].items() if k not in ("prefill", "step")} == {
        k: v for k, v in both[1].items() if k not in ("prefill", "step")
    }
