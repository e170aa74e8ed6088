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


def saved_bytes(model: Transformer) -> int:
    """What a layer keeps of one token for the backward pass in bfloat16: inputs of both norms (and their float32 copies), of
    queries, keys and values before and after their norms and rotations, of the attention's output, and four tensors of the
    feed-forward; float32 scalars of norms and of attention."""
    heads = model.heads * (10 * model.head_dim + 8) + model.kv_heads * (10 * model.head_dim + 4)
    return 16 * model.hidden + heads + 8 * model.feed_forward + 8


def activations_gib(model: Transformer, tokens: float, checkpointing: bool) -> float:
    """Of a packed micro-batch: what all layers keep; with gradient checkpointing each layer's input, and one layer's. And one
    layer's gathered weights."""
    gathered = (model.parameters - model.vocabulary * model.hidden) / model.layers * BF16
    kept = model.layers * model.hidden * BF16 + saved_bytes(model) if checkpointing else model.layers * saved_bytes(model)
    return (kept * tokens + gathered) / GIB


def logits_gib(model: Transformer, tokens: float) -> float:
    """The logits of ``tokens`` and their gradient in float32, and their bfloat16 original."""
    return tokens * model.vocabulary * (2 * FP32 + BF16) / GIB


MOST_RESPONSES = 0.5  # of a micro-batch's tokens, at most: answer turns alone have no section


def training_gib(
    model: Transformer, devices: int, tokens: int, checkpointing: bool = True, response_logits: bool = True
) -> float:
    """At its peak, rollouts asleep."""
    logits = logits_gib(model, tokens * MOST_RESPONSES if response_logits else tokens)
    return optimizer_gib(model, devices) + activations_gib(model, tokens, checkpointing) + logits


RESERVE = 0.15  # of a device: CUDA's own, fragmentation, what the sleeping engine keeps


def fits_without_checkpointing(name: str, training: dict, devices: int, beside: float = 0.0) -> tuple[bool, float]:
    """Whether gradient checkpointing should not be needed on an A100, and the GiB of its peak then. ``beside``: share of each
    device that a judge's server holds."""
    used = training_gib(MODELS[name], devices, training["micro_batch_tokens"], False, training["response_logits"])
    return used <= (1 - RESERVE - beside) * A100.memory_gib, used


def cached_tokens(model: Transformer, device: Device, share: float) -> int:
    """How many tokens' keys and values fit a rollout engine with ``share`` of the device; 3 GiB go to its activations and
    graphs."""
    free = share * device.memory_gib - model.parameters * BF16 / GIB - 3
    return max(0, int(free * GIB / model.kv_bytes))


@dataclass(frozen=True)
class Turn:
    """Mean numbers of tokens. ``section``: of the prompt, what all rollouts of a question have in common (instructions, question,
    section); 0 for answers. ``teacher``: the teacher's prompt and the response; 0 for answers, and without a teacher."""

    prompt: float
    response: float
    section: float = 0.0
    teacher: float = 0.0


@dataclass(frozen=True)
class Step:
    """A rollout batch."""

    questions: int
    group: int
    turns: tuple[Turn, ...]
    section_first: bool = False  # in prompts; otherwise the memory stands before it, the same for all only at the first turn

    @property
    def trajectories(self) -> int:
        return self.questions * self.group


@dataclass(frozen=True)
class Switches:
    """What a step does about waste; all off is stock verl."""

    response_logits: bool = True
    balanced: bool = True  # optimizer steps over ranks
    grouped: bool = True  # a question's rollouts on one engine
    checkpointing: bool = True


TODAY = Switches()
STOCK = Switches(response_logits=False, balanced=False, grouped=False)
IMBALANCE = 0.10  # of an update by verl's own dealing, 1,024 rows on 8 ranks in 4 steps: 8 to 10 % (tests/unit/test_balance.py)


def layers_flops(model: Transformer, tokens: float) -> float:
    """Forwards, of one row: 2 operations a weight and token, and of causal attention half of 2 x 2 a pair of tokens."""
    weights = model.parameters - model.vocabulary * model.hidden
    return 2 * weights * tokens + 2 * model.layers * model.heads * model.head_dim * tokens**2


def head_flops(model: Transformer, tokens: float) -> float:
    """Forwards: the logits of ``tokens``."""
    return 2 * model.vocabulary * model.hidden * tokens


