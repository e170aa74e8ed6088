"""The complete, resolved configuration of a run (run.yaml) and of its evaluation (evaluation.yaml)."""

from dataclasses import dataclass
from typing import Any

from tamtrl.credit.settings import CreditSettings
from tamtrl.errors import UserError
from tamtrl.reading.budgets import Budgets
from tamtrl.reading.prompts import STYLES
from tamtrl.stored import Stored

# Settings of how a run is carried out, wherever they stand; what comes out doesn't depend on them.
OPERATIONAL = frozenset(
    {
        "attention_by_row", "checkpoints_kept", "failures_allowed", "gpu_memory", "gradient_checkpointing", "in_flight",
        "micro_batch_tokens", "response_logits", "rollout_workers", "save_every", "shards", "snapshots", "stall_minutes",
        "timeout_seconds",
    }
)  # fmt: skip


def substance(settings: Any) -> Any:
    """Settings without the operational ones, at every depth."""
    if isinstance(settings, dict):
        return {key: substance(value) for key, value in settings.items() if key not in OPERATIONAL}
    return settings


@dataclass(frozen=True)
class Reading(Budgets):
    prompts: str = "full"

    def __post_init__(self) -> None:
        if self.prompts not in STYLES:
            raise UserError(f"reading.prompts is {self.prompts!r}; it must be one of {', '.join(STYLES)}.")
        numbers = {k: v for k, v in vars(self).items() if k != "prompts"}
        Budgets(**numbers)


@dataclass(frozen=True)
class Training:
    """RL hyper-parameters; PAPER-level meaning of each in config/README.md."""

    rollout_batch: int  # questions in a rollout batch
    group: int  # rollouts of each question
    steps: int  # rollout batches
    optimizer_steps: int  # per rollout batch, whatever the number of rows
    lr: float
    warmup_steps: int
    betas: list[float]
    weight_decay: float
    grad_clip: float
    kl_coef: float
    clip_low: float
    clip_high: float
    dual_clip: float
    temperature: float
    top_p: float
    save_every: int  # steps between checkpoints
    validate_every: int  # steps between validations
    validation_samples: int  # rollouts of each validation question
    validation_temperature: float
    validation_top_p: float
    checkpoints_kept: int
    snapshots: list[int]  # steps whose models stay beside the last
    micro_batch_tokens: int  # most tokens a device trains on at once
    dtype: str  # what layers compute in; master weights are float32
    response_logits: bool  # of responses only; off, of every token, as stock verl
    attention_by_row: bool  # on CPUs; flash-attention does so anyway
    gradient_checkpointing: bool  # layers are computed twice, to spare memory
    rollout_workers: int  # processes that drive rollouts
    stall_minutes: float  # without a finished step for so long, the run is stopped


@dataclass(frozen=True)
class Evaluation:
    samples: int
    temperature: float
    top_p: float
    dtype: str
    in_flight: int  # documents read at once


@dataclass(frozen=True)
class ClosedBook:
    """How the closed-book filter asks each model."""

    candidates: int  # questions asked, in the order in which data sets choose them
    samples: int
    temperature: float
    top_p: float
    tokens: int  # most tokens of a response
    dtype: str


@dataclass(frozen=True)
class Distillation:
    """Trajectories and training of SFT, STaR and Vanilla-KD."""

    teacher: str  # name in config/models.yaml, or self: the backbone, then what it became
    rounds: int  # of sampling and training; each starts from the backbone
    samples: int  # trajectories of each question
    shards: int  # jobs that sample them
    thinking: bool  # the teacher thinks before each answer; its thoughts are not learned
    thinking_tokens: int
    temperature: float
    top_p: float
    in_flight: int  # questions read at once
    batch: int  # samples (turns) a step
    epochs: int
    lr: float
    warmup_steps: int
    betas: list[float]
    weight_decay: float
    grad_clip: float
    kl_temperature: float
    kl_top_k: int  # 0: the whole vocabulary
    precompute: bool  # the teacher's kl_top_k likeliest tokens are computed before, not in the training job
    micro_batch_tokens: int
    dtype: str
    response_logits: bool
    attention_by_row: bool
    gradient_checkpointing: bool
    save_every: int  # steps between checkpoints; 0: after each epoch
    stall_minutes: float

    def __post_init__(self) -> None:
        if self.precompute and not self.kl_top_k:
            raise UserError("distillation.precompute needs distillation.kl_top_k: whole vocabularies are too much for a disk.")


