"""Where the hours of Table A2 are recorded, and what arithmetic expects of training."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from tamtrl import credit
from tamtrl.planning import costs
from tamtrl.workflow.data_sets import DataSets
from tamtrl.workflow.patterns import PRM, ROUND, RUN
from tamtrl.workflow.resources import devices
from tamtrl.workflow.restored import Restored
from tamtrl.workflow.run_settings import TRAJECTORIES, scorer_kind
from tamtrl.workflow.run_table import KEYS, Row
from tamtrl.workflow.scorers import Scorers

PROJECTED = [*KEYS, "step_seconds", "hours", "gpu_hours", "gib_without_checkpointing", "fits", "assumptions"]


@dataclass(frozen=True, eq=False)
class Times:
    data_sets: DataSets
    scorers: Scorers
    restored: Restored

    def of_run(self, row: Row, seed: int) -> list[dict]:
        """Jobs whose time is a run's: part, file, and which stage's devices they had. Of a restored run only its training is
        known: nothing is sampled again for its time."""
        run = row.case(seed)
        jobs = [] if self.restored.has(run) else [*self._sampling(row, run), *self._scoring(row, run)]
        if row.training != "none":
            jobs.append(("training", f"{RUN}/metrics.csv", "train"))
        return [run | {"part": part, "file": file.format(**run), "stage": stage} for part, file, stage in jobs]

    def _sampling(self, row: Row, run: dict) -> list[tuple[str, str, str]]:
        if row.training not in TRAJECTORIES:
            return []
        trajectories, settings = self.scorers.trajectories, self.data_sets.runs.of(row)["distillation"]
        folders = [trajectories.folder(run, 1)]
        folders += [ROUND.format(**run, round=number) for number in range(2, settings["rounds"] + 1)]
        shards = range(settings["shards"])
        return [("data", f"{folder}/shard{shard}.time.tsv", "evaluate") for folder in folders for shard in shards]

    def _scoring(self, row: Row, run: dict) -> list[tuple[str, str, str]]:
        """The process reward model, which was made for it."""
        if row.training != "rl" or scorer_kind(row) != "prm":
            return []
        shards = [shard.replace(".jsonl.gz", ".time.tsv") for shard in self.scorers.prm_shards(run["seed"])]
        jobs = [("data", shard, "evaluate") for shard in shards]
        return [*jobs, ("data", f"{PRM}/label.time.tsv", "label"), ("prm_training", f"{PRM}/train.time.tsv", "evaluate")]

    def listed(self, item: str) -> list[dict]:
        """Of all runs of a table."""
        table = self.data_sets.runs.table
        return [job for row in table.of(item) for seed in table.seeds_of(row) for job in self.of_run(row, seed)]

    @property
    def _resources(self) -> dict:
        return self.data_sets.configuration["resources"]

    def with_devices(self, jobs: dict[str, list], files: Sequence[str]) -> pd.DataFrame:
        """Devices are no parameter: moving to another machine reruns nothing."""
        counted = [devices(self._resources, stage) for stage in jobs["stage"]]
        return pd.DataFrame(jobs | {"file": files, "devices": counted})

    def projected(self, row: Row) -> dict:
        """Arithmetic for one run of reinforcement learning; nothing for models and documents whose size it doesn't know."""
        sections = self.data_sets.runs.of(row)
        paragraphs = self.data_sets.paragraphs(sections["train_sets"]["train"])
        if row.training != "rl" or row.model not in costs.MODELS or paragraphs is None:
            return {}
        count, training = devices(self._resources, "train"), sections["training"]
        settings = (sections["train_reading"], training, paragraphs, count)
        seconds = costs.training_seconds(row.model, credit.needs(row.credit), *settings)
        hours = seconds * training["steps"] / 3600
        kind = scorer_kind(row)
        beside = self.data_sets.configuration[kind]["gpu_memory"] if kind else 0.0
        fits, gib = costs.fits_without_checkpointing(row.model, training, count, beside)
        values = (*row.key, seconds, hours, hours * count, gib, "yes" if fits else "no", costs.ASSUMPTIONS)
        return dict(zip(PROJECTED, values, strict=True))

    def step_seconds(self) -> list[dict]:
        """A step of TAMTRL by phase, as stock verl would go about it and after each mend; of every model whose size is known."""
        lines = []
        for row in self.data_sets.runs.table.selected:
            sections = self.data_sets.runs.of(row)
            paragraphs = self.data_sets.paragraphs(sections["train_sets"]["train"])
            if (row.method, row.variant) == ("tamtrl", "main") and row.model in costs.MODELS and paragraphs is not None:
                step = costs.rollout_batch(sections["train_reading"], sections["training"], paragraphs)
                states = costs.mends(costs.MODELS[row.model], step, devices(self._resources, "train"))
                lines += [
                    {"model": row.model, "state": state, "phase": phase, "seconds": seconds}
                    for state, phases in states.items()
                    for phase, seconds in phases.items()
                    if phase != "step"
                ]
        return lines

    def projections(self) -> list[dict]:
        return [line for line in map(self.projected, self.data_sets.runs.table.selected) if line]
