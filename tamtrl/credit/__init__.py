"""Credit assignment: who in a trajectory gets how much of the outcome. Pure functions of tensors.

One file per method. A method is a module with ``NEEDS`` (what the trainer must compute for it: ``"teacher"``, or
nothing), ``rewards(turns, settings)`` and ``advantages(turns, rewards, settings)``; its name is its file's.
"""

import importlib
import pkgutil
from types import ModuleType

from tamtrl.errors import UserError

_HELPERS = {"base", "normalise", "settings"}


def names() -> list[str]:
    """Every credit method there is."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in _HELPERS)


def load(name: str) -> ModuleType:
    if name not in names():
        raise UserError(f"Unknown credit method {name!r}; there are {', '.join(names())} (one file each in tamtrl/credit).")
    return importlib.import_module(f"{__name__}.{name}")
