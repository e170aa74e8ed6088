"""Training: with reinforcement learning, on trajectories, and of what scores turns."""

from argparse import Namespace
from pathlib import Path

from tamtrl.commands.declare import RESOURCES, SCRATCH, TIME, argument, needed, say, verb

RUN = argument("run", Path, "the run's complete configuration")
PROCESS_REWARD_MODEL = argument("run", Path, "the process reward model's complete configuration")
SHARDS = argument("shards", Path, nargs="+")


@verb("train", "Train one run with reinforcement learning; started again, it continues.", RUN, SCRATCH, *RESOURCES)
def train(args: Namespace) -> None:
    from tamtrl.training.train import train as run

    run(args.run, args.resources, args.output, args.scratch, say)


@verb(
    "generate",
    "Sample trajectories over training questions, one shard of them.",
    argument("run", Path, "the generation's complete configuration"),
    needed("--model"),
    needed("--data", Path),
    argument("--shard", int, "which of --shards", default=0),
    argument("--shards", int, default=1),
    *RESOURCES,
    TIME,
)
def generate(args: Namespace) -> None:
    from tamtrl.distillation.trajectories import generate as run
    from tamtrl.settings import GenerationRun

    shard = (args.shard, args.shards)
    run(GenerationRun.load(args.run), args.resources, args.model, args.data, shard, args.output, say)


@verb(
    "keep-correct",
    "Keep the trajectories that the verifier accepts.",
    SHARDS,
    needed("--name", help="what the model that made them is called"),
    needed("--model", help="its folder, for the tokenizer"),
    needed("--data", Path),
    needed("--report", Path, "JSON: what became of all trajectories and questions"),
)
def keep_correct(args: Namespace) -> None:
    from tamtrl.distillation.trajectories import keep_correct as run

    run(args.name, args.model, args.data, args.shards, args.output, args.report, say)


@verb(
    "teacher-probabilities",
    "Compute a teacher's likeliest tokens on trajectories.",
    argument("run", Path, "the distillation run's complete configuration"),
    *RESOURCES,
)
def teacher_probabilities(args: Namespace) -> None:
    from tamtrl.distillation.teacher import precompute
    from tamtrl.settings import DistillationRun

    precompute(DistillationRun.load(args.run), args.resources, args.output, say)


@verb("distil", "Train one run on trajectories; started again, it continues.", RUN, SCRATCH, *RESOURCES)
def distil(args: Namespace) -> None:
    from tamtrl.distillation.distil import distil as run

    run(args.run, args.resources, args.output, args.scratch, say)


@verb(
    "prm-label",
    "Label memory turns with the outcome of their trajectory, for a process reward model.",
    PROCESS_REWARD_MODEL,
    SHARDS,
    needed("--base", help="folder of the BERT that will be trained"),
    needed("--policy", help="folder of the model that sampled the trajectories"),
    needed("--data", Path),
    needed("--report", Path, "JSON: how many turns of each kind"),
    TIME,
)
def prm_label(args: Namespace) -> None:
    from tamtrl.settings import ProcessRewardModel
    from tamtrl.turn_scores.prm_data import label

    run = ProcessRewardModel.load(args.run)
    label(run, args.base, args.policy, args.data, args.shards, args.output, args.report, say)


@verb(
    "prm-train",
    "Train a process reward model; started again, it continues.",
    PROCESS_REWARD_MODEL,
    needed("--turns", Path, "what prm-label wrote"),
    needed("--labels", Path, "and its report"),
    needed("--base", help="folder of the BERT to train"),
    needed("--scratch", Path, "checkpoints, kept between attempts"),
    *RESOURCES,
    TIME,
)
def prm_train(args: Namespace) -> None:
    from tamtrl.settings import ProcessRewardModel
    from tamtrl.turn_scores.prm_train import train as run

    settings = ProcessRewardModel.load(args.run)
    run(settings, args.resources, args.base, args.turns, args.labels, args.output, args.scratch, say)
