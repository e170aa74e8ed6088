"""``tamtrl <verb>``: everything a workflow rule calls, usable by hand. Each verb writes its output whole or not at all."""

import argparse
import sys
import time
from pathlib import Path

from tamtrl.errors import UserError
from tamtrl.scoring import F1_RULES


def say(message: str) -> None:
    """Progress goes to standard error, with the time, so that it survives in logs."""
    print(f"{time.strftime('%H:%M:%S')} {message}", file=sys.stderr, flush=True)


def prepare_toy(args: argparse.Namespace) -> None:
    from tamtrl.tasks import toy
    from tamtrl.tasks.example import write_examples

    count = write_examples(args.output, toy.generate(args.split, args.count, args.documents, args.seed, args.stream))
    say(f"{count} examples in {args.output}")


def prepare_hotpotqa(args: argparse.Namespace) -> None:
    from tamtrl.tasks import hotpotqa, synthesis
    from tamtrl.tasks.example import write_examples

    questions = hotpotqa.load(args.source)
    examples = synthesis.build(questions, args.documents, args.count, args.skip, args.seed, args.benchmark)
    count = write_examples(args.output, examples)
    say(f"{count} examples of {args.documents} documents in {args.output}")


def prepare_longbench(args: argparse.Namespace) -> None:
    from tamtrl.tasks import longbench
    from tamtrl.tasks.example import write_examples

    count = write_examples(args.output, longbench.load(args.source, args.config, args.benchmark))
    say(f"{count} examples in {args.output}")


