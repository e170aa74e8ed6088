"""Files appear whole or not at all: write under a temporary name in the same folder, then rename."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tamtrl.errors import UserError


def _beside(path: Path) -> Path:
    """A temporary name in the same folder, which is made. The suffix stays last: writers choose their format by it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(f".{os.getpid()}.tmp.{path.name}")


@contextmanager
def whole(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path that becomes ``path`` when the block ends well, and disappears when it doesn't."""
    temporary = _beside(path := Path(path))
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: str | Path) -> Iterator[Path]:
    """As ``whole``, of a folder that doesn't exist yet; one of that name is replaced."""
    temporary = _beside(path := Path(path))
    try:
        yield temporary
        if path.exists():
            shutil.rmtree(path)
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: str | Path, text: str) -> None:
    with whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def sha256(path: str | Path) -> str:
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_yaml(path: str | Path) -> dict:
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} must hold a mapping of keys to values, not {type(content).__name__}.")
    return content
