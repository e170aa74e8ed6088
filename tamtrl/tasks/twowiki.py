"""2WikiMultihopQA: HotpotQA's keys, and where the archive has them the ids of answers and the aliases of ids."""

from functools import partial
from pathlib import Path

from tamtrl.errors import UserError
from tamtrl.tasks import hotpotqa
from tamtrl.tasks.containers import members
from tamtrl.tasks.records import records
from tamtrl.tasks.typed import Record, decoded, sound

ALIASES = "id_aliases.json"


class Alias(Record):
    Q_id: str
    aliases: list[str]
    demonyms: list[str]


def parser(source: Path):
    """The parse function of records in ``source``: a file, an archive or a folder, with ``id_aliases.json`` in it or, for a file,
    beside it."""
    return partial(hotpotqa.parse, model=hotpotqa.TwoWiki, aliases=aliases(source))


def aliases(source: Path) -> dict[str, list[str]]:
    """Names of an answer by its id, as the official evaluation takes them: aliases, and demonyms ("American")."""
    inside = [name for name in members(source) if Path(name).name == ALIASES]
    if len(inside) > 1:
        raise UserError(f"{source} holds {', '.join(inside)}; one {ALIASES} is wanted.")
    if inside:
        found = records(source / inside[0]) if source.is_dir() else records(source, inside[0])
    elif (beside := source.parent / ALIASES).exists() and not source.is_dir():
        found = records(beside)
    else:
        return {}
    rows = sound(
        found, lambda record, where: decoded(Alias, record, "a line of 2WikiMultihopQA's aliases", where), source, "aliases"
    )
    return {row.Q_id: [*row.aliases, *row.demonyms] for row in rows}
