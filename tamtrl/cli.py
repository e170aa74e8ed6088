"""``tamtrl <verb>``: everything a workflow rule calls, usable by hand. Each verb writes its output whole or not at all."""

import argparse
import errno
import io
import sys
import time
import warnings
from pathlib import Path

from tamtrl import files, verbs
from tamtrl.answers.scoring import F1_RULES
from tamtrl.errors import DataWarning, UserError


def add_resources(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--device", choices=("cpu", "gpu"), help="default: gpu where there is one")
    sub.add_argument("--devices", type=int, help="GPUs on each node (on a CPU: data-parallel ranks, default 1)")
    sub.add_argument("--nodes", type=int, default=1)
    sub.add_argument("--cores", type=int, help="default: all of this process")
    sub.add_argument("--memory-gib", type=float, default=0, help="refuse to start on a machine with less")


def add_time(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--time", type=Path, help="file for the seconds that this took")


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="tamtrl", description=__doc__.splitlines()[0].replace("``", ""))
    subparsers = root.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, run, summary: str, writes: bool = True) -> argparse.ArgumentParser:
        sub = subparsers.add_parser(name, help=summary, description=summary)
        sub.set_defaults(call=run)
        if writes:
            sub.add_argument("--output", type=Path, required=True)
        return sub

    def prepare(name: str, run, summary: str, seed: bool = True) -> argparse.ArgumentParser:
        sub = verb(name, run, summary)
        sub.add_argument("--benchmark", required=True, help="what the set is called")
        if seed:
            sub.add_argument("--seed", type=int, required=True, help="of every draw")
        return sub

    def add_source(sub: argparse.ArgumentParser, form: bool = True) -> None:
        sub.add_argument("--source", type=Path, required=True, help="JSON, JSON lines, parquet; an archive or folder of them")
        sub.add_argument("--member", help="which file of an archive")
        if form:
            sub.add_argument("--format", default="hotpotqa", help="hotpotqa, 2wikimultihopqa or musique")

    sub = prepare("prepare-toy", verbs.prepare_toy, "Generate examples of the toy task.")
    sub.add_argument("--split", required=True, help="train or heldout: they share no question")
    sub.add_argument("--count", type=int, required=True)
    sub.add_argument("--documents", type=int, required=True)
    sub.add_argument("--hops", type=int, help="1 or 2 (default: both)")
    sub.add_argument("--about", help="people or things (default: both)")
    sub.add_argument("--share", help="what the other paragraphs have in common with the asked fact: relation or subject")
    sub.add_argument("--sharing", type=int, help="how many of them (default: all)")

    sub = prepare("prepare-multihop", verbs.prepare_multihop, "Build documents from questions over paragraphs.")
    add_source(sub)
    sub.add_argument("--count", type=int, help="questions to use (default: all)")
    sub.add_argument("--skip", type=int, default=0, help="questions to pass over first: two sets that share none")
    sub.add_argument("--documents", type=int, help="paragraphs of a document (default: the question's own)")
    sub.add_argument("--closed-book", type=Path, help="CSV of closed-book-filter: only what it kept is used")

    sub = prepare("prepare-qasper", verbs.prepare_qasper, "Read questions over papers, with their evidence.", seed=False)
    add_source(sub, form=False)

    sub = prepare("prepare-longbench", verbs.prepare_longbench, "Read one data set of LongBench.", seed=False)
    sub.add_argument("--source", type=Path, required=True, help="data.zip, a .jsonl or .parquet file, or a folder of them")
    sub.add_argument("--config", required=True, help="LongBench's name of the data set, e.g. 2wikimqa")

    def add_ruler(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--tokenizer", required=True, help="folder of the model whose tokens are counted")
        sub.add_argument("--tokens", type=int, required=True, help="most tokens of a sample, generation included")
        sub.add_argument("--count", type=int, required=True)

    sub = prepare("prepare-niah", verbs.prepare_niah, "Generate RULER's needles in a haystack, several keys.")
    sub.add_argument("--multikey", type=int, required=True, help="1 (essay), 2 (needle lines) or 3 (uuids)")
    sub.add_argument("--essay", type=Path, help="running text to hide the needles of variant 1 in (.txt, .json, .parquet)")
    add_ruler(sub)

    sub = prepare("prepare-ruler-qa", verbs.prepare_ruler_qa, "Build RULER's multi-hop QA from HotpotQA questions.")
    sub.add_argument("--source", type=Path, required=True)
    add_ruler(sub)

    sub = verb("closed-book-ask", verbs.closed_book_ask, "Ask a model questions without their documents.")
    add_source(sub)
    sub.add_argument("--model", required=True)
    sub.add_argument("--candidates", type=int, required=True, help="questions to ask, in the order in which sets choose them")
    sub.add_argument("--samples", type=int, required=True)
    sub.add_argument("--temperature", type=float, required=True)
    sub.add_argument("--top-p", type=float, required=True)
    sub.add_argument("--tokens", type=int, required=True, help="most tokens of a response")
    sub.add_argument("--seed", type=int, required=True)
    sub.add_argument("--in-flight", type=int, default=256, help="questions asked at once")
    add_resources(sub)

    sub = verb("closed-book-filter", verbs.closed_book_filter, "Say which questions some model answered without the document.")
    add_source(sub)
    sub.add_argument("--models", nargs="+", required=True, help="their names")
    sub.add_argument("--answers", nargs="+", type=Path, required=True, help="their answer files, in the same order")

    sub = verb("fetch-file", verbs.fetch_file, "Download a file and check it.")
    sub.add_argument("--sha256", required=True)
    sub.add_argument("--urls", nargs="+", required=True, help="tried in this order")

    sub = verb("fetch-model", verbs.fetch_model, "Download files of a pinned revision from the Hugging Face hub into a folder.")
    sub.add_argument("--repository", required=True)
    sub.add_argument("--revision", required=True)
    sub.add_argument("--files", nargs="+", required=True, help="names or patterns, e.g. '*.json'")

    sub = verb("link", verbs.link, "Make a folder of links to files.")
    sub.add_argument("files", type=Path, nargs="+")

    sub = verb("checksums", verbs.checksums, "List the sha256 of every file in a folder.")
    sub.add_argument("folder", type=Path)

    sub = verb("backbone", verbs.backbone, "Make a small Qwen3 and its tokenizer from nothing.")
    sub.add_argument("--recipe", type=Path, required=True)
    sub.add_argument("--texts", type=Path, help="examples whose text the tokenizer is trained on (recipe: tokenizer bpe)")

    sub = verb("train", verbs.train, "Train one run with reinforcement learning; started again, it continues.")
    sub.add_argument("run", type=Path, help="the run's complete configuration")
    sub.add_argument("--scratch", type=Path, required=True, help="checkpoints and logs, kept between attempts")
    add_resources(sub)

    sub = verb("smoke-resume", verbs.smoke_resume, "Train a run, kill it after its first checkpoint, and resume it.")
    sub.add_argument("run", type=Path, help="the run's complete configuration")
    sub.add_argument("--scratch", type=Path, required=True, help="its checkpoints and logs, apart from those of the run itself")
    add_resources(sub)

    sub = verb("smoke-report", verbs.smoke_report, "Say whether what must be true of a first run is.")
    sub.add_argument("run", type=Path, help="the run's complete configuration")
    sub.add_argument("--folder", type=Path, required=True, help="what the run made")
    sub.add_argument("--resumed", type=Path, required=True, help="what smoke-resume made of it")
    sub.add_argument("--table", type=Path, required=True, help="CSV of a table in which the run is")

    sub = verb("generate", verbs.generate, "Sample trajectories over training questions, one shard of them.")
    sub.add_argument("run", type=Path, help="the generation's complete configuration")
    sub.add_argument("--model", required=True)
    sub.add_argument("--data", type=Path, required=True)
    sub.add_argument("--shard", type=int, default=0, help="which of --shards")
    sub.add_argument("--shards", type=int, default=1)
    add_resources(sub)
    add_time(sub)

    sub = verb("keep-correct", verbs.keep_correct, "Keep the trajectories that the verifier accepts.")
    sub.add_argument("shards", type=Path, nargs="+")
    sub.add_argument("--name", required=True, help="what the model that made them is called")
    sub.add_argument("--model", required=True, help="its folder, for the tokenizer")
    sub.add_argument("--data", type=Path, required=True)
    sub.add_argument("--report", type=Path, required=True, help="JSON: what became of all trajectories and questions")

    sub = verb(
        "prm-label", verbs.prm_label, "Label memory turns with the outcome of their trajectory, for a process reward model."
    )
    sub.add_argument("run", type=Path, help="the process reward model's complete configuration")
    sub.add_argument("shards", type=Path, nargs="+")
    sub.add_argument("--base", required=True, help="folder of the BERT that will be trained")
    sub.add_argument("--policy", required=True, help="folder of the model that sampled the trajectories")
    sub.add_argument("--data", type=Path, required=True)
    sub.add_argument("--report", type=Path, required=True, help="JSON: how many turns of each kind")
    add_time(sub)

    sub = verb("prm-train", verbs.prm_train, "Train a process reward model; started again, it continues.")
    sub.add_argument("run", type=Path, help="the process reward model's complete configuration")
    sub.add_argument("--turns", type=Path, required=True, help="what prm-label wrote")
    sub.add_argument("--labels", type=Path, required=True, help="and its report")
    sub.add_argument("--base", required=True, help="folder of the BERT to train")
    sub.add_argument("--scratch", type=Path, required=True, help="checkpoints, kept between attempts")
    add_resources(sub)
    add_time(sub)

    sub = verb("teacher-probabilities", verbs.teacher_probabilities, "Compute a teacher's likeliest tokens on trajectories.")
    sub.add_argument("run", type=Path, help="the distillation run's complete configuration")
    add_resources(sub)

    sub = verb("distil", verbs.distil, "Train one run on trajectories; started again, it continues.")
    sub.add_argument("run", type=Path, help="the run's complete configuration")
    sub.add_argument("--scratch", type=Path, required=True, help="checkpoints and logs, kept between attempts")
    add_resources(sub)

    sub = verb("predict", verbs.predict, "Read every document of some benchmarks and store memories and answers.")
    sub.add_argument("run", type=Path, help="the evaluation's complete configuration")
    sub.add_argument("--model", required=True)
    sub.add_argument("--data", type=Path, nargs="+", required=True, help="NAME.parquet; --output gets NAME.jsonl.gz")
    sub.add_argument("--scratch", type=Path, required=True, help="finished documents, kept between attempts")
    add_resources(sub)

    sub = verb("score", verbs.score, "Score stored predictions.")
    sub.add_argument("predictions", type=Path)
    sub.add_argument("--benchmark", required=True)
    sub.add_argument("--f1-rule", choices=F1_RULES, default="hotpotqa", help="which official scorer's F1")
    sub.add_argument("--documents", type=Path, required=True, help="file for the score of each document")
    sub.add_argument("--seed", type=int, default=0, help="of the bootstrap")

    sub = verb("show", verbs.show, "Print one document's turns, memories and answer.", writes=False)
    sub.add_argument("predictions", type=Path)
    sub.add_argument("--document", type=int, default=0, help="its number in the benchmark")
    sub.add_argument("--sample", type=int, default=0)

    def add_layout(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--columns", nargs="*", default=[], help="benchmarks, or means of them")
        sub.add_argument("--means", nargs="*", default=[], metavar="NAME=A,B", help="columns that are the mean of benchmarks")
        sub.add_argument("--average-over", nargs="*", default=[], help="columns of the average; all must be there")
        sub.add_argument("--metric", default="score", help="what is shown; every metric is in the table's CSV")

    sub = verb("table", verbs.table, "Set a table of published and reproduced numbers (CSV, Markdown and LaTeX).")
    sub.add_argument("table")
    sub.add_argument("--paper", type=Path, required=True, help="CSV of published numbers")
    sub.add_argument("--runs", type=Path, help="CSV of the runs in this table and their score files")
    add_layout(sub)
    sub.add_argument("--note", default="", help="a line under the table, e.g. what scale it was made at")

    sub = verb("table-samples", verbs.table_samples, "Set the table of sample counts from prepared data sets.")
    sub.add_argument("--paper", type=Path, required=True, help="CSV of published numbers")
    sub.add_argument("--sets", type=Path, required=True, help="CSV of use, set and file")
    sub.add_argument("--note", default="")

    sub = verb("table-hours", verbs.table_hours, "Set the table of hours from the times that jobs recorded.")
    sub.add_argument("--paper", type=Path, required=True, help="CSV of published numbers")
    sub.add_argument("--jobs", type=Path, required=True, help="CSV of runs, parts, time files and devices")
    sub.add_argument("--projected", type=Path, help="CSV of projected training times, shown apart")
    sub.add_argument("--note", default="")

    sub = verb("figure", verbs.figure, "Draw a figure of training or of memories.")
    sub.add_argument("name", choices=("dynamics", "turn_rewards", "memory_length", "survival"))
    sub.add_argument(
        "--runs", type=Path, required=True, help="CSV of runs and their metrics (the first two) or predictions files"
    )
    sub.add_argument("--title", default="")

    sub = verb("figure-sweep", verbs.figure_sweep, "Draw scores over a setting that was varied, a panel each list of runs.")
    sub.add_argument("--runs", type=Path, nargs="+", required=True, help="CSV of runs, their score files and the varied value")
    sub.add_argument("--headings", nargs="+", required=True, help="of the panels")
    sub.add_argument("--varied", nargs="+", required=True, help="names of what is varied")
    add_layout(sub)
    sub.add_argument("--title", default="")

    sub = verb("plan", verbs.plan, "Say what a command of Snakemake would do: jobs, GPU-hours, disk.", writes=False)
    sub.add_argument("arguments", nargs="*", help="of snakemake, after --, targets first: tamtrl plan -- tables --profile slurm")

    sub = verb("run-cards", verbs.run_cards, "Set a table of trained runs: settings, versions, commit, time, hardware.")
    sub.add_argument("--runs", type=Path, required=True, help="CSV of runs and their card.json")
    sub.add_argument("--note", default="")

    sub = verb("open-choices", verbs.open_choices, "Set the table of choices that the paper leaves open.")
    sub.add_argument("--choices", type=Path, required=True, help="docs/choices.md")
    sub.add_argument("--config", type=Path, required=True, help="the configuration as it was used")
    sub.add_argument("--note", default="")

    sub = verb("theorem", verbs.theorem, "Check Theorem 1 on random policies that can be enumerated.")
    sub.add_argument("--policies", type=int, default=1000)

    sub = verb("publish", verbs.publish, "Add runs to an archive, from which others can restore them.")
    sub.add_argument("results", type=Path, help="folder of results, e.g. results/full")
    sub.add_argument("--with-models", action="store_true", help="their weights as well")

    sub = verb("record", verbs.record, "Write down what a table was made from.")
    sub.add_argument("--runs", type=Path, required=True, help="CSV of the runs in the table and their score files")
    sub.add_argument("--made", type=Path, nargs="+", required=True, help="the table's files")

    sub = verb("verify", verbs.verify, "Say what differs from what tables were made from.", writes=False)
    sub.add_argument("results", type=Path, help="folder of results, e.g. results/full")

    sub = verb("archive-index", verbs.archive_index, "Fetch the index of an archive behind an HTTP address.")
    sub.add_argument("url")

    sub = verb("restore", verbs.restore, "Restore files of a run from an archive.")
    sub.add_argument("run", help="MODEL/METHOD/VARIANT/seedN")
    sub.add_argument("--archive", required=True, help="folder or HTTP address")
    sub.add_argument("--index", type=Path, required=True)
    sub.add_argument("--files", nargs="+", required=True, help="files, or folders such as model")

    sub = verb("figure-calibration", verbs.figure_calibration, "Draw how far a process reward model's probabilities are right.")
    sub.add_argument("folders", type=Path, nargs="+", help="what prm-train wrote, with prm.yaml; one a seed")
    sub.add_argument("--title", default="")
    return root


def tell_about_data(otherwise):
    """Warnings about data are part of the progress; Python's form would show a line of code instead of the time."""

    def show(message, category, *place, **more) -> None:
        if issubclass(category, DataWarning):
            verbs.say(str(message))
        else:
            otherwise(message, category, *place, **more)

    return show


def main(arguments: list[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    warnings.showwarning = tell_about_data(warnings.showwarning)
    started = time.time()
    try:
        if hasattr(args, "device"):
            args.resources = verbs.resources(args)
        args.call(args)
        if getattr(args, "time", None):
            files.write_text(args.time, f"seconds\n{time.time() - started:.1f}\n")
    except UserError as error:
        print(f"tamtrl {args.verb}: {error}", file=sys.stderr)
        return 2
    except BaseExceptionGroup as group:
        errors = [error for error in group.exceptions if isinstance(error, UserError)]
        if not errors:
            raise
        print(f"tamtrl {args.verb}: {errors[0]}", file=sys.stderr)
        return 2
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(f"tamtrl {args.verb}: no space left on the disk; make room, then the same command continues.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"tamtrl {args.verb}: stopped; run it again to continue.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
