"""Data sets: which the selected runs use, the files they are made from, and what their commands are told of them."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tamtrl.workflow.configuration import Configuration
from tamtrl.workflow.documents import known
from tamtrl.workflow.run_settings import RunSettings


def option(name: str, value: object) -> str:
    """An option and its value as one word each of a shell command; nothing where there is no value."""
    return f"--{name} {shlex.quote(str(value))}" if value else ""


@dataclass(frozen=True, eq=False)
class DataSets:
    runs: RunSettings

    @property
    def configuration(self) -> Configuration:
        return self.runs.configuration

    @property
    def specs(self) -> dict[str, dict]:
        return self.configuration.datasets

    def of_task(self, *tasks: str) -> list[str]:
        return [name for name, spec in self.specs.items() if spec["task"] in tasks]

    @cached_property
    def trained_on(self) -> list[str]:
        """In order, each once; as are the others."""
        return list(dict.fromkeys(self.runs.of(row)["train_sets"]["train"] for row in self.runs.table.selected))

    @cached_property
    def tested_on(self) -> list[str]:
        others = [benchmark for row in self.runs.table.selected for _, benchmark in self.runs.tests_of(row)]
        return list(dict.fromkeys([*self.configuration.evaluated, *others]))

    @cached_property
    def used(self) -> list[str]:
        of_rows = [name for row in self.runs.table.selected for name in self.runs.of(row)["train_sets"].values()]
        return list(dict.fromkeys([*self.configuration["train_sets"].values(), *of_rows, *self.tested_on]))

    @cached_property
    def uses(self) -> list[tuple[str, str]]:
        """The lines of Table A1: use and set."""
        training = [("training", name) for name in self.trained_on]
        validation = ("validation", self.configuration["train_sets"]["validation"])
        return [*training, validation, *(("evaluation", name) for name in self.tested_on)]

    def options(self, name: str, *keys: str) -> str:
        """A data set's own arguments as options of its command."""
        spec = self.specs[name]
        return " ".join(option(key.replace("_", "-"), str(spec[key])) for key in keys if key in spec)

    def paragraphs(self, name: str) -> int | None:
        """Of each document, where the set says so."""
        return self.specs[name].get("documents")

    def source_path(self, source: str) -> str:
        """A file the user gave (`--config hotpotqa_train=FILE`), else the fetched one."""
        given = self.configuration
        known([source], given.sources, f"source in {given.sources_file}:")
        return given.own_files.get(source) or f"<results>/data/raw/{given.sources[source]['file']}"

    def source_of(self, name: str) -> str:
        return self.source_path(self.specs[name]["source"])

    def source_file(self, file: str) -> dict:
        """What sources.yaml says of the file that it calls so."""
        return next(spec for spec in self.configuration.sources.values() if spec["file"] == file)

    def _used(self) -> list[dict]:
        return [self.specs[name] for name in self.used]

    def tokenizers_used(self) -> list[str]:
        """Models whose tokens documents are fitted to."""
        return [spec["tokenizer"] for spec in self._used() if "tokenizer" in spec]

    def models_asked(self) -> list[str]:
        """By the closed-book filter."""
        return self.configuration["closed_book"]["models"] if any(map(self._filtered, self._used())) else []

    def _filtered(self, spec: Mapping) -> bool:
        return bool(spec.get("closed_book") and self.configuration["closed_book"]["models"])

    def verdicts(self, name: str) -> str | list:
        """The closed-book filter's, on a data set's source; nothing where the filter is off."""
        spec = self.specs[name]
        return f"<results>/data/closed_book/{spec['source']}.csv" if self._filtered(spec) else []

    def source_options(self, source: str) -> str:
        """Format and archive member of a filtered source, which the sets made from it agree on."""
        spec = next(spec for spec in self.specs.values() if spec.get("source") == source and spec.get("closed_book"))
        return f"{option('format', spec['task'])} {option('member', spec.get('member'))}"

    def filter_options(self) -> str:
        """How the filter asks each model."""
        settings = {key: value for key, value in self.configuration["closed_book"].items() if key != "models"}
        return " ".join(f"--{key.replace('_', '-')} {value}" for key, value in settings.items())
