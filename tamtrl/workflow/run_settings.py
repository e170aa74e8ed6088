"""From a row of the run table to complete, checked settings: run.yaml and evaluation.yaml, built while the rules are read, so
that a bad value stops the workflow before any job starts."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field

from tamtrl import credit
from tamtrl.errors import UserError
from tamtrl.record import code_digest
from tamtrl.settings import DistillationRun, EvaluationRun, Run
from tamtrl.stored import build
from tamtrl.workflow.configuration import Configuration
from tamtrl.workflow.documents import known, typed
from tamtrl.workflow.patterns import data_set
from tamtrl.workflow.run_table import Row, RunTable

OVERRIDABLE = ("reading", "train_sets", "training", "distillation", "credit", "judge", "evaluation")
TRAJECTORIES = ("sft", "kd")  # how a run on trajectories is trained
SERVING = ("window_tokens", "in_flight", "timeout_seconds", "failures_allowed", "gpu_memory")  # of a scorer, whichever it is


def validated(kind: type, mapping: dict, where: str) -> dict:
    build(kind, mapping, where)
    return mapping


def scorer_kind(row: Row) -> str | None:
    """judge, prm, or nothing: what a run's credit method needs beside the policy."""
    kinds = {"judge", "prm"} & set(credit.needs(row.credit)) if row.credit else set()
    if len(kinds) > 1:
        raise UserError(f"Credit method {row.credit} needs a judge and a prm; a run has one of them.")
    return next(iter(kinds), None)


@dataclass(frozen=True, eq=False)
class RunSettings:
    configuration: Configuration
    table: RunTable
    _sections: dict[Row, dict] = field(default_factory=dict)

    def of(self, row: Row) -> dict:
        """The configuration with the row's overrides (`section.key=value`, separated by spaces) laid over it. Read only."""
        if row not in self._sections:
            self._sections[row] = self._resolved(row)
        return self._sections[row]

    def _resolved(self, row: Row) -> dict:
        sections = deepcopy({name: self.configuration[name] for name in OVERRIDABLE}) | {"train_reading": {}}
        for override in row.overrides.split():
            key, _, value = override.partition("=")
            section, _, name = key.partition(".")
            known_as = "reading" if section == "train_reading" else section
            if name not in sections.get(known_as, {}):
                raise UserError(self._complaint(row, f"overrides {key!r}, which does not exist."))
            schema = self.configuration.schema[known_as].get("properties", {}).get(name, {})
            sections[section][name] = typed(value, schema)
        sections["train_reading"] = sections["reading"] | sections["train_reading"]  # tested as the others are
        return sections

    def _complaint(self, row: Row, sentence: str) -> str:
        return f"{self.table.path}: {row.method} {row.variant} {sentence}"

    def train_set(self, use: str, row: Row | None = None) -> str:
        """``use``: train or validation; of a row, or of the configuration."""
        sets = self.configuration["train_sets"] if row is None else self.of(row)["train_sets"]
        return data_set(sets[use])

    def training(self, row: Row, seed: int | str, model: str, train: str, validation: str, scorer: str = "") -> dict:
        """run.yaml of reinforcement learning. ``scorer``: the model that the job serves beside the policy."""
        sections = self.of(row)
        run = self._case(row, seed) | {
            "model_path": model,
            "train_data": train,
            "validation_data": validation,
            "reading": sections["train_reading"],
            "credit": {"method": row.credit} | sections["credit"],
            "training": sections["training"],
        }
        return validated(Run, run | self._scorer(row, scorer), " ".join(row.key))

    def training_code(self, row: Row) -> str:
        return code_digest.of_training(row.credit, scorer_kind(row) is not None)

    def distillation(self, row: Row, seed: int | str, **files: str) -> dict:
        """run.yaml of a run on trajectories. ``files``: its paths."""
        sections = self.of(row)
        run = self._case(row, seed) | {
            "loss": row.training,
            "reading": sections["reading"],
            "distillation": sections["distillation"],
        }
        return validated(DistillationRun, run | files, " ".join(row.key))

    def evaluation(self, row: Row, seed: int | str, test: str | None = None) -> dict:
        """evaluation.yaml of Table 1, or of a test, whose token budgets may differ from the row's."""
        sections = self.of(row)
        reading = sections["reading"] | (self.configuration.test_reading(test) or {})
        run = {"seed": int(seed), "reading": reading, "evaluation": sections["evaluation"]}
        return validated(EvaluationRun, run, " ".join(row.key))

    def tests_of(self, row: Row) -> list[tuple[str, str]]:
        """What a row is tested on beside Table 1's benchmarks: (test, benchmark) pairs."""
        tests = [test for item in row.items for test in self.configuration["tests"].get(item, [])]
        return [(test["name"], benchmark) for test in tests for benchmark in test["benchmarks"]]

    def first_trained(self, pattern: str) -> str:
        """A file of the first selected run of reinforcement learning."""
        for row in self.table.selected:
            if row.training == "rl":
                return pattern.format(**row.case(self.table.seeds[0]))
        raise UserError("`smoke` checks a run of reinforcement learning, and `select` leaves none.")

    def check(self) -> None:
        """Every selected row."""
        file = self.table.path
        for row in self.table.selected:
            self.evaluation(row, 0)
            known(self.of(row)["train_sets"].values(), self.configuration.datasets, f"data set in {file}:")
            if row.training != "rl" and any(word in row.overrides for word in ("train_sets.", "train_reading.")):
                sentence = (
                    "overrides train_sets or train_reading, which only training rl can: trajectories are sampled over the "
                    "configured training set."
                )
                raise UserError(self._complaint(row, sentence))
            if row.training == "rl":
                self.training(row, 0, "", "", "")
            elif row.training in TRAJECTORIES:
                self._check_distillation(row)

    def _check_distillation(self, row: Row) -> None:
        names = ("model_path", "train_data", "trajectories", "teacher_path", "teacher_probabilities")
        settings = self.distillation(row, 0, **dict.fromkeys(names, ""))["distillation"]
        known([settings["teacher"]], ["self", *self.configuration.models], f"teacher in {self.table.path}:")
        if settings["rounds"] > 1 and settings["teacher"] != "self":
            raise UserError(self._complaint(row, "has rounds but its teacher is not self."))

    def _case(self, row: Row, seed: int | str) -> dict:
        return row.case(int(seed))

    def _scorer(self, row: Row, path: str) -> dict:
        """The section `scorer` of run.yaml, where the credit method needs one."""
        kind = scorer_kind(row)
        if not kind:
            return {}
        settings: Mapping = self.of(row)["judge"] if kind == "judge" else self.configuration["prm"]
        own = {"kind": kind, "model": "prm", "path": path, "endpoint": "", "answer_tokens": 0, "dtype": "float32", "request": {}}
        if kind == "judge":
            own |= {key: settings[key] for key in ("model", "endpoint", "answer_tokens", "dtype", "request")}
            own["path"] = "" if settings["endpoint"] else path
        return {"scorer": own | {key: settings[key] for key in SERVING}}
