"""Runs that an archive has (`--config archive=FOLDER_OR_ADDRESS`, made by `tamtrl publish`) are restored, not made again. A run
counts as there when the settings agree; with all its predictions, those of tests too, nothing else of it is needed, and with its
model, predictions are made here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tamtrl.errors import UserError
from tamtrl.record import archive
from tamtrl.record.archive import settings_digest
from tamtrl.workflow.run_settings import RunSettings
from tamtrl.workflow.run_table import run_name


def index_file(place: str, fetched: Path) -> Path | None:
    """The local index of the archive, if one is configured."""
    if not place:
        return None
    if not place.startswith(("http://", "https://")):
        return Path(place) / archive.INDEX
    local = fetched / archive.INDEX
    if not local.exists():
        raise UserError(f"Fetch the archive's index first: tamtrl archive-index {place} --output {local}")
    return local


def settings_of(runs: RunSettings, case: Mapping) -> dict | None:
    """What run.yaml will hold, apart from the places of files; nothing for an untrained backbone."""
    row = runs.table.row(case)
    if row.training == "none":
        return None
    if row.training == "rl":
        return runs.training(row, case["seed"], "", runs.train_set("train", row), "")
    names = ("model_path", "trajectories", "teacher_path", "teacher_probabilities")
    return runs.distillation(row, case["seed"], train_data=runs.train_set("train"), **dict.fromkeys(names, ""))


@dataclass
class Restored:
    """Runs of the archive that stand for selected ones, by what is restored of them, and predictions of tests beside Table 1."""

    index: Path | None
    records: list[str] = field(default_factory=list)  # predictions too
    models: list[str] = field(default_factory=list)
    tests: list[tuple[str, str]] = field(default_factory=list)  # run, tests/TEST/predictions/BENCHMARK

    @classmethod
    def load(cls, runs: RunSettings, place: str, fetched: Path) -> "Restored":
        """``place`` of the archive, or nothing; ``fetched``: the folder for the index of one behind an address."""
        found = cls(index_file(place, fetched))
        entries = archive.load(found.index)["runs"] if found.index else {}
        for case in runs.table.cases(runs.table.selected):
            entry = entries.get(run_name(case))
            if entry and entry["settings"] == settings_digest(settings_of(runs, case)):
                found._add(runs, case, entry)
        return found

    def _add(self, runs: RunSettings, case: Mapping, entry: Mapping) -> None:
        name, row, seed = run_name(case), runs.table.row(case), case["seed"]
        asked, tests = runs.tests_of(row), []
        for test, benchmark in asked:
            inside = f"tests/{test}/predictions/{benchmark}"
            as_asked = settings_digest(runs.evaluation(row, seed, test))
            if entry.get("tests", {}).get(test) == as_asked and f"{inside}.jsonl.gz" in entry["files"]:
                tests.append((name, inside))
        predictions = {f"predictions/{benchmark}.jsonl.gz" for benchmark in runs.configuration.evaluated}
        evaluated = entry["evaluation"] == settings_digest(runs.evaluation(row, seed)) and predictions <= set(entry["files"])
        if evaluated and (len(tests) == len(asked) or row.training == "none"):  # whose model is there
            self.records.append(name)
        elif any(file.startswith("model/") for file in entry["files"]):
            self.models.append(name)
        else:
            return  # trained, since something needs its model: then all of it is of that model
        self.tests += tests

    def has(self, case: Mapping) -> bool:
        return run_name(case) in self.records + self.models

    def trained(self) -> list[str]:
        """Runs whose record is more than predictions: an untrained backbone has none."""
        return [name for name in self.records if "/base/" not in name]
