"""Who scores memory turns from outside the policy: the judge, which is a model like others, and the process reward model, trained
on every turn of one model's STaR trajectories and used for the runs of all models."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tamtrl.errors import UserError
from tamtrl.settings import ProcessRewardModel
from tamtrl.workflow.documents import known
from tamtrl.workflow.patterns import PRM
from tamtrl.workflow.run_settings import scorer_kind, validated
from tamtrl.workflow.run_table import Row
from tamtrl.workflow.trajectories import Trajectories, generation_key

PRM_SETTINGS = ("window_tokens", "held_out", "batch", "epochs", "lr", "weight_decay", "save_every")


@dataclass(frozen=True, eq=False)
class Scorers:
    trajectories: Trajectories

    def judge(self, row: Row) -> str | None:
        """A name in models.yaml, or nothing where an endpoint is the judge."""
        runs = self.trajectories.runs
        settings = runs.of(row)["judge"]
        if settings["endpoint"]:
            return None
        known([settings["model"]], runs.configuration.models, "model in judge:")
        return settings["model"]

    def folder(self, case: Mapping) -> str | None:
        """The model that a training job serves beside itself, if any."""
        row = self.trajectories.runs.table.row(case)
        match scorer_kind(row):
            case "judge":
                name = self.judge(row)
                return self.trajectories.backbones.folder(name) if name else None
            case "prm":
                return f"{PRM.format(**case)}/model"
        return None

    def models(self, row: Row) -> list[str]:
        """Names of the models that a run's scorer is, or is made from."""
        match scorer_kind(row):
            case "judge":
                return [name for name in [self.judge(row)] if name]
            case "prm":
                settings = self._prm
                known([settings["base"]], self.trajectories.runs.configuration.models, "model in prm:")
                return [settings["base"], self.prm_row().model]
        return []

    @property
    def _prm(self) -> dict:
        return self.trajectories.runs.configuration["prm"]

    def prm_row(self) -> Row:
        """The row whose trajectories the process reward model learns from."""
        table, model = self.trajectories.runs.table, self._prm["trajectories_of"]
        for row in table.every:
            if (row.model, row.method) == (model, "star"):
                return row
        raise UserError(f"prm.trajectories_of is {model!r}, but {table.path} has no row star of that model.")

    def prm_shards(self, seed: int | str) -> list[str]:
        row = self.prm_row()
        generation = self.trajectories.generations[generation_key(self.trajectories.generation_settings(row, seed))]
        folder = self.trajectories.folder_of(row.model, row, seed)
        return [f"{folder}/shard{shard}.jsonl.gz" for shard in range(generation.shards)]

    def prm_settings(self, seed: int | str) -> dict:
        reading = self.trajectories.runs.configuration["reading"]
        settings = {"seed": int(seed), "reading": reading} | {name: self._prm[name] for name in PRM_SETTINGS}
        return validated(ProcessRewardModel, settings, "prm")

    def prm_is_trained(self, restored: Callable[[dict], bool]) -> bool:
        """Whether a selected run needs the process reward model; restored ones don't."""
        table = self.trajectories.runs.table
        needing = [row for row in table.trained if scorer_kind(row) == "prm"]
        return not all(map(restored, table.cases(needing)))
