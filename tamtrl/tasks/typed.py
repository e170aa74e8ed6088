"""Records by their types, strictly: nothing is coerced, and what doesn't fit is named with its field, what was found and what is
allowed. A few odd records are skipped and named; a file with more of them is refused."""

import hashlib
import json
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, FailFast, ValidationError, model_validator

from tamtrl.errors import DataWarning, UserError
from tamtrl.tasks.example import has_text
from tamtrl.tasks.json_text import TwoValues

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class WithId(Protocol):
    @property
    def id(self) -> str: ...


Identified = TypeVar("Identified", bound=WithId)
Parse = Callable[[Any, str], T | None]
ODD_ALLOWED = 0.001  # of a file's records
NAMED = 5  # odd records that are named one by one
LONGEST = 500  # characters of what is said of one: ids and titles may be damaged text
HOPELESS = 10  # odd records, and no sound one before them: the rest isn't read


def _text(value: str) -> str:
    if not has_text(value):
        raise ValueError("it must hold some text")
    return value


Text = Annotated[str, AfterValidator(_text)]
ListOf = Annotated[list[T], FailFast()]  # one wrong item says enough; a million take gigabytes to name


class Record(BaseModel):
    """Fields that aren't named are ignored."""

    model_config = ConfigDict(strict=True, frozen=True)


class Pair(Record):
    """The official layout has a list of two, whose items are the fields in order."""

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, value: Any) -> Any:
        if isinstance(value, list) and len(value) == len(cls.model_fields):
            return dict(zip(cls.model_fields, value, strict=True))
        return value


def table(*columns: str, optional: str = "") -> BeforeValidator:
    """A list of rows, or what the hub makes of one: a mapping of equally long lists, with these ``columns`` at least. An
    ``optional`` one may be missing, but is a list where it is there."""

    def rows(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        wanted = (*columns, optional) if optional in value else columns
        if missing := [name for name in wanted if not isinstance(value.get(name), list)]:
            found = ", ".join(name if isinstance(value[name], list) else f"{name} (no list)" for name in value)[:200]
            raise ValueError(f"it needs lists called {' and '.join(missing)} (it has {found or 'nothing'})")
        lists = {name: column for name, column in value.items() if isinstance(column, list)}
        if len({len(column) for column in lists.values()}) > 1:
            lengths = ", ".join(f"{name} {len(column)}" for name, column in lists.items())
            raise ValueError(f"its lists differ in length: {lengths[:200]}")
        return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]

    return BeforeValidator(rows)


def decoded(model: type[M], record: object, what: str, where: str) -> M:
    """``record`` as ``model``. Raises UserError with the first three things that don't fit ``what``, e.g. a HotpotQA record."""
    try:
        return model.model_validate(record)
    except ValidationError as error:
        wrong = "; ".join(_told(one) for one in error.errors(include_url=False)[:3])
    hint = ""
    if isinstance(record, dict) and record and all(isinstance(value, (list, dict)) for value in record.values()):
        hint = " All of its fields are lists or mappings: columns instead of rows, or another data set?"
    raise UserError(f"{where} is not {what}: {wrong}.{hint}")


def _told(error: Any) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"]).removeprefix(".")
    found, kind = error["input"], error["type"]
    if kind == "missing":
        return f"it lacks {place}"
    if isinstance(found, TwoValues):
        return f"it has {place} twice"
    allowed = error["msg"].replace("Input should be", "it must be").removeprefix("Value error, ")
    if kind == "model_type":
        allowed = "it must be a mapping"
    return f"{place or 'it'} is {_shown(found)}; {allowed}"


def _shown(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"a mapping of {len(value)}"
    shown = json.dumps(value, default=str)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


def derived_id(*parts: object) -> str:
    """An id for a record that has none, from its content: the same wherever the record stands."""
    return hashlib.sha256(json.dumps(parts, default=list).encode()).hexdigest()[:24]


def sound(items: Iterable[tuple[str, object]], parse: Parse[T], source: object, what: str) -> Iterator[T]:
    """``parse(record, where)`` of each record, where that isn't None (a record that is left out on purpose).

    Records that it refuses are skipped and named at the end of their file (``source`` where places don't say theirs). Raises
    UserError where they are more than ``ODD_ALLOWED`` of the file's, so only at the end is all of it sound.
    """
    for file, part in groupby(items, lambda item: getattr(item[0], "file", source)):
        yield from _sound(part, parse, file, what)


def _sound(items: Iterable[tuple[str, object]], parse: Parse, file: object, what: str) -> Iterator[T]:
    good, odd, named = 0, 0, []
    for where, record in items:
        try:
            made = parse(record, where)
        except UserError as error:
            odd += 1
            named += [textwrap.shorten(str(error), LONGEST)] if odd <= NAMED else []
            if not good and odd == HOPELESS:
                raise UserError(
                    f"{named[0]} None of the first {odd} {what} of {file} can be used; the rest isn't read."
                ) from None
            continue
        good += 1
        if made is not None:
            yield made
    if odd > ODD_ALLOWED * (good + odd):
        count = f"{odd} of {good + odd} {what}"
        raise UserError(f"{named[0]} In all {count} of {file} can't be used; up to {100 * ODD_ALLOWED:g} % would be skipped.")
    if odd:
        text = f"{file}: {odd} of {good + odd} {what} can't be used and were skipped, the first of them: {' '.join(named)}"
        warnings.warn(text, DataWarning, stacklevel=2)


def unique(parse: Parse[Identified]) -> Parse[Identified]:
    """The same, but a second record of one ``id`` is refused."""
    seen: set[str] = set()

    def once(record: Any, where: str) -> Identified | None:
        made = parse(record, where)
        if made is not None:
            if made.id in seen:
                raise UserError(f"{where}: id {made.id!r} appears twice.")
            seen.add(made.id)
        return made

    return once
