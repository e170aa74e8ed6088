"""Models of steps before the last, kept beside the final one: their checkpoints go as training goes on."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tamtrl import files
from tamtrl.errors import UserError
from tamtrl.jobs.checkpoints import Checkpoints


@dataclass(frozen=True)
class Snapshots:
    """``stepN`` in ``folder`` for each N of ``steps``, a Hugging Face folder each, which appears only whole."""

    folder: Path
    steps: Sequence[int] = ()

    def take(self, checkpoints: Checkpoints, model: str) -> None:
        """Of the whole checkpoints that are there. To be called before one can go: two are kept at least, so once a step does."""
        for step in self._missing():
            checkpoint = checkpoints.folder / f"{checkpoints.prefix}{step}"
            if checkpoint.exists() and not checkpoints.lacks(checkpoint):
                with files.whole_folder(self._of(step)) as temporary:
                    shutil.copytree(checkpoint / model, temporary)

    def publish(self, output: Path) -> None:
        """The folder ``output``, whole, even if it is empty."""
        if missing := self._missing():
            raise UserError(
                f"The model of step {missing[0]} (training.snapshots) is gone: training had passed it before it was asked "
                f"for. Take it out of training.snapshots, or move {self.folder.parent} away to train anew."
            )
        with files.whole_folder(output) as temporary:
            temporary.mkdir()
            for step in self.steps:
                shutil.copytree(self._of(step), temporary / self._of(step).name)

    def _missing(self) -> list[int]:
        return [step for step in self.steps if not self._of(step).exists()]

    def _of(self, step: int) -> Path:
        return self.folder / f"step{step}"
