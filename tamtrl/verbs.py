"""What each verb of the command line does with its arguments. Imports are inside: `tamtrl --help` must not load torch."""

import argparse
import sys
import time


def say(message: str) -> None:
    """Progress goes to standard error, with the time, so that it survives in logs."""
    print(f"{time.strftime('%H:%M:%S')} {message}", file=sys.stderr, flush=True)


def prepare_toy(args: argparse.Namespace) -> None:
    from tamtrl.tasks import toy
    from tamtrl.tasks.example import write_examples

    shape = toy.Shape(args.hops, args.about, args.share, args.sharing)
    examples = toy.generate(args.split, args.count, args.documents, args.seed, args.benchmark, shape)
    say(f"{write_examples(args.output, examples)} examples in {args.output}")


def prepare_multihop(args: argparse.Namespace) -> None:
    from tamtrl.evaluation.closed_book import usable
    from tamtrl.tasks import multihop, synthesis
    from tamtrl.tasks.example import write_examples

    questions = multihop.load(args.source, args.format, args.member)
    kept = usable(args.closed_book) if args.closed_book else None
    examples = synthesis.build(questions, args.documents, args.count, args.skip, args.seed, args.benchmark, kept)
    say(f"{write_examples(args.output, examples)} examples in {args.output}")


def prepare_qasper(args: argparse.Namespace) -> None:
    from tamtrl.tasks import qasper
    from tamtrl.tasks.example import write_examples

    say(f"{write_examples(args.output, qasper.load(args.source, args.benchmark, args.member))} examples in {args.output}")


def prepare_longbench(args: argparse.Namespace) -> None:
    from tamtrl.tasks import longbench
    from tamtrl.tasks.example import write_examples

    count = write_examples(args.output, longbench.load(args.source, args.config, args.benchmark))
    say(f"{count} examples in {args.output}")


def token_counter(folder: str):
    """How many tokens a model's own tokenizer makes of a text, as the reader will encode it."""
    from transformers import AutoTokenizer

    from tamtrl.reading.texts import Texts

    texts = Texts(AutoTokenizer.from_pretrained(folder))
    return lambda text: len(texts.encode(text))


def prepare_niah(args: argparse.Namespace) -> None:
    from tamtrl.tasks import ruler
    from tamtrl.tasks.example import write_examples

    essay = ruler.running_text(args.essay) if args.essay else None
    count = token_counter(args.tokenizer)
    examples = ruler.niah(args.multikey, args.count, args.tokens, count, args.seed, args.benchmark, essay)
    say(f"{write_examples(args.output, examples)} examples of at most {args.tokens} tokens in {args.output}")


def prepare_ruler_qa(args: argparse.Namespace) -> None:
    from tamtrl.tasks import multihop, ruler
    from tamtrl.tasks.example import write_examples

    questions, count = multihop.load(args.source), token_counter(args.tokenizer)
    examples = ruler.qa(questions, args.count, args.tokens, count, args.seed, args.benchmark)
    say(f"{write_examples(args.output, examples)} examples of at most {args.tokens} tokens in {args.output}")


def closed_book_ask(args: argparse.Namespace) -> None:
    from tamtrl.evaluation.closed_book import ask
    from tamtrl.settings import ClosedBook
    from tamtrl.tasks import multihop

    questions = multihop.load(args.source, args.format, args.member)
    settings = ClosedBook(args.candidates, args.samples, args.temperature, args.top_p, args.tokens)
    ask(questions, settings, args.resources, args.model, args.seed, args.in_flight, args.output, say)


def closed_book_filter(args: argparse.Namespace) -> None:
    from tamtrl.evaluation.closed_book import filter_known
    from tamtrl.tasks import multihop

    questions = multihop.load(args.source, args.format, args.member)
    filter_known(questions, dict(zip(args.models, args.answers, strict=True)), args.output, say)


def fetch_file(args: argparse.Namespace) -> None:
    from tamtrl.tasks.sources import fetch_file as run

    run(args.urls, args.sha256, args.output, say)


def fetch_model(args: argparse.Namespace) -> None:
    from tamtrl.tasks.sources import fetch_model as run

    run(args.repository, args.revision, args.files, args.output)


def link(args: argparse.Namespace) -> None:
    from tamtrl.record.provenance import link as run

    run(args.files, args.output)


def checksums(args: argparse.Namespace) -> None:
    from tamtrl.record.provenance import write_checksums

    write_checksums(args.folder, args.output)


def backbone(args: argparse.Namespace) -> None:
    from tamtrl.models.backbone import make

    make(args.recipe, args.output, args.texts, say)


def train(args: argparse.Namespace) -> None:
    from tamtrl.training.train import train as run

    run(args.run, args.resources, args.output, args.scratch, say)


def smoke_resume(args: argparse.Namespace) -> None:
    from tamtrl.planning.smoke import resume

    resume(args.run, args.resources, args.output, args.scratch, say)


def smoke_report(args: argparse.Namespace) -> None:
    from tamtrl.planning.smoke import report

    report(args.run, args.folder, args.resumed, args.table, args.output, say)


def generate(args: argparse.Namespace) -> None:
    from tamtrl.distillation.trajectories import generate as run
    from tamtrl.settings import GenerationRun

    shard = (args.shard, args.shards)
    run(GenerationRun.load(args.run), args.resources, args.model, args.data, shard, args.output, say)


