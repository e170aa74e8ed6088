"""Evaluation: predictions, their scores, and one of them to read."""

from argparse import Namespace
from pathlib import Path

from tamtrl.answers.scoring import F1_RULES
from tamtrl.commands.declare import RESOURCES, argument, needed, say, verb


@verb(
    "predict",
    "Read every document of some benchmarks and store memories and answers.",
    argument("run", Path, "the evaluation's complete configuration"),
    needed("--model"),
    needed("--data", Path, "NAME.parquet; --output gets NAME.jsonl.gz", nargs="+"),
    needed("--scratch", Path, "finished documents, kept between attempts"),
    *RESOURCES,
)
def predict(args: Namespace) -> None:
    from tamtrl.evaluation.predict import predict as run
    from tamtrl.settings import EvaluationRun

    run(EvaluationRun.load(args.run), args.resources, args.model, args.data, args.output, args.scratch, say)


@verb(
    "score",
    "Score stored predictions.",
    argument("predictions", Path),
    needed("--benchmark"),
    argument("--f1-rule", help="which official scorer's F1", choices=F1_RULES, default="hotpotqa"),
    needed("--documents", Path, "file for the score of each document"),
    argument("--seed", int, "of the bootstrap", default=0),
)
def score(args: Namespace) -> None:
    from tamtrl.evaluation.score import score as run

    run(args.predictions, args.benchmark, args.f1_rule, args.output, args.documents, args.seed)


@verb(
    "show",
    "Print one document's turns, memories and answer.",
    argument("predictions", Path),
    argument("--document", int, "its number in the benchmark", default=0),
    argument("--sample", int, default=0),
    writes=False,
)
def show(args: Namespace) -> None:
    from tamtrl.evaluation.show import show as run

    print(run(args.predictions, args.document, args.sample))
