"""Which files a path means: what is there, what a folder holds, and what of it is data by its name."""

import os
import re
import stat
import warnings
from collections import Counter
from pathlib import Path, PurePath, PurePosixPath

from tamtrl.errors import DataWarning, UserError, shown

KINDS = (".json", ".jsonl", ".ndjson", ".parquet", ".txt")
LINES = (".jsonl", ".ndjson")  # other names of JSON may be lists and mappings of records too
PACKED = (".gz", ".bz2", ".xz")
DESCRIPTIONS = ("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "id_aliases.json")
READ_BY_PEOPLE = ("readme", "license", "licence", "citation", "notice")
NAMED = 5
SHARD = re.compile(r"(.*)-\d{5}-of-(\d{5})\.[^/]*")


def kind(name: str) -> str:
    """The last suffix that says what the text is: .jsonl of ``a.jsonl.gz``, .json of ``x.txt.json``; empty where none does."""
    return next((suffix for part in reversed(PurePosixPath(name).suffixes) if (suffix := part.lower()) in KINDS), "")


def is_folder(path: Path) -> bool:
    """Whether it is a folder and not a file. Raises UserError where it is neither."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"Data file {path} does not exist.") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} can't be read ({getattr(error, 'strerror', None) or error}).") from None
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise UserError(f"{path} is a pipe or a device, not a file; save what it gives and take that.")
    return stat.S_ISDIR(mode)


def foreign(name: PurePath) -> bool:
    """What archivers, hubs and systems add for themselves (._name, .cache, __MACOSX)."""
    return any(part.startswith((".", "__MACOSX")) for part in name.parts)


def hidden(name: PurePath) -> bool:
    """What isn't records: foreign files and descriptions of data."""
    return foreign(name) or name.name in DESCRIPTIONS


def files(folder: Path) -> list[Path]:
    """All files under ``folder`` but foreign ones, by name. Links to folders are followed, each folder once."""
    found, known = [], set()

    def fail(error: OSError) -> None:
        raise UserError(f"{error.filename} can't be read ({error.strerror}).")

    for place, folders, names in os.walk(folder, onerror=fail, followlinks=True):
        if (real := os.path.realpath(place)) in known:
            folders.clear()
            continue
        known.add(real)
        folders.sort()
        found += [Path(place, name) for name in names]
    return sorted(path for path in found if not foreign(path.relative_to(folder)))


def data_files(folder: Path) -> list[Path]:
    """The files of records in ``folder``, by name. Others are named in a warning, so that nothing is left out in silence."""
    chosen, others = [], []
    for path in files(folder):
        plain = path.name.lower()
        for suffix in PACKED:
            plain = plain.removesuffix(suffix)
        if hidden(path.relative_to(folder)):
            continue
        if plain.endswith(KINDS[:-1]) and path.is_file():
            chosen.append(path)
        elif not (plain.startswith(READ_BY_PEOPLE) or plain.endswith((".md", ".py"))):
            others.append(path)
    named = listed([path.relative_to(folder).as_posix() for path in others])
    if not chosen:
        raise UserError(f"Folder {folder} holds no .json, .jsonl, .ndjson or .parquet file; it holds {named}.")
    if others:
        warnings.warn(f"Folder {folder}: {named} left out, being no files of JSON or parquet by name.", DataWarning, stacklevel=2)
    whole_sets(folder, chosen)
    return chosen


def whole_sets(folder: Path, chosen: list[Path]) -> None:
    """Refuse a part of a set that was cut into numbered files (train-00000-of-00002.parquet)."""
    sets = Counter(found.groups() for path in chosen if (found := SHARD.fullmatch(str(path))))
    for (name, total), count in sets.items():
        if count != int(total):
            raise UserError(f"Folder {folder} holds {count} of {int(total)} files {Path(name).name}-…; get all of them.")


def one_file(folder: Path, member: str) -> Path:
    """The file that is called ``member``, or ends with it below a folder. Where several could be meant, none is taken."""
    found = files(folder)
    chosen = [path for path in found if f"/{path.relative_to(folder).as_posix()}".endswith(f"/{member}")]
    if len(chosen) == 1:
        return chosen[0]
    names = listed([path.relative_to(folder).as_posix() for path in chosen or found])
    if chosen:
        raise UserError(f"Folder {folder} holds {names}; say which with `member`.")
    raise UserError(f"Folder {folder} holds no {shown(member, 100)}; it holds {names}.")


def listed(names: list[str], most: int = NAMED) -> str:
    """A few of the names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(shown(name, 100) for name in names[:most]) + more if names else "nothing"
