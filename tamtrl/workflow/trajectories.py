"""Trajectories that a teacher samples, or the model of the round before, and what a run that learns from them is made from.

Round 1 samples with the teacher; a further round (STaR) with the model of the round before. Each trains the backbone anew."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from tamtrl.workflow.backbones import Backbones
from tamtrl.workflow.patterns import ROUND, RUN, TRAJECTORIES, sums
from tamtrl.workflow.run_settings import TRAJECTORIES as LEARNING
from tamtrl.workflow.run_settings import RunSettings
from tamtrl.workflow.run_table import Row

SAMPLING = ("samples", "temperature", "top_p", "thinking", "thinking_tokens", "dtype", "in_flight")


def generation_key(settings: Mapping) -> str:
    """Part of a path. Questions read at once change no trajectory."""
    told = json.dumps({k: v for k, v in settings.items() if k != "in_flight"}, sort_keys=True)
    return f"{settings['samples']}samples-seed{settings['seed']}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Generation:
    settings: dict
    shards: int


@dataclass(frozen=True, eq=False)
class Trajectories:
    runs: RunSettings
    backbones: Backbones

    def generation_settings(self, row: Row, seed: int | str) -> dict:
        """All that trajectories depend on, apart from model and questions; the same for every student of a teacher."""
        sections = self.runs.of(row)
        sampling = {name: sections["distillation"][name] for name in SAMPLING}
        return {"seed": int(seed), "reading": sections["reading"]} | sampling

    @cached_property
    def generations(self) -> dict[str, Generation]:
        table, found = self.runs.table, {}
        for row in table.every:
            if row.training in LEARNING:
                for seed in table.seeds_of(row):
                    settings = self.generation_settings(row, seed)
                    found[generation_key(settings)] = Generation(settings, self.runs.of(row)["distillation"]["shards"])
        return found

    def distillation(self, case: Mapping) -> dict:
        return self.runs.of(self.runs.table.row(case))["distillation"]

    def last_round(self, case: Mapping) -> int:
        return self.distillation(case)["rounds"]

    def teacher(self, case: Mapping) -> str:
        name = self.distillation(case)["teacher"]
        return case["model"] if name == "self" else name

    def folder_of(self, teacher: str, row: Row, seed: int | str) -> str:
        return TRAJECTORIES.format(teacher=teacher, generation=generation_key(self.generation_settings(row, seed)))

    def folder(self, case: Mapping, number: int | str) -> str:
        """Of a run's round."""
        if int(number) == 1:
            return self.folder_of(self.teacher(case), self.runs.table.row(case), case["seed"])
        return ROUND.format(**{**case, "round": number})

    def sampler(self, case: Mapping) -> str:
        """The model of the round before."""
        return ROUND.format(**{**case, "round": int(case["round"]) - 1}) + "/model"

    def files(self, case: Mapping, number: int | str) -> dict[str, str]:
        """The paths in a run.yaml."""
        return {
            "model_path": self.backbones.folder(case["model"]),
            "train_data": self.runs.train_set("train"),
            "trajectories": f"{self.folder(case, number)}/trajectories.parquet",
            "teacher_path": self.backbones.folder(self.teacher(case)),
            "teacher_probabilities": f"{RUN.format(**case)}/teacher.parquet",
        }

    def run(self, case: Mapping, number: int | str, concrete: Callable[[str], str]) -> dict:
        """run.yaml of a round. ``concrete``: puts folders for ``<results>`` and the like."""
        files = {name: concrete(path) for name, path in self.files(case, number).items()}
        return self.runs.distillation(self.runs.table.row(case), case["seed"], **files)

    def inputs(self, case: Mapping, number: int | str) -> list[str]:
        """What training waits for, beside its run.yaml."""
        files = [f"{self.folder(case, number)}/trajectories.parquet", self.runs.train_set("train")]
        files += dict.fromkeys(sums(self.backbones.folder(name)) for name in (case["model"], self.teacher(case)))
        if self.runs.table.row(case).training == "kd" and self.distillation(case)["precompute"]:
            files.append(f"{RUN.format(**case)}/teacher.parquet")
        return files