def step_seconds(
    model: Transformer, step: Step, device: Device, devices: int, mfu: float = 0.40, switches: Switches = TODAY
) -> dict[str, float]:
    """A lower bound for each phase. Compute at ``mfu`` of the data sheet's rate (a guess); backwards takes twice what forwards
    takes, and gradient checkpointing goes through the layers forwards once more. Sampling: every token of a turn waits for one
    pass over weights and cache."""
    rate = mfu * device.flops * devices
    rows, alone = step.trajectories, 1 - 1 / devices
    engines = 1.0 if switches.grouped else devices * (1 - alone**step.group)  # that read one question's beginning
    seconds = dict.fromkeys(("prefill", "sampling", "log-probabilities", "teacher", "update"), 0.0)
    for number, turn in enumerate(step.turns):
        tokens = turn.prompt + turn.response
        head = head_flops(model, turn.response if switches.response_logits else tokens)
        layers = layers_flops(model, tokens)
        begun = layers_flops(model, turn.section if step.section_first or not number else 0.0)
        seconds["prefill"] += (rows * (layers_flops(model, turn.prompt) - begun) + step.questions * engines * begun) / rate
        cache = rows / devices * (turn.prompt + turn.response / 2) * model.kv_bytes
        seconds["sampling"] += turn.response * (model.parameters * BF16 + cache) / device.bandwidth
        seconds["log-probabilities"] += 2 * rows * (layers + head) / rate  # of the actor and of the reference
        if turn.teacher:
            logits = head_flops(model, turn.response if switches.response_logits else turn.teacher)
            seconds["teacher"] += rows * (layers_flops(model, turn.teacher) + logits) / rate
        again = layers if switches.checkpointing else 0.0
        seconds["update"] += rows * (3 * (layers + head) + again) * (1 if switches.balanced else 1 + IMBALANCE) / rate
    return seconds | {"step": sum(seconds.values())}


def mends(model: Transformer, step: Step, devices: int) -> dict[str, dict[str, float]]:
    """``step_seconds`` as stock verl goes about a step, and after one mend more each; the last two are switched off until asked
    for."""
    logits = replace(STOCK, response_logits=True)
    states = {
        "stock verl": (STOCK, False),
        "+ logits of responses only": (logits, False),
        "+ optimizer steps balanced over ranks": (replace(logits, balanced=True), False),
        "+ a question's rollouts on one engine": (TODAY, False),
        "+ without gradient checkpointing": (replace(TODAY, checkpointing=False), False),
        "+ the section before the memory": (replace(TODAY, checkpointing=False), True),
    }
    return {
        name: step_seconds(model, replace(step, section_first=first), A100, devices, switches=switches)
        for name, (switches, first) in states.items()
    }


PARAGRAPH_TOKENS = 140  # 100 paragraphs of HotpotQA are about 14.0k tokens
TEMPLATE_TOKENS = 200  # question, instructions and chat template of a prompt: a guess
SECTION_FIRST = "section_first"  # the prompt style in which the section stands before the memory


def rollout_batch(reading: dict, training: dict, paragraphs: int) -> Step:
    """A rollout batch of the configuration. Memories and answers are taken at half their budget, a document's two relevant
    paragraphs spread evenly over its chunks."""
    left, memory = PARAGRAPH_TOKENS * paragraphs, reading["memory_tokens"] / 2
    chunks = -(-left // reading["chunk_tokens"])
    teacher = 2 * PARAGRAPH_TOKENS / chunks + 2 * memory + TEMPLATE_TOKENS
    turns = []
    for number in range(chunks):
        chunk = min(left, reading["chunk_tokens"])
        left -= chunk
        before = memory if number else 0  # "No memory yet." is the same for all
        section = TEMPLATE_TOKENS + chunk
        turns.append(Turn(section + before, memory, section, teacher))
    turns.append(Turn(TEMPLATE_TOKENS + memory, memory))
    return Step(training["rollout_batch"], training["group"], tuple(turns), reading["prompts"] == SECTION_FIRST)


ASSUMPTIONS = (
    "By arithmetic (tamtrl/planning/costs.py) for A100 80 GB at 40 % of its peak rate, so a lower bound: sampling bound by "
    "memory bandwidth, memories and answers at half their budget, 140 tokens a paragraph, nothing waits for anything else; "
    "logits and gradient checkpointing as configured, ranks in balance, a question's rollouts on one engine. "
    "Training only: starting up, validation, trajectories and the PRM's own training are left out; the judge reads each "
    "memory turn once. No GPU has run this repository."
)


def switches(training: dict) -> Switches:
    return Switches(response_logits=training["response_logits"], checkpointing=training["gradient_checkpointing"])


def training_seconds(name: str, needs: tuple[str, ...], reading: dict, training: dict, paragraphs: int, devices: int) -> float:
    """Of one step of a run of the model called ``name`` whose credit method needs ``needs``."""
    step = rollout_batch(reading, training, paragraphs)
    taught = step if "teacher" in needs else replace(step, turns=tuple(replace(turn, teacher=0.0) for turn in step.turns))
    seconds = step_seconds(MODELS[name], taught, A100, devices, switches=switches(training))["step"]
    if "judge" in needs:
        judge = MODELS["Qwen3-8B"]
        for turn in step.turns[:-1]:
            # Question and section stand first in its prompt, and are read once for all rollouts.
            whole, begun = layers_flops(judge, turn.prompt + turn.response), layers_flops(judge, turn.section)
            seconds += (step.trajectories * (whole - begun) + step.questions * begun) / (0.40 * A100.flops * devices)
    return seconds


def disk_gib(name: str, checkpoints: int) -> float:
    """Of a run: checkpoints (float32 weights and Adam's two moments) while it trains, then its bfloat16 model."""
    return MODELS[name].parameters * (3 * FP32 * checkpoints + BF16) / GIB
