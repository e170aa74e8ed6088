"""Data sets: downloaded, generated, or built from questions; and which questions models know without a document."""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from tamtrl.commands.declare import RESOURCES, argument, needed, say, verb

BENCHMARK = needed("--benchmark", help="what the set is called")
SEED = needed("--seed", int, "of every draw")
FILES = (
    needed("--source", Path, "JSON, JSON lines, parquet; an archive or folder of them"),
    argument("--member", help="which file of an archive"),
)
QUESTIONS = (*FILES, argument("--format", help="hotpotqa, 2wikimultihopqa or musique", default="hotpotqa"))
LENGTH = (
    needed("--tokenizer", help="folder of the model whose tokens are counted"),
    needed("--tokens", int, "most tokens of a sample, generation included"),
    needed("--count", int),
)


@verb(
    "fetch-file",
    "Download a file and check it.",
    needed("--sha256"),
    needed("--urls", help="tried in this order", nargs="+"),
)
def fetch_file(args: Namespace) -> None:
    from tamtrl.tasks.sources import fetch_file as run

    run(args.urls, args.sha256, args.output, say)


@verb(
    "prepare-toy",
    "Generate examples of the toy task.",
    BENCHMARK,
    SEED,
    needed("--split", help="train or heldout: they share no question"),
    needed("--count", int),
    needed("--documents", int),
    argument("--hops", int, "1 or 2 (default: both)"),
    argument("--about", help="people or things (default: both)"),
    argument("--share", help="what the other paragraphs have in common with the asked fact: relation or subject"),
    argument("--sharing", int, "how many of them (default: all)"),
)
def prepare_toy(args: Namespace) -> None:
    from tamtrl.tasks import toy
    from tamtrl.tasks.example import write_examples

    shape = toy.Shape(args.hops, args.about, args.share, args.sharing)
    examples = toy.generate(args.split, args.count, args.documents, args.seed, args.benchmark, shape)
    say(f"{write_examples(args.output, examples)} examples in {args.output}")


@verb(
    "prepare-multihop",
    "Build documents from questions over paragraphs.",
    BENCHMARK,
    SEED,
    *QUESTIONS,
    argument("--count", int, "questions to use (default: all)"),
    argument("--skip", int, "questions to pass over first: two sets that share none", default=0),
    argument("--documents", int, "paragraphs of a document (default: the question's own)"),
    argument("--closed-book", Path, "CSV of closed-book-filter: only what it kept is used"),
)
def prepare_multihop(args: Namespace) -> None:
    from tamtrl.evaluation.closed_book import usable
    from tamtrl.tasks import multihop, synthesis
    from tamtrl.tasks.example import write_examples

    questions = multihop.load(args.source, args.format, args.member)
    kept = usable(args.closed_book) if args.closed_book else None
    examples = synthesis.build(questions, args.documents, args.count, args.skip, args.seed, args.benchmark, kept)
    say(f"{write_examples(args.output, examples)} examples in {args.output}")


@verb("prepare-qasper", "Read questions over papers, with their evidence.", BENCHMARK, *FILES)
def prepare_qasper(args: Namespace) -> None:
    from tamtrl.tasks import qasper
    from tamtrl.tasks.example import write_examples

    say(f"{write_examples(args.output, qasper.load(args.source, args.benchmark, args.member))} examples in {args.output}")


@verb(
    "prepare-longbench",
    "Read one data set of LongBench.",
    BENCHMARK,
    needed("--source", Path, "data.zip, a .jsonl or .parquet file, or a folder of them"),
    needed("--config", help="LongBench's name of the data set, e.g. 2wikimqa"),
)
def prepare_longbench(args: Namespace) -> None:
    from tamtrl.tasks import longbench
    from tamtrl.tasks.example import write_examples

    count = write_examples(args.output, longbench.load(args.source, args.config, args.benchmark))
    say(f"{count} examples in {args.output}")


def token_counter(folder: str) -> Callable[[str], int]:
    """How many tokens a model's own tokenizer makes of a text, as the reader will encode it."""
    from transformers import AutoTokenizer

    from tamtrl.reading.texts import Texts

    texts = Texts(AutoTokenizer.from_pretrained(folder))
    return lambda text: len(texts.encode(text))


@verb(
    "prepare-niah",
    "Generate RULER's needles in a haystack, several keys.",
    BENCHMARK,
    SEED,
    needed("--multikey", int, "1 (essay), 2 (needle lines) or 3 (uuids)"),
    argument("--essay", Path, "running text to hide the needles of variant 1 in (.txt, .json, .parquet)"),
    *LENGTH,
)
def prepare_niah(args: Namespace) -> None:
    from tamtrl.tasks import ruler
    from tamtrl.tasks.example import write_examples

    essay = ruler.running_text(args.essay) if args.essay else None
    count = token_counter(args.tokenizer)
    examples = ruler.niah(args.multikey, args.count, args.tokens, count, args.seed, args.benchmark, essay)
    say(f"{write_examples(args.output, examples)} examples of at most {args.tokens} tokens in {args.output}")


@verb(
    "prepare-ruler-qa",
    "Build RULER's multi-hop QA from HotpotQA questions.",
    BENCHMARK,
    SEED,
    needed("--source", Path),
    *LENGTH,
)
def prepare_ruler_qa(args: Namespace) -> None:
    from tamtrl.tasks import multihop, ruler
    from tamtrl.tasks.example import write_examples

    questions, count = multihop.load(args.source), token_counter(args.tokenizer)
    examples = ruler.qa(questions, args.count, args.tokens, count, args.seed, args.benchmark)
    say(f"{write_examples(args.output, examples)} examples of at most {args.tokens} tokens in {args.output}")


@verb(
    "closed-book-ask",
    "Ask a model questions without their documents.",
    *QUESTIONS,
    needed("--model"),
    needed("--candidates", int, "questions to ask, in the order in which sets choose them"),
    needed("--samples", int),
    needed("--temperature", float),
    needed("--top-p", float),
    needed("--tokens", int, "most tokens of a response"),
    needed("--dtype"),
    needed("--seed", int),
    argument("--in-flight", int, "questions asked at once", default=256),
    *RESOURCES,
)
def closed_book_ask(args: Namespace) -> None:
    from tamtrl.evaluation.closed_book import ask
    from tamtrl.settings import ClosedBook
    from tamtrl.tasks import multihop

    questions = multihop.load(args.source, args.format, args.member)
    settings = ClosedBook(args.candidates, args.samples, args.temperature, args.top_p, args.tokens, args.dtype)
    ask(questions, settings, args.resources, args.model, args.seed, args.in_flight, args.output, say)


@verb(
    "closed-book-filter",
    "Say which questions some model answered without the document.",
    *QUESTIONS,
    needed("--models", help="their names", nargs="+"),
    needed("--answers", Path, "their answer files, in the same order", nargs="+"),
)
def closed_book_filter(args: Namespace) -> None:
    from tamtrl.evaluation.closed_book import filter_known
    from tamtrl.tasks import multihop

    questions = multihop.load(args.source, args.format, args.member)
    filter_known(questions, dict(zip(args.models, args.answers, strict=True)), args.output, say)
