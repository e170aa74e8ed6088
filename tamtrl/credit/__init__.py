"""Credit assignment: who in a trajectory gets how much of the outcome. Pure functions of tensors.

One file per method. A method is a module with ``NEEDS`` (a tuple of what must be computed for it: ``"teacher"``, ``"judge"``,
``"prm"``, or nothing), ``rewards(turns, settings)`` and ``advantages(turns, rewards, settings)``; its name is its file's. One
that needs the teacher also has ``score(log_probs, settings)``, which makes a score of the teacher's log-probabilities, and a
higher one of higher ones.
"""

import ast
import importlib
import pkgutil
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from tamtrl.errors import UserError

_HELPERS = {"base", "normalise", "rounding", "scored", "settings"}


def names() -> list[str]:
    """Every credit method there is."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in _HELPERS)


def _require(name: str) -> None:
    if name not in names():
        raise UserError(f"Unknown credit method {name!r}; there are {', '.join(names())} (one file each in tamtrl/credit).")


def load(name: str) -> ModuleType:
    _require(name)
    return importlib.import_module(f"{__name__}.{name}")


def needs(name: str) -> tuple[str, ...]:
    """``NEEDS`` of a method, read from its file without importing it: the workflow asks often, and must not load torch."""
    _require(name)
    path = Path(__path__[0]) / f"{name}.py"
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            targets: Sequence[ast.expr] = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "NEEDS" for target in targets):
                return tuple(ast.literal_eval(node.value))
        if isinstance(node, ast.ImportFrom) and node.module and any(alias.name == "NEEDS" for alias in node.names):
            return needs(node.module.rpartition(".")[2])
    raise UserError(f"{path} has no line `NEEDS = (...)`; a credit method says there what must be computed for it.")
