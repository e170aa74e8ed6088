"""Tables in files: the only place that reads or writes one. A cell is text, whatever it looks like ("NA", "null", "007", "1e3",
" x "), unless its column is named as one of numbers or of flags."""

import csv
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd

from tamtrl import files
from tamtrl.errors import UserError


def read(
    path: str | Path,
    numbers: Collection[str] = (),
    flags: Collection[str] = (),
    text: Collection[str] | None = None,
    separator: str = ",",
) -> pd.DataFrame:
    """``numbers``: columns of numbers, in which an empty cell is missing; ``flags``: columns of True and False. ``text``: in
    place of ``numbers``, the columns that don't hold any. UserError for what can't be read, with its line."""
    heading, rows, lines = _cells(Path(path), separator)
    numbers = numbers if text is None else [name for name in heading if name not in text]
    if absent := [name for name in (*numbers, *flags, *(text or ())) if name not in heading]:
        raise UserError(f"{path} has no column {absent[0]}; there are {', '.join(heading)}.")
    columns = {}
    for place, name in enumerate(heading):
        cells = [row[place] for row in rows]
        if name in numbers or name in flags:
            columns[name] = _converted(cells, _number if name in numbers else _flag, f"{path} line {{}}: {name}", lines)
        else:
            columns[name] = pd.Series(cells, dtype=str)
    return pd.DataFrame(columns, columns=heading)


def write(table: pd.DataFrame, path: str | Path, float_format: str | None = None) -> None:
    """As CSV, whole or not at all."""
    # Python's writer leaves a lone carriage return bare, which then ends a row.
    bare = any("\r" in cell for name in table.columns for cell in table[name] if isinstance(cell, str))
    with files.whole(path) as temporary:
        table.to_csv(
            temporary,
            index=False,
            float_format=float_format,
            quoting=csv.QUOTE_NONNUMERIC if bare else csv.QUOTE_MINIMAL,
            lineterminator="\n",
            encoding="utf-8",
        )


def rows(table: pd.DataFrame) -> Iterator[Any]:
    """Each row with its cells as attributes, of the types that the file's columns have."""
    return iter(table.itertuples(index=False))


def groups(table: pd.DataFrame, keys: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """The rows that are alike in ``keys`` (a missing value is like another), each group with its keys, in order of appearance."""
    for key, part in table.groupby(list(keys), sort=False, dropna=False):
        yield tuple(cast(Iterable[Any], key)), part  # of a list of keys pandas makes a tuple


def _cells(path: Path, separator: str) -> tuple[list[str], list[list[str]], list[int]]:
    """Heading, rows, and the line at which each row ends."""
    rows, lines = [], []
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream, delimiter=separator, strict=True)
            for row in reader:
                if row:  # not a blank line
                    rows.append(row)
                    lines.append(reader.line_num)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} can't be read as a table: {error}") from None
    if not rows:
        raise UserError(f"{path} is empty; its first line must name the columns.")
    heading = rows[0]
    if twice := [name for name in heading if heading.count(name) > 1]:
        raise UserError(f"{path} has two columns {twice[0]}.")
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(heading):
            raise UserError(f"{path} line {line} has {len(row)} cells, but there are {len(heading)} columns.")
    return heading, rows[1:], lines[1:]


def _number(cell: str) -> float:
    if "_" in cell or not cell.isascii():  # Python's own spelling, no table's
        raise ValueError
    return float(cell) if cell else float("nan")


def _flag(cell: str) -> bool:
    return {"True": True, "False": False}[cell]


def _converted(cells: Sequence[str], kind: Callable[[str], float], where: str, lines: Sequence[int]) -> pd.Series:
    values = []
    for cell, line in zip(cells, lines, strict=True):
        try:
            values.append(kind(cell))
        except (ValueError, KeyError):
            what = "a number" if kind is _number else "True or False"
            raise UserError(f"{where.format(line)} must be {what}, not {cell!r}.") from None
    if kind is _flag:
        return pd.Series(values, dtype=bool)
    whole = all(len(cell) < 19 and cell.isascii() and cell.lstrip("-").isdecimal() for cell in cells)  # of 64 bits
    return pd.Series(list(map(int, cells)), dtype="int64") if whole else pd.Series(values, dtype="float64")
