"""Before a large run: what it would cost, and whether a first small one went as it must."""

from argparse import Namespace
from pathlib import Path

from tamtrl.commands.declare import RESOURCES, argument, needed, say, verb

RUN = argument("run", Path, "the run's complete configuration")


@verb(
    "plan",
    "Say what a command of Snakemake would do: jobs, GPU-hours, disk.",
    argument("arguments", help="of snakemake, after --, targets first: tamtrl plan -- tables --profile slurm", nargs="*"),
    writes=False,
)
def plan(args: Namespace) -> None:
    from tamtrl.planning.plan import plan as run

    print(run(args.arguments))


@verb(
    "smoke-resume",
    "Train a run, kill it after its first checkpoint, and resume it.",
    RUN,
    needed("--scratch", Path, "its checkpoints and logs, apart from those of the run itself"),
    *RESOURCES,
)
def smoke_resume(args: Namespace) -> None:
    from tamtrl.planning.smoke import resume

    resume(args.run, args.resources, args.output, args.scratch, say)


@verb(
    "smoke-report",
    "Say whether what must be true of a first run is.",
    RUN,
    needed("--folder", Path, "what the run made"),
    needed("--resumed", Path, "what smoke-resume made of it"),
    needed("--table", Path, "CSV of a table in which the run is"),
)
def smoke_report(args: Namespace) -> None:
    from tamtrl.planning.smoke import report

    report(args.run, args.folder, args.resumed, args.table, args.output, say)