def token_counter(folder: str):
    """How many tokens a model's own tokenizer makes of a text."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    return lambda text: len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def prepare_niah(args: argparse.Namespace) -> None:
    from tamtrl.tasks import ruler
    from tamtrl.tasks.example import write_examples

    essay = args.essay.read_text() if args.essay else None
    count = token_counter(args.tokenizer)
    examples = ruler.niah(args.multikey, args.count, args.tokens, count, args.seed, args.benchmark, essay)
    say(f"{write_examples(args.output, examples)} examples of at most {args.tokens} tokens in {args.output}")


def prepare_ruler_qa(args: argparse.Namespace) -> None:
    from tamtrl.tasks import hotpotqa, ruler
    from tamtrl.tasks.example import write_examples

    questions, count = hotpotqa.load(args.source), token_counter(args.tokenizer)
    examples = ruler.qa(questions, args.count, args.tokens, count, args.seed, args.benchmark)
    say(f"{write_examples(args.output, examples)} examples of at most {args.tokens} tokens in {args.output}")


def fetch(args: argparse.Namespace) -> None:
    from tamtrl.tasks.sources import fetch_hub

    fetch_hub(args.repository, args.revision, args.files, args.output, args.kind)


def backbone(args: argparse.Namespace) -> None:
    from tamtrl.training.backbone import make

    make(args.recipe, args.output, args.texts, say)


def train(args: argparse.Namespace) -> None:
    from tamtrl.training.train import train as run

    run(args.run, resources(args), args.output, args.scratch, say)


def predict(args: argparse.Namespace) -> None:
    from tamtrl.evaluation.predict import predict as run
    from tamtrl.settings import EvaluationRun

    run(EvaluationRun.load(args.run), resources(args), args.model, args.data, args.output, say)


def score(args: argparse.Namespace) -> None:
    from tamtrl.evaluation.score import score as run

    run(args.predictions, args.benchmark, args.f1_rule, args.output, args.documents, args.seed)


def show(args: argparse.Namespace) -> None:
    from tamtrl.evaluation.show import show as run

    print(run(args.predictions, args.document, args.sample))


def table(args: argparse.Namespace) -> None:
    from tamtrl.paper.tables import write

    write(args.table, args.paper, args.runs, args.benchmarks, args.average_over, args.note, args.output)


def figure(args: argparse.Namespace) -> None:
    from tamtrl.paper.figures import dynamics

    dynamics(args.runs, args.title, args.output)


def resources(args: argparse.Namespace):
    """What was asked for, or all that this machine has."""
    from tamtrl.machine import cores, gpus
    from tamtrl.settings import Resources

    device = args.device or ("gpu" if gpus() else "cpu")
    devices = args.devices or (gpus() if device == "gpu" else 1)
    return Resources(device, devices, args.nodes, args.cores or cores(), args.memory_gib)


def add_resources(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--device", choices=("cpu", "gpu"), help="default: gpu where there is one")
    sub.add_argument("--devices", type=int, help="GPUs on each node (on a CPU: data-parallel ranks, default 1)")
    sub.add_argument("--nodes", type=int, default=1)
    sub.add_argument("--cores", type=int, help="default: all of this process")
    sub.add_argument("--memory-gib", type=float, default=0, help="refuse to start on a machine with less")


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="tamtrl", description=__doc__.splitlines()[0].replace("``", ""))
    verbs = root.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, run, summary: str, writes: bool = True) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=summary, description=summary)
        sub.set_defaults(call=run)
        if writes:
            sub.add_argument("--output", type=Path, required=True)
        return sub

    sub = verb("prepare-toy", prepare_toy, "Generate examples of the toy task.")
    sub.add_argument("--split", required=True, help="train or heldout: they share no question")
    sub.add_argument("--count", type=int, required=True)
    sub.add_argument("--documents", type=int, required=True)
    sub.add_argument("--seed", type=int, required=True, help="of the split of questions and of the draw")
    sub.add_argument("--stream", default="main", help="names independent draws, e.g. the data set's name")

    sub = verb("prepare-hotpotqa", prepare_hotpotqa, "Build long documents from HotpotQA questions.")
    sub.add_argument("--source", type=Path, required=True, help="official JSON, hub file, or a folder of such files")
    sub.add_argument("--benchmark", default="hotpotqa")
    sub.add_argument("--count", type=int, help="questions to use (default: all)")
    sub.add_argument("--skip", type=int, default=0, help="questions to pass over first: two sets that share none")
    sub.add_argument("--documents", type=int, required=True)
    sub.add_argument("--seed", type=int, required=True)

    sub = verb("prepare-longbench", prepare_longbench, "Read one data set of LongBench.")
    sub.add_argument("--source", type=Path, required=True, help="data.zip, a .jsonl or .parquet file, or a folder of them")
    sub.add_argument("--config", required=True, help="LongBench's name of the data set, e.g. 2wikimqa")
    sub.add_argument("--benchmark", required=True)

    def add_ruler(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--tokenizer", required=True, help="folder of the model whose tokens are counted")
        sub.add_argument("--tokens", type=int, required=True, help="most tokens of a sample, generation included")
        sub.add_argument("--count", type=int, required=True)
        sub.add_argument("--seed", type=int, required=True)
        sub.add_argument("--benchmark", required=True)

    sub = verb("prepare-niah", prepare_niah, "Generate RULER's needles in a haystack, several keys.")
    sub.add_argument("--multikey", type=int, required=True, help="1 (essay), 2 (needle lines) or 3 (uuids)")
    sub.add_argument("--essay", type=Path, help="running text to hide the needles of variant 1 in")
    add_ruler(sub)

    sub = verb("prepare-ruler-qa", prepare_ruler_qa, "Build RULER's multi-hop QA from HotpotQA questions.")
    sub.add_argument("--source", type=Path, required=True)
    add_ruler(sub)

    sub = verb("fetch", fetch, "Download files of a pinned revision from the Hugging Face hub into a folder.")
    sub.add_argument("--repository", required=True)
    sub.add_argument("--revision", required=True)
    sub.add_argument("--kind", choices=("model", "dataset"), required=True)
    sub.add_argument("--files", nargs="+", required=True, help="names or patterns, e.g. '*.json'")

    sub = verb("backbone", backbone, "Make a small Qwen3 and its tokenizer from nothing.")
    sub.add_argument("--recipe", type=Path, required=True)
    sub.add_argument("--texts", type=Path, help="examples whose text the tokenizer is trained on (recipe: tokenizer bpe)")

    sub = verb("train", train, "Train one run with reinforcement learning; started again, it continues.")
    sub.add_argument("run", type=Path, help="the run's complete configuration")
    sub.add_argument("--scratch", type=Path, required=True, help="checkpoints and logs, kept between attempts")
    add_resources(sub)

    sub = verb("predict", predict, "Read every document of a benchmark and store memories and answers.")
    sub.add_argument("run", type=Path, help="the evaluation's complete configuration")
    sub.add_argument("--model", required=True)
    sub.add_argument("--data", type=Path, required=True)
    add_resources(sub)

    sub = verb("score", score, "Score stored predictions.")
    sub.add_argument("predictions", type=Path)
    sub.add_argument("--benchmark", required=True)
    sub.add_argument("--f1-rule", choices=F1_RULES, default="hotpotqa", help="which official scorer's F1")
    sub.add_argument("--documents", type=Path, required=True, help="file for the score of each document")
    sub.add_argument("--seed", type=int, default=0, help="of the bootstrap")

    sub = verb("show", show, "Print one document's turns, memories and answer.", writes=False)
    sub.add_argument("predictions", type=Path)
    sub.add_argument("--document", type=int, default=0, help="its number in the benchmark")
    sub.add_argument("--sample", type=int, default=0)

    sub = verb("table", table, "Set a table of published and reproduced numbers (CSV, Markdown and LaTeX).")
    sub.add_argument("table")
    sub.add_argument("--paper", type=Path, required=True, help="CSV of published numbers")
    sub.add_argument("--runs", type=Path, help="CSV of the runs in this table and their score files")
    sub.add_argument("--benchmarks", nargs="*", default=[])
    sub.add_argument("--average-over", nargs="*", default=[], help="benchmarks of the average; all must be there")
    sub.add_argument("--note", default="", help="a line under the table, e.g. what scale it was made at")

    sub = verb("figure", figure, "Draw training dynamics: reward and response length per step.")
    sub.add_argument("--runs", type=Path, required=True, help="CSV of runs and their metrics files")
    sub.add_argument("--title", default="")
    return root


def main(arguments: list[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    try:
        args.call(args)
    except UserError as error:
        print(f"tamtrl {args.verb}: {error}", file=sys.stderr)
        return 2
    except BaseExceptionGroup as group:
        errors = [error for error in group.exceptions if isinstance(error, UserError)]
        if not errors:
            raise
        print(f"tamtrl {args.verb}: {errors[0]}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"tamtrl {args.verb}: stopped; run it again to continue.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
