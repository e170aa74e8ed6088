"""How a verb is declared: what it is called, what it does and what it takes, right above the function that does it.

It is argparse: jobs start a command hundreds of times, and Typer or Cyclopts alone take longer to import than all of this does;
Typer has no option with several values (``--data A B``) besides.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tamtrl.settings import Resources

Call = Callable[[argparse.Namespace], None]


class Argument(NamedTuple):
    name: str
    settings: dict


class Verb(NamedTuple):
    name: str
    summary: str
    arguments: tuple[Argument, ...]
    call: Call

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        parser.set_defaults(call=self.call)
        for argument in self.arguments:
            parser.add_argument(argument.name, **argument.settings)


VERBS: dict[str, Verb] = {}


def argument(name: str, kind: Callable = str, help: str | None = None, **more: Any) -> Argument:
    """An option if the name starts with ``--``. ``more`` goes to argparse's ``add_argument``, as ``kind`` does, its ``type``."""
    return Argument(name, {"type": kind, "help": help} | more)


def needed(name: str, kind: Callable = str, help: str | None = None, **more: Any) -> Argument:
    """An option that must be given."""
    return argument(name, kind, help, required=True, **more)


def flag(name: str, help: str) -> Argument:
    return Argument(name, {"action": "store_true", "help": help})


OUTPUT = needed("--output", Path)
SCRATCH = needed("--scratch", Path, "checkpoints and logs, kept between attempts")
NOTE = argument("--note", default="")
TITLE = argument("--title", default="")
PAPER = needed("--paper", Path, "CSV of published numbers")
TIME = argument("--time", Path, "file for the seconds that this took")
RESOURCES = (
    argument("--device", help="default: gpu where there is one", choices=("cpu", "gpu")),
    argument("--devices", int, "GPUs on each node (on a CPU: data-parallel ranks, default 1)"),
    argument("--nodes", int, default=1),
    argument("--cores", int, "default: all of this process"),
    argument("--memory-gib", float, "refuse to start on a machine with less", default=0),
)


def verb(name: str, summary: str, *arguments: Argument, writes: bool = True) -> Callable[[Call], Call]:
    """Declares the function below as what a verb does. ``writes``: it takes --output."""

    def declare(call: Call) -> Call:
        if name in VERBS:
            raise ValueError(f"the verb {name} is declared twice, in {VERBS[name].call.__module__} and {call.__module__}")
        VERBS[name] = Verb(name, summary, (OUTPUT, *arguments) if writes else arguments, call)
        return call

    return declare


def say(message: str) -> None:
    """Progress goes to standard error, with the time, so that it survives in logs."""
    print(f"{time.strftime('%H:%M:%S')} {message}", file=sys.stderr, flush=True)


def resources(args: argparse.Namespace) -> "Resources":
    """What was asked for, or all that this machine has, and made this job's own. The command line calls it before a verb that
    takes RESOURCES, so before anything is imported that looks at the environment."""
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
