"""Models to start from: downloaded, or made from nothing."""

from argparse import Namespace
from pathlib import Path

from tamtrl.commands.declare import argument, needed, say, verb


@verb(
    "fetch-model",
    "Download files of a pinned revision from the Hugging Face hub into a folder.",
    needed("--repository"),
    needed("--revision"),
    needed("--files", help="names or patterns, e.g. '*.json'", nargs="+"),
)
def fetch_model(args: Namespace) -> None:
    from tamtrl.tasks.sources import fetch_model as run

    run(args.repository, args.revision, args.files, args.output)


@verb(
    "backbone",
    "Make a small Qwen3 and its tokenizer from nothing.",
    needed("--recipe", Path),
    argument("--texts", Path, "examples whose text the tokenizer is trained on (recipe: tokenizer bpe)"),
)
def backbone(args: Namespace) -> None:
    from tamtrl.models.backbone import make

    make(args.recipe, args.output, args.texts, say)


@verb(
    "premise",
    "Measure how probably a toy model writes the right memory, reading the whole section and reading the relevant text alone.",
    needed("--recipe", Path, "what it was made by, with the length of its course's documents"),
    needed("--model"),
    argument("--questions", int, "how many documents are read", default=512),
)
def premise(args: Namespace) -> None:
    from tamtrl.models.premise import write

    write(args.recipe, args.model, args.questions, args.output)


@verb("link", "Make a folder of links to files.", argument("files", Path, nargs="+"))
def link(args: Namespace) -> None:
    from tamtrl.record.provenance import link as run

    run(args.files, args.output)


@verb("checksums", "List the sha256 of every file in a folder.", argument("folder", Path))
def checksums(args: Namespace) -> None:
    from tamtrl.record.provenance import write_checksums

    write_checksums(args.folder, args.output)
