"""What a training run should need on GPUs, by arithmetic: memory, and seconds of a step by a roofline. Projections, never
measurements: no GPU has run this code yet.

Every function is a formula; the constants are the makers' data sheets and stated guesses.
"""

from dataclasses import dataclass, replace

GIB = 2**30
BF16, FP32 = 2, 4  # bytes


@dataclass(frozen=True)
class Transformer:
    """A Qwen3 as its config.json states it; input and output embeddings are one matrix."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    vocabulary: int

    @property
    def parameters(self) -> int:
        """Weights of projections, feed-forward and embeddings; norms (a hundred thousand or so) are left out."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.feed_forward) + self.vocabulary * self.hidden

    @property
    def kv_bytes(self) -> int:
        """Of one token in bfloat16."""
        return 2 * self.layers * self.kv_heads * self.head_dim * BF16


MODELS = {
    "0.6B": Transformer(1024, 28, 16, 8, 128, 3072, 151936),
    "1.7B": Transformer(2048, 28, 16, 8, 128, 6144, 151936),
    "Qwen3-8B": Transformer(4096, 36, 32, 8, 128, 12288, 151936),
}


@dataclass(frozen=True)
class Device:
    memory_gib: float
    flops: float  # dense bfloat16, per second
    bandwidth: float  # bytes per second


A100 = Device(80, 312e12, 2.0e12)  # A100 80 GB SXM, NVIDIA's data sheet


def optimizer_gib(model: Transformer, devices: int) -> float:
    """Sharded over the devices: master weights, gradients and Adam's two moments in float32."""
    return 4 * FP32 * model.parameters / devices / GIB


def activations_gib(model: Transformer, tokens: int) -> float:
    """Of a packed micro-batch with gradient checkpointing: each layer's input, one layer recomputed (queries, keys,
    values, attention output, gate, up and product, each with its gradient), one layer's gathered weights."""
    inputs = model.layers * model.hidden
    width = model.head_dim * (2 * model.heads + 2 * model.kv_heads) + 3 * model.feed_forward + 4 * model.hidden
    gathered = (model.parameters - model.vocabulary * model.hidden) / model.layers * BF16
    return ((inputs + 2 * width) * BF16 * tokens + gathered) / GIB


def logits_gib(model: Transformer, tokens: int) -> float:
    """The logits of a micro-batch and their gradient in float32, and their bfloat16 original."""
    return tokens * model.vocabulary * (2 * FP32 + BF16) / GIB


def training_gib(model: Transformer, devices: int, tokens: int) -> float:
    """At its peak, rollouts asleep."""
    return optimizer_gib(model, devices) + activations_gib(model, tokens) + logits_gib(model, tokens)


def cached_tokens(model: Transformer, device: Device, share: float) -> int:
    """How many tokens' keys and values fit a rollout engine with ``share`` of the device; 3 GiB go to its activations and
    graphs."""
    free = share * device.memory_gib - model.parameters * BF16 / GIB - 3
    return max(0, int(free * GIB / model.kv_bytes))


@dataclass(frozen=True)
class Step:
    """The tokens of a rollout batch."""

    rows: int
    prompt_tokens: float  # mean of a row
    response_tokens: float
    turns: float  # of a trajectory, the answer included
    teacher_tokens: float = 0.0  # mean of a memory row's teacher prompt and response; 0 without a teacher


def step_seconds(model: Transformer, step: Step, device: Device, devices: int, mfu: float = 0.35) -> dict[str, float]:
    """A lower bound for each phase. Compute: 2 floating-point operations a parameter and token forwards, 4 backwards, 2
    recomputed, at ``mfu`` of the data sheet's rate (a guess). Sampling: every token of a turn waits for one pass over
    weights and cache."""
    rate = mfu * device.flops * devices
    tokens = step.rows * (step.prompt_tokens + step.response_tokens)
    forward = 2 * model.parameters * tokens / rate
    in_flight = step.rows / step.turns / devices  # trajectories of a device
    cache = in_flight * (step.prompt_tokens + step.response_tokens / 2) * model.kv_bytes
    passes = step.turns * step.response_tokens
    memory_rows = step.rows * (step.turns - 1) / step.turns
    seconds = {
        "prefill": 2 * model.parameters * step.rows * step.prompt_tokens / rate,
        "sampling": passes * (model.parameters * BF16 + cache) / device.bandwidth,
        "log-probabilities": 2 * forward,  # of the actor and of the reference
        "teacher": 2 * model.parameters * memory_rows * step.teacher_tokens / rate,
        "update": 4 * forward,
    }
    return seconds | {"step": sum(seconds.values())}


PARAGRAPH_TOKENS = 140  # 100 paragraphs of HotpotQA are about 14.0k tokens
TEMPLATE_TOKENS = 200  # question, instructions and chat template of a prompt: a guess


def rollout_batch(reading: dict, training: dict, paragraphs: int) -> Step:
    """A rollout batch of the configuration. Memories and answers are taken at half their budget, a document's two relevant
    paragraphs spread evenly over its chunks."""
    tokens, memory = PARAGRAPH_TOKENS * paragraphs, reading["memory_tokens"] / 2
    chunks = -(-tokens // reading["chunk_tokens"])
    turns = chunks + 1
    return Step(
        rows=training["rollout_batch"] * training["group"] * turns,
        prompt_tokens=(tokens + chunks * (memory + TEMPLATE_TOKENS) + memory + TEMPLATE_TOKENS) / turns,
        response_tokens=memory,
        turns=turns,
        teacher_tokens=2 * PARAGRAPH_TOKENS / chunks + 2 * memory + TEMPLATE_TOKENS,
    )


ASSUMPTIONS = (
    "By arithmetic (tamtrl/planning/costs.py) for A100 80 GB at 35 % of its peak rate, so a lower bound: sampling bound by "
    "memory bandwidth, memories and answers at half their budget, 140 tokens a paragraph, nothing waits for anything else. "
    "Training only: starting up, validation, trajectories and the PRM's own training are left out; the judge reads each "
    "memory turn once. No GPU has run this repository."
)


def training_seconds(name: str, needs: tuple[str, ...], reading: dict, training: dict, paragraphs: int, devices: int) -> float:
    """Of one step of a run of the model called ``name`` whose credit method needs ``needs``."""
    step = rollout_batch(reading, training, paragraphs)
    seconds = step_seconds(MODELS[name], step if "teacher" in needs else replace(step, teacher_tokens=0.0), A100, devices)["step"]
    if "judge" in needs:
        read = step.rows * (step.turns - 1) / step.turns * (step.prompt_tokens + step.response_tokens)
        seconds += 2 * MODELS["Qwen3-8B"].parameters * read / (0.35 * A100.flops * devices)
    return seconds


def disk_gib(name: str, checkpoints: int) -> float:
    """Of a run: checkpoints (float32 weights and Adam's two moments) while it trains, then its bfloat16 model."""
    return MODELS[name].parameters * (3 * FP32 * checkpoints + BF16) / GIB
