"""Stored records of what a model answered: one compressed JSON line each."""

import gzip
import json
import zlib
from pathlib import Path

from tamtrl.errors import UserError


def read_predictions(path: str | Path) -> list[dict]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            return [json.loads(line) for line in stream]
    except FileNotFoundError:
        raise UserError(f"Prediction file {path} does not exist.") from None
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise UserError(f"{path} is not a complete prediction file ({error}).") from None
