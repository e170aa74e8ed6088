"""Documents that a user writes: read, checked against a schema, and their names and values taken as they are meant."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from tamtrl.errors import UserError

# A name is part of paths, of lists with commas, and of commands. The text between may be anything else.
NAME = re.compile(r"[^-\s,={}<>]([^,={}<>\n\r\t]*[^\s,={}<>])?")


def read(path: str | Path) -> Any:
    try:
        return yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path} can't be read: {' '.join(str(error).split())}") from None


def check(document: Any, schema: Mapping, where: str) -> None:
    """One sentence for the first thing that does not fit the schema."""
    error = best_match(Draft202012Validator(schema).iter_errors(document))
    if error:
        place = ".".join(map(str, error.absolute_path))
        raise UserError(": ".join(filter(None, [where, place, error.message])))


def known(values: Iterable, allowed: Iterable, what: str) -> None:
    allowed = list(allowed)
    for value in values:
        if value not in allowed:
            raise UserError(f"Unknown {what} {value!r}; there are {', '.join(map(str, allowed))}.")


def named(document: Iterable, where: str) -> None:
    """Refuses keys that can't be names; YAML reads a bare null, 007 or 1.5 as something else than text."""
    for name in document:
        if not isinstance(name, str):
            raise UserError(f"{where}: the name {name!r} is not text; put it in quotes.")
        if not NAME.fullmatch(name):
            raise UserError(
                f"{where}: {name!r} can't be a name: it is empty, begins with - or a space, ends with a space, or has one of "
                ", = { } < >."
            )


def typed(node: Any, schema: Mapping) -> Any:
    """Text as JSON would read it, else text: `--config` hands over nested values as text, and so does runs.tsv. What the schema
    wants as text stays text: a model may be called null, or 1e3. Keys are sorted: their order depends on which file was laid over
    which, and Snakemake reruns what has its parameters in another order."""
    if isinstance(node, dict):
        others = schema.get("additionalProperties") or {}
        return {key: typed(node[key], schema.get("properties", {}).get(key, others)) for key in sorted(node, key=str)}
    if isinstance(node, list):
        return [typed(value, schema.get("items", {})) for value in node]
    try:
        value = json.loads(node) if isinstance(node, str) else node
    except json.JSONDecodeError:
        return node
    return node if schema.get("type") == "string" and not isinstance(value, str) else value
