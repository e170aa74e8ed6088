"""``tamtrl <verb>``: everything a workflow rule calls, usable by hand. Each verb writes its output whole or not at all."""

import argparse
import errno
import io
import shutil
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from tamtrl.commands import VERBS, Verb, by_stage
from tamtrl.commands.declare import resources, say
from tamtrl.errors import DataWarning, UserError


def listing() -> str:
    """All verbs, by stage, as wide as the terminal."""
    indent = 4 + max(map(len, VERBS))
    width = max(indent + 20, shutil.get_terminal_size().columns - 2)  # as argparse leaves it

    def entry(verb: Verb) -> str:
        return textwrap.fill(verb.summary, width, initial_indent=f"  {verb.name}".ljust(indent), subsequent_indent=" " * indent)

    blocks = ["\n".join([f"{heading}:", *map(entry, verbs)]) for heading, verbs in by_stage().items()]
    return "\n\n".join([*blocks, "`tamtrl VERB --help` says what a verb takes."])


def parser(verbs: Iterable[Verb] = VERBS.values()) -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="tamtrl",
        usage="%(prog)s [-h] VERB ...",
        description=__doc__.splitlines()[0].replace("``", ""),
        epilog=listing(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # Their list is the epilog, since argparse knows no headings for verbs.
    subparsers = root.add_subparsers(prog="tamtrl", dest="verb", required=True, metavar="VERB", help=argparse.SUPPRESS)
    for verb in verbs:
        verb.add_to(subparsers.add_parser(verb.name, description=verb.summary))
    return root


def unknown(word: str) -> str:
    from difflib import get_close_matches

    near = " or ".join(f"`{name}`" for name in get_close_matches(word, VERBS))
    return f"there is no verb {word!r}{f'; did you mean {near}?' if near else '.'} `tamtrl --help` lists all."


def tell_about_data(otherwise: Callable[..., None]) -> Callable[..., None]:
    """Warnings about data are part of the progress; Python's form would show a line of code instead of the time."""

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, DataWarning):
            say(str(message))
        else:
            otherwise(message, category, *place, **more)

    return show


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    asked = next((word for word in words if not word.startswith("-")), None)
    if asked is not None and asked not in VERBS:
        print(f"tamtrl: {unknown(asked)}", file=sys.stderr)
        return 2
    # Only the parser that is used is built: forty take as long as Python itself to start.
    args = parser([] if asked is None else [VERBS[asked]]).parse_args(words)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    warnings.showwarning = tell_about_data(warnings.showwarning)
    started = time.time()
    try:
        if hasattr(args, "device"):
            args.resources = resources(args)
        args.call(args)
        if getattr(args, "time", None):
            from tamtrl import files

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
