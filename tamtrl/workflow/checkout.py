"""The checkout that a workflow belongs to, and what the jobs of the workflow are given of it."""

import os
import sys
from pathlib import Path

import tamtrl
from tamtrl.errors import UserError
from tamtrl.jobs.time_limit import RESTARTABLE

PYTHON = "TAMTRL_PYTHON"


def use(root: Path, submitted: bool) -> None:
    """Rules say `tamtrl`: see to it that this is the checkout's (workflow/bin), run by the Python that runs Snakemake, and not
    what the environment has under that name. ``submitted``: this is a job that Snakemake gave to a scheduler."""
    here = Path(tamtrl.__file__).resolve().parents[1]
    if here != root:
        raise UserError(f"{root} would run the code of {here}: one workflow can use one checkout only.")
    os.environ["PATH"] = os.pathsep.join([str(root / "workflow" / "bin"), os.environ["PATH"]])
    os.environ[PYTHON] = sys.executable
    if submitted:
        os.environ[RESTARTABLE] = "1"


def ours(root: Path, path: str) -> str:
    """A file of this checkout. By its short name from the checkout itself: that is what its results were made from."""
    return path if Path.cwd() == root else str(root / path)


def located(root: Path, path: str, of_ours: bool) -> str:
    """A path in a configuration: one of ours is in this checkout; one of the user's where Snakemake works, or else in this
    checkout."""
    return ours(root, path) if of_ours or (not Path(path).exists() and (root / path).exists()) else path
