"""What the selected runs need of the network."""

from dataclasses import dataclass

from tamtrl.workflow.data_sets import DataSets
from tamtrl.workflow.run_settings import TRAJECTORIES
from tamtrl.workflow.scorers import Scorers


@dataclass(frozen=True, eq=False)
class Downloads:
    sets: DataSets
    scorers: Scorers

    def sources(self) -> list[str]:
        """Their files, or the user's own in place of them."""
        specs = [self.sets.specs[name] for name in self.sets.used]
        return [self.sets.source_path(name) for name in sorted({spec["source"] for spec in specs if "source" in spec})]

    def models(self) -> list[str]:
        """Names of those on the hub, each once."""
        runs = self.sets.runs
        rows, specs = runs.table.selected, runs.configuration.models
        needed = [
            *(row.model for row in rows),
            *self.sets.tokenizers_used(),
            *(runs.of(row)["distillation"]["teacher"] for row in rows if row.training in TRAJECTORIES),
            *(name for row in rows for name in self.scorers.models(row)),
            *self.sets.models_asked(),
        ]
        return [name for name in dict.fromkeys(needed) if name != "self" and "repository" in specs[name]]
