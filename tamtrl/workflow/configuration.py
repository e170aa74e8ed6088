"""The configuration: what the user gave, laid over what it extends and over config.yaml; the files that it names; and what it
says of benchmarks and tests."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from tamtrl.errors import UserError
from tamtrl.workflow import checkout
from tamtrl.workflow.documents import check, known, named, read, typed

# Their values may come as text.
SECTIONS = (
    "seeds", "more_seeds", "tests", "reading", "closed_book", "data_seed", "training", "distillation", "credit", "judge", "prm",
    "evaluation", "resources",
)  # fmt: skip


@cache
def defaults(root: Path) -> dict:
    return read(root / "config" / "config.yaml")


@cache
def schema(root: Path, name: str) -> dict:
    return read(root / "workflow" / "schemas" / name)


def lay_over(below: dict, given: Mapping) -> None:
    """Mappings key by key, at every depth; any other value replaces the one below."""
    for key, value in given.items():
        if isinstance(value, Mapping):
            inner = below.get(key)
            below[key] = inner if isinstance(inner, dict) else {}
            lay_over(below[key], value)
        else:
            below[key] = value


def complete(given: Mapping, root: Path, before: tuple[str, ...] = ()) -> dict:
    """What the user gave, laid over the configuration that it extends, and so on down to config.yaml."""
    parent = given.get("extends")
    if parent in before:
        raise UserError(f"{parent} extends itself, through {' and '.join(before)}.")
    if parent:
        file = checkout.ours(root, parent) if (root / parent).exists() else parent
        extended = read(file)
        if not isinstance(extended, dict):
            raise UserError(f"{file} must hold keys and values: a configuration extends it.")
        below = complete(extended, root, (*before, parent))
    else:
        below = deepcopy(defaults(root))
    lay_over(below, given)
    return below


@dataclass(frozen=True, eq=False)
class Configuration:
    """``values``: the configuration itself, as rules know it; the rest is what it names."""

    root: Path
    values: dict
    schema: dict  # of its sections
    runs_file: str
    models_file: str
    models: dict
    datasets: dict
    sources_file: str
    sources: dict
    own_files: dict  # of the user's, in place of sources: `--config NAME=FILE`
    own_models: bool  # models.yaml is not ours

    @classmethod
    def load(cls, values: dict, root: Path) -> "Configuration":
        """The sections of ``values`` are replaced by what they mean."""
        outline = schema(root, "config.yaml")
        for name in SECTIONS:
            values[name] = typed(values.get(name), outline["properties"][name])
        if isinstance(values["credit"], dict) and values["credit"].get("minmax") is False:
            values["credit"]["minmax"] = "off"  # YAML reads a bare off as false
        ours = defaults(root)
        files = {
            name: checkout.located(root, values[name], values[name] == ours[name])
            for name in ("runs", "models", "datasets", "sources")
        }
        documents: dict[str, Any] = {}
        for name in ("sources", "models", "datasets"):
            documents[name] = read(files[name])
            check(documents[name], schema(root, f"{name}.yaml"), files[name])
            named(documents[name], files[name])
            if name == "sources":
                own_files = {source: values[source] for source in documents["sources"] if source in values}
                check({key: value for key, value in values.items() if key not in own_files}, outline, "configuration")
        named(values["means"], "configuration: means")
        return cls(
            root=root,
            values=values,
            schema=outline["properties"],
            runs_file=files["runs"],
            models_file=files["models"],
            models=documents["models"],
            datasets=documents["datasets"],
            sources_file=files["sources"],
            sources=documents["sources"],
            own_files=own_files,
            own_models=values["models"] != ours["models"],
        )

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @cached_property
    def as_given(self) -> dict:
        """Without the names of the user's own files, which are no settings."""
        return {key: value for key, value in self.values.items() if key not in self.own_files}

    def check_benchmarks(self) -> None:
        means = self["means"]
        known([part for parts in means.values() for part in parts], self.datasets, "benchmark in means:")
        known([*self["evaluate_on"], *self["average_over"]], [*self.datasets, *means], "benchmark")
        known(self["train_sets"].values(), self.datasets, "data set in train_sets:")
        known(self["closed_book"]["models"], self.models, "model in closed_book:")

    def f1_rule(self, benchmark: str) -> str:
        """Whose official F1."""
        return self.datasets[benchmark].get("f1_rule", "hotpotqa")

    @cached_property
    def evaluated(self) -> list[str]:
        """The benchmarks of Table 1, in order, each once."""
        means = self["means"]
        return list(dict.fromkeys(part for column in self["evaluate_on"] for part in means.get(column, [column])))

    @property
    def means(self) -> list[str]:
        """As commands take them."""
        return [f"{name}={','.join(parts)}" for name, parts in self["means"].items()]

    @cached_property
    def shown(self) -> str:
        """The benchmark that Figures 5-7 and those of memories show."""
        return self["sweep_on"] if self["sweep_on"] in self.evaluated else self.evaluated[0]

    @cached_property
    def note(self) -> str:
        """Under every table: what it was made at, and that generated sets are no benchmarks of the paper."""
        stands_for = {name: self.datasets[name].get("stands_for") for name in self.evaluated}
        told = ", ".join(f"{name} for {paper}" for name, paper in stands_for.items() if paper)
        return f"{self['note']} Generated stand-ins: {told}." if told else self["note"]

    @cached_property
    def tests(self) -> dict[str, dict]:
        """What is tested beside Table 1, by name; an item of runs.tsv has some."""
        found: dict[str, dict] = {}
        for test in (test for tests in self["tests"].values() for test in tests):
            if found.setdefault(test["name"], test) != test:
                raise UserError(f"configuration: two different tests are called {test['name']!r}; give each its own name.")
        return found

    def check_tests(self) -> None:
        known([name for test in self.tests.values() for name in test["benchmarks"]], self.datasets, "benchmark in tests:")

    def test_reading(self, name: str | None) -> dict | None:
        """Budgets of a test that differ from the row's; none of Table 1 (None)."""
        return self.tests[name].get("reading") if name is not None else None