@dataclass(frozen=True)
class Scorer:
    """Who scores memory turns from outside the policy, for credit methods that need it."""

    kind: str  # judge or prm
    model: str  # what its server calls it
    path: str  # folder of the model; empty with an endpoint
    endpoint: str  # base URL of an OpenAI-compatible server; empty: the job starts one itself
    window_tokens: int
    answer_tokens: int  # of a judge
    dtype: str
    request: dict  # more fields of a judge's requests
    in_flight: int  # requests at once, of each rollout worker
    timeout_seconds: float
    failures_allowed: float  # share of a step's turns that may stay without a score
    gpu_memory: float  # share of each device, of the job's own server

    def __post_init__(self) -> None:
        if self.kind not in ("judge", "prm"):
            raise UserError(f"The scorer is a {self.kind!r}; it must be a judge or a prm.")
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise UserError(f"judge.endpoint is {self.endpoint!r}; it must begin with http:// or https://.")
        if "@" in self.endpoint:
            raise UserError("judge.endpoint holds a password; give the key in the environment variable TAMTRL_JUDGE_KEY instead.")

    def ranks(self, resources: "Resources") -> int:
        """Engines of the job's own server."""
        return resources.devices if self.kind == "judge" and resources.device == "gpu" and not self.endpoint else 1


@dataclass(frozen=True)
class ProcessRewardModel(Stored):
    """prm.yaml: everything `tamtrl prm-label` and `tamtrl prm-train` need."""

    seed: int
    reading: Reading
    window_tokens: int
    held_out: float  # share of the questions
    batch: int  # turns a step
    epochs: int
    lr: float
    weight_decay: float
    save_every: int  # steps between checkpoints

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1:
            raise UserError(f"prm.held_out is {self.held_out}; it must be a share of the questions between 0 and 1.")


@dataclass(frozen=True)
class Resources:
    """Where a run happens. Not part of a run's identity: more cores don't make another result."""

    device: str  # cpu or gpu
    devices: int  # GPUs on a node, or data-parallel ranks on a CPU
    nodes: int
    cores: int
    memory_gib: float

    def __post_init__(self) -> None:
        if self.device not in ("cpu", "gpu"):
            raise UserError(f"The device is {self.device!r}; it must be cpu or gpu.")


@dataclass(frozen=True)
class Run(Stored):
    """run.yaml: everything `tamtrl train` needs. Paths are relative to the folder it is started in."""

    model: str  # name in config/models.yaml
    method: str
    variant: str
    seed: int
    model_path: str
    train_data: str
    validation_data: str
    reading: Reading
    credit: CreditSettings
    training: Training
    scorer: Scorer | None = None  # where the credit method needs a judge or a process reward model


LOSSES = ("sft", "kd")


@dataclass(frozen=True)
class DistillationRun(Stored):
    """run.yaml of a distillation run: everything `tamtrl distil` needs."""

    model: str
    method: str
    variant: str
    seed: int
    model_path: str
    train_data: str
    loss: str  # sft: the sampled tokens; kd: the teacher's distributions
    trajectories: str
    teacher_path: str
    teacher_probabilities: str  # read with distillation.precompute
    reading: Reading
    distillation: Distillation

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise UserError(f"The loss is {self.loss!r}; it must be one of {', '.join(LOSSES)}.")


@dataclass(frozen=True)
class GenerationRun(Stored):
    """Everything `tamtrl generate` needs."""

    seed: int
    reading: Reading
    samples: int
    temperature: float
    top_p: float
    thinking: bool
    thinking_tokens: int
    dtype: str
    in_flight: int


@dataclass(frozen=True)
class EvaluationRun(Stored):
    """evaluation.yaml: everything `tamtrl predict` needs. Apart from run.yaml, so that a changed evaluation retrains
    nothing."""

    seed: int
    reading: Reading
    evaluation: Evaluation
