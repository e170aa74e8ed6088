"""Dataclasses kept as YAML: each key known, there and of its type, or one sentence that says which isn't."""

import dataclasses
import types
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_args, get_type_hints

import yaml

from tamtrl import files
from tamtrl.errors import UserError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


@dataclass(frozen=True)
class Stored:
    """What is loaded from one file and saved to one."""

    @classmethod
    def load(cls, path: str | Path) -> Self:
        return build(cls, files.read_yaml(path), str(path))

    def save(self, path: str | Path) -> None:
        files.write_text(path, yaml.safe_dump(dataclasses.asdict(self), sort_keys=False))


def build(cls: type[T], mapping: dict[str, Any], where: str) -> T:
    """A dataclass from a mapping, nested ones included; unknown, missing and ill-typed keys are named."""
    known = {field.name: field for field in dataclasses.fields(cls)}
    for key in mapping:
        if key not in known:
            raise UserError(f"{where}: unknown key {key!r}; known are {', '.join(known)}.")
    missing = [name for name, field in known.items() if name not in mapping and field.default is dataclasses.MISSING]
    if missing:
        raise UserError(f"{where}: key {missing[0]!r} is missing.")
    hints = get_type_hints(cls)
    return cls(**{key: _value(hints[key], value, f"{where}: {key}") for key, value in mapping.items()})


def _value(hint: Any, value: Any, where: str) -> Any:
    if isinstance(hint, types.UnionType):  # "a dataclass or nothing"
        if value is None:
            return None
        hint = next(inner for inner in get_args(hint) if dataclasses.is_dataclass(inner))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise UserError(f"{where} must hold keys and values, not {value!r}.")
        return build(hint, value, where)
    if isinstance(hint, types.GenericAlias):
        (inner,) = get_args(hint)
        if not isinstance(value, list):
            raise UserError(f"{where} must be a list, not {value!r}.")
        return [_value(inner, item, where) for item in value]
    # YAML reads 1e-6 as text and 1 as an integer where a float is meant.
    if hint is float and not isinstance(value, bool):
        try:
            return float(value)
        except (TypeError, ValueError):
            raise UserError(f"{where} must be a number, not {value!r}.") from None
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise UserError(f"{where} must be {hint.__name__}, not {value!r}.")
    return value
