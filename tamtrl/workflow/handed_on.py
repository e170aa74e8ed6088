"""Snakemake's ``--config`` for the Snakemakes that it starts, in jobs of a cluster and for ``run:`` rules. It hands values on
through one shell or two without quoting for them: a note with ``$(...)`` would be run, one with a quote or a backslash arrive as
another."""

import json
import re
from collections.abc import Mapping
from typing import Any

SPECIAL = re.compile(r"[^\w ./:,=()+%@-]", re.ASCII)


def arguments(config: Mapping[str, Any]) -> list[str]:
    """A word of a shell command for each key. In quotes, which Snakemake takes for quoting already done, and without any
    character that means something between double quotes, where the SLURM plugin puts it all."""
    return [f"'{key}={'' if value is None else _padded(_yaml(value))}'" for key, value in config.items()]


def _padded(text: str) -> str:
    """Snakemake strips quotes from the ends of a value."""
    return f" {text} " if text.startswith('"') else text


def _yaml(value: Any) -> str:
    """One line of YAML that Snakemake reads as this very value."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_yaml(str(key))}: {_yaml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    if not isinstance(value, str):
        return json.dumps(value)
    return '"' + SPECIAL.sub(lambda found: found[0] if found[0].isalpha() else f"\\U{ord(found[0]):08x}", value) + '"'
