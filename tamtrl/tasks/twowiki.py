"""2WikiMultihopQA: HotpotQA's keys, and where the archive has them the ids of answers and the aliases of ids."""

import warnings
from functools import partial
from pathlib import Path, PurePosixPath

from tamtrl.errors import DataWarning, UserError
from tamtrl.tasks import hotpotqa
from tamtrl.tasks.containers import members
from tamtrl.tasks.folders import is_folder, listed
from tamtrl.tasks.questions import Question
from tamtrl.tasks.records import records
from tamtrl.tasks.typed import ListOf, Parse, Record, decoded, sound

ALIASES = "id_aliases.json"


class Alias(Record):
    Q_id: str
    aliases: ListOf[str]
    demonyms: ListOf[str]


def parser(source: Path) -> Parse[Question]:
    """The parse function of records in ``source``: a file, an archive or a folder, with ``id_aliases.json`` in it or, for a file,
    beside it."""
    return partial(hotpotqa.parse, model=hotpotqa.TwoWiki, aliases=aliases(source))


def aliases(source: Path) -> dict[str, list[str]]:
    """Names of an answer by its id, as the official evaluation takes them: aliases, and demonyms ("American")."""
    folder = is_folder(source)
    inside = [name for name in members(source) if PurePosixPath(name).name == ALIASES]
    if len(inside) > 1:
        raise UserError(f"{source} holds {listed(inside)}; one {ALIASES} is wanted.")
    if inside:
        found = records(source / inside[0]) if folder else records(source, inside[0])
    elif not folder and (beside := source.parent / ALIASES).exists():
        found = records(beside)
    else:
        return {}
    rows = sound(
        found, lambda record, where: decoded(Alias, record, "a line of 2WikiMultihopQA's aliases", where), source, "aliases"
    )
    names: dict[str, list[str]] = {}
    twice: list[str] = []
    for row in rows:
        twice += [row.Q_id] if row.Q_id in names else []
        names.setdefault(row.Q_id, []).extend([*row.aliases, *row.demonyms])
    if twice:
        text = f"{source}: {ALIASES} has {len(twice)} ids again ({listed(twice)}); all of their names count."
        warnings.warn(text, DataWarning, stacklevel=2)
    return names