def keep_correct(args: argparse.Namespace) -> None:
    from tamtrl.distillation.trajectories import keep_correct as run

    run(args.name, args.model, args.data, args.shards, args.output, args.report, say)


def prm_label(args: argparse.Namespace) -> None:
    from tamtrl.settings import ProcessRewardModel
    from tamtrl.turn_scores.prm_data import label

    run = ProcessRewardModel.load(args.run)
    label(run, args.base, args.policy, args.data, args.shards, args.output, args.report, say)


def prm_train(args: argparse.Namespace) -> None:
    from tamtrl.settings import ProcessRewardModel
    from tamtrl.turn_scores.prm_train import train as run

    settings = ProcessRewardModel.load(args.run)
    run(settings, args.resources, args.base, args.turns, args.labels, args.output, args.scratch, say)


def teacher_probabilities(args: argparse.Namespace) -> None:
    from tamtrl.distillation.teacher import precompute
    from tamtrl.settings import DistillationRun

    precompute(DistillationRun.load(args.run), args.resources, args.output, say)


def distil(args: argparse.Namespace) -> None:
    from tamtrl.distillation.distil import distil as run

    run(args.run, args.resources, args.output, args.scratch, say)


def predict(args: argparse.Namespace) -> None:
    from tamtrl.evaluation.predict import predict as run
    from tamtrl.settings import EvaluationRun

    run(EvaluationRun.load(args.run), args.resources, args.model, args.data, args.output, args.scratch, say)


def score(args: argparse.Namespace) -> None:
    from tamtrl.evaluation.score import score as run

    run(args.predictions, args.benchmark, args.f1_rule, args.output, args.documents, args.seed)


def show(args: argparse.Namespace) -> None:
    from tamtrl.evaluation.show import show as run

    print(run(args.predictions, args.document, args.sample))


def layout(args: argparse.Namespace, note: str = ""):
    from tamtrl.paper.scores import Layout

    means = {name: parts.split(",") for name, _, parts in (mean.partition("=") for mean in args.means)}
    return Layout(args.columns, means, args.average_over, args.metric, note)


def table(args: argparse.Namespace) -> None:
    from tamtrl.paper.tables import write

    write(args.table, args.paper, args.runs, layout(args, args.note), args.output)


def table_hours(args: argparse.Namespace) -> None:
    from tamtrl.paper.hours import write

    write(args.paper, args.jobs, args.projected, args.note, args.output)


def table_samples(args: argparse.Namespace) -> None:
    from tamtrl.paper.samples import write

    write(args.paper, args.sets, args.note, args.output)


def figure(args: argparse.Namespace) -> None:
    from tamtrl.paper import figures, memories

    match args.name:
        case "dynamics":
            figures.dynamics(args.runs, args.title, args.output)
        case "turn_rewards":
            figures.turn_rewards(args.runs, args.title, args.output)
        case "memory_length" | "survival":
            memories.draw(args.runs, args.name == "memory_length", args.title, args.output)


def figure_sweep(args: argparse.Namespace) -> None:
    from tamtrl.paper.sweeps import draw

    panels = dict(zip(args.headings, zip(args.runs, args.varied, strict=True), strict=True))
    draw(panels, layout(args), args.title, args.output)


def plan(args: argparse.Namespace) -> None:
    from tamtrl.planning.plan import plan as run

    print(run(args.arguments))


def run_cards(args: argparse.Namespace) -> None:
    from tamtrl.paper.records import cards

    cards(args.runs, args.note, args.output)


def open_choices(args: argparse.Namespace) -> None:
    from tamtrl.paper.records import choices

    choices(args.choices, args.config, args.note, args.output)


def theorem(args: argparse.Namespace) -> None:
    from tamtrl.paper.theorem import write

    write(args.policies, args.output)


def publish(args: argparse.Namespace) -> None:
    from tamtrl.record.archive import publish as run

    run(args.results, args.output, args.with_models, say)


def record(args: argparse.Namespace) -> None:
    from tamtrl.record.verify import record as run

    run(args.runs, args.made, args.output)


def verify(args: argparse.Namespace) -> None:
    from tamtrl.record.verify import verify as run

    run(args.results, say)


def archive_index(args: argparse.Namespace) -> None:
    from tamtrl.record.archive import fetch_index

    fetch_index(args.url, args.output)


def restore(args: argparse.Namespace) -> None:
    from tamtrl.record.archive import restore as run

    run(args.archive, args.index, args.run, args.files, args.output, say)


def figure_calibration(args: argparse.Namespace) -> None:
    from tamtrl.paper.figures import calibration

    calibration(args.folders, args.title, args.output)


def resources(args: argparse.Namespace):
    """What was asked for, or all that this machine has, and made this job's own. The command line calls it before a verb, so
    before anything is imported that looks at the environment."""
    from tamtrl.jobs import devices, surroundings
    from tamtrl.jobs.machine import cores, gpus, require
    from tamtrl.settings import Resources

    surroundings.settle(say)
    device = args.device or ("gpu" if gpus() else "cpu")
    count = args.devices or (max(1, gpus()) if device == "gpu" else 1)
    asked = Resources(device, count, args.nodes, args.cores or cores(), args.memory_gib)
    require(asked)
    if device == "gpu":
        devices.claim(count, say)
    return asked
