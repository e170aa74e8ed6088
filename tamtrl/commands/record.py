"""What results were made from, and the archive from which others restore them."""

from argparse import Namespace
from pathlib import Path

from tamtrl.commands.declare import argument, flag, needed, say, verb

RESULTS = argument("results", Path, "folder of results, e.g. results/full")


@verb(
    "record",
    "Write down what a table was made from.",
    needed("--runs", Path, "CSV of the runs in the table and their score files"),
    needed("--made", Path, "the table's files", nargs="+"),
)
def record(args: Namespace) -> None:
    from tamtrl.record.verify import record as run

    run(args.runs, args.made, args.output)


@verb("verify", "Say what differs from what tables were made from.", RESULTS, writes=False)
def verify(args: Namespace) -> None:
    from tamtrl.record.verify import verify as run

    run(args.results, say)


@verb(
    "publish",
    "Add runs to an archive, from which others can restore them.",
    RESULTS,
    flag("--with-models", "their weights as well"),
)
def publish(args: Namespace) -> None:
    from tamtrl.record.archive import publish as run

    run(args.results, args.output, args.with_models, say)


@verb("archive-index", "Fetch the index of an archive behind an HTTP address.", argument("url"))
def archive_index(args: Namespace) -> None:
    from tamtrl.record.archive import fetch_index

    fetch_index(args.url, args.output)


@verb(
    "restore",
    "Restore files of a run from an archive.",
    argument("run", help="MODEL/METHOD/VARIANT/seedN"),
    needed("--archive", help="folder or HTTP address"),
    needed("--index", Path),
    needed("--files", help="files, or folders such as model", nargs="+"),
)
def restore(args: Namespace) -> None:
    from tamtrl.record.archive import restore as run

    run(args.archive, args.index, args.run, args.files, args.output, say)
