"""Evaluation: predictions, their scores, and one of them to read."""

from argparse import Namespace
from pathlib import Path

from tamtrl.answers.scoring import F1_RULES
from tamtrl.commands.declare import RESOURCES, argument, needed, say, verb
from tamtrl.errors import UserError


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
    "Score stored predictions: means with intervals, and every document.",
    argument("predictions", Path, "NAME.jsonl.gz; --output gets NAME.csv and NAME.documents.csv", nargs="+"),
    argument("--f1-rules", help="which official scorer's F1, one for each file", choices=F1_RULES, nargs="+", default=[]),
    argument("--seed", int, "of the bootstrap", default=0),
)
def score(args: Namespace) -> None:
    from tamtrl.evaluation.score import score as run

    rules = args.f1_rules or ["hotpotqa"] * len(args.predictions)
    if len(rules) != len(args.predictions):
        raise UserError(f"{len(rules)} --f1-rules for {len(args.predictions)} files of predictions; give one for each.")
    for path, rule in zip(args.predictions, rules, strict=True):
        run(path, path.name.removesuffix(".jsonl.gz"), rule, args.output, args.seed)


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
