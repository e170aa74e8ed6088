"""The run table (runs.tsv): a row a run of one model, and which of them the configuration selects."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from tamtrl import credit, frames
from tamtrl.errors import UserError
from tamtrl.workflow.configuration import Configuration, schema
from tamtrl.workflow.documents import check, known

KEYS = ("model", "method", "variant")
CLAIMS = "claims"


@dataclass(frozen=True)
class Row:
    model: str
    method: str
    variant: str
    training: str  # none, rl, sft or kd
    credit: str
    overrides: str
    items: tuple[str, ...]  # tables and figures it belongs to

    @property
    def key(self) -> tuple[str, str, str]:
        return self.model, self.method, self.variant

    def case(self, seed: int | str) -> dict:
        """The wildcards of a run."""
        return {"model": self.model, "method": self.method, "variant": self.variant, "seed": seed}


def run_name(case: Mapping) -> str:
    """A run's folder, as archives name it."""
    return "{model}/{method}/{variant}/seed{seed}".format(**case)


def read(path: str, schema: Mapping, models: Iterable[str]) -> list[Row]:
    """One row a run: model and items are lists in the file, and become a row a model and a tuple."""
    lines = cast(list[dict[str, Any]], frames.read(path, separator="\t").to_dict("records"))  # columns are named by text
    for number, line in enumerate(lines, start=2):
        check(line, schema, f"{path} line {number}")
    rows = [
        Row(**line | {"model": model, "items": tuple(line["items"].split(","))})
        for line in lines
        for model in line["model"].split(",")
    ]
    seen = set()
    for row in rows:
        if row.key in seen:
            raise UserError(f"{path}: {' '.join(row.key)} stands there twice.")
        seen.add(row.key)
    known([row.model for row in rows], models, f"model in {path}:")
    known([row.credit for row in rows if row.credit], credit.names(), f"credit method in {path}:")
    return rows


def select(rows: Sequence[Row], wanted: Mapping, left_out: Sequence[str], path: str) -> list[Row]:
    """The rows that config's `select` asks for; a value that matches nothing is an error."""
    chosen = list(rows)
    for column, asked in wanted.items():
        values = asked if isinstance(asked, list) else [asked]
        if not asked:
            continue  # all
        known(values, sorted({value for row in rows for value in _cell(row, column)}), column)
        chosen = [row for row in chosen if set(_cell(row, column)) & set(values)]
    known(left_out, sorted({row.method for row in rows}), "method in leave_out:")
    chosen = [row for row in chosen if row.method not in left_out]
    if not chosen:
        raise UserError(f"`select` ({wanted}) matches no row of {path}.")
    return chosen


def _cell(row: Row, column: str) -> tuple[str, ...]:
    value = getattr(row, column)
    return value if isinstance(value, tuple) else (value,)


@dataclass(frozen=True, eq=False)
class RunTable:
    path: str
    every: list[Row]
    selected: list[Row]
    seeds: list[int]
    more_seeds: Sequence[int] = ()
    repeated: Sequence[Row] = ()  # with these too

    @classmethod
    def load(cls, configuration: Configuration) -> "RunTable":
        path = configuration.runs_file
        every = read(path, schema(configuration.root, "runs.yaml"), configuration.models)
        selected = select(every, configuration["select"], configuration["leave_out"], path)
        more = configuration["more_seeds"]
        repeated = select(every, more["select"], [], path) if more["seeds"] else []
        return cls(path, every, selected, configuration["seeds"], more["seeds"], repeated)

    @cached_property
    def _by_key(self) -> dict[tuple, Row]:
        return {row.key: row for row in self.every}

    def row(self, case: Mapping) -> Row:
        """``case``: the wildcards of a job, or of `cases`."""
        key = tuple(case[name] for name in KEYS)
        if key not in self._by_key:
            raise UserError(f"{self.path} has no run {' '.join(key)}.")
        return self._by_key[key]

    def of(self, item: str) -> list[Row]:
        """The selected rows of a table or figure. Claims are about any."""
        return [row for row in self.selected if item in (*row.items, CLAIMS)]

    def seeds_of(self, row: Row) -> list[int]:
        return list(dict.fromkeys([*self.seeds, *(self.more_seeds if row in self.repeated else [])]))

    @property
    def trained(self) -> list[Row]:
        return [row for row in self.selected if row.training != "none"]

    def methods(self, *trainings: str) -> list[str]:
        """Those that are trained so."""
        return [row.method for row in self.every if row.training in trainings]

    def cases(self, rows: Iterable[Row], benchmarks: Sequence[str] = ()) -> list[dict]:
        """The wildcards of every row and seed, and of every benchmark if any, in table order."""
        runs = [row.case(seed) for row in rows for seed in self.seeds_of(row)]
        return [run | {"benchmark": name} for run in runs for name in benchmarks] if benchmarks else runs

    def files(self, pattern: str, rows: Iterable[Row], benchmarks: Sequence[str] = ()) -> list[str]:
        return [pattern.format(**case) for case in self.cases(rows, benchmarks)]

    def listed(self, item: str, benchmarks: Sequence[str]) -> list[dict]:
        """The cases of a table, each with whether it is ours, not the paper's."""
        return [case | {"ours": "ours" in self.row(case).items} for case in self.cases(self.of(item), benchmarks)]
