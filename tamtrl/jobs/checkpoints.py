"""Which checkpoint of a run is whole, and what may be deleted of the others."""

import json
import re
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from tamtrl.errors import UserError

TRACKER = "latest_checkpointed_iteration.txt"
FSDP = "fsdp_config.json"
ASIDE = "damaged_"


@dataclass(frozen=True)
class Checkpoints:
    """Folders ``prefix``STEP in ``folder``. Training goes on from the newest whole one; of the others, in this order:

    - older than it: removed, for a disk must not fill;
    - never finished, because a kill cut it off: removed, for training makes it again;
    - finished once, but something of it was lost: moved aside as damaged_..., until a whole one of that step or a later one is
      there. A person may repair it and give it its name back.

    Where none is whole but one was, the run is refused and nothing is touched.
    """

    folder: Path
    prefix: str
    lacks: Callable[[Path], str]  # names a file that is missing or cut off; "" where all are there
    finished: Callable[[Path], bool]  # all of it was written once, as what is written last tells

    def last(self) -> Path | None:
        """The newest whole one. Changes nothing."""
        lost = []
        for path in sorted(self._all(), key=step_of, reverse=True):
            if not (name := self.lacks(path)):
                return path
            if self.finished(path):
                lost.append(path / name)
        if lost:
            raise UserError(
                f"No checkpoint of this run is whole: {lost[0]} is missing or cut off. Bring it back, or move {self.folder} away "
                "to begin anew."
            )
        return None

    def tidy(self, say: Callable[[str], None]) -> Path | None:
        """The newest whole one, alone."""
        last = self.last()
        for path in self._all():
            if path == last:
                continue
            if last and step_of(path) > step_of(last) and self.finished(path):
                aside = path.with_name(ASIDE + path.name)
                say(f"{path / self.lacks(path)} is missing or cut off: the checkpoint is now {aside.name}.")
                shutil.rmtree(aside, ignore_errors=True)
                path.rename(aside)
            else:
                shutil.rmtree(path)
        for path in self._all(ASIDE):
            if last and step_of(path) <= step_of(last):
                shutil.rmtree(path)
        return last

    def _all(self, before: str = "") -> list[Path]:
        name = re.compile(re.escape(before + self.prefix) + r"\d+")
        return [path for path in self.folder.glob("*") if name.fullmatch(path.name)]


def step_of(checkpoint: Path) -> int:
    return int(re.split(r"\D", checkpoint.name)[-1])


def of_verl(folder: Path, model: str, data: str) -> Checkpoints:
    """verl writes the shards of every rank, the Hugging Face folder ``model`` beside them, the place in the data (``data``; a
    file of each rank if it names {rank}), and last the tracker, with the step."""

    def lacks(checkpoint: Path) -> str:
        shards = (checkpoint / model).parent
        if not intact(shards / FSDP):
            return str((shards / FSDP).relative_to(checkpoint))
        ranks = saved_by(checkpoint, model)
        kinds = ("model", "optim", "extra_state")
        files = [shards / f"{kind}_world_size_{ranks}_rank_{rank}.pt" for kind in kinds for rank in range(ranks)]
        files += [checkpoint / data.format(rank=rank) for rank in range(ranks)]
        files += [checkpoint / model / "config.json", *weights(checkpoint / model)]
        return next((str(path.relative_to(checkpoint)) for path in files if not intact(path)), "")

    def finished(checkpoint: Path) -> bool:
        if intact(checkpoint / data.format(rank=0)):
            return True
        try:
            return step_of(checkpoint) <= int((folder / TRACKER).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return False
        except ValueError:  # cut off: it says nothing, so nothing is taken for worthless
            return True

    return Checkpoints(folder, "global_step_", lacks, finished)


def saved_by(checkpoint: Path, model: str) -> int:
    """The number of ranks of a checkpoint of verl, which no other number of ranks can load."""
    return json.loads((checkpoint / model).with_name(FSDP).read_text(encoding="utf-8"))["world_size"]


def weights(model: Path) -> list[Path]:
    """The files of a Hugging Face model, one or, with an index, many."""
    index = model / "model.safetensors.index.json"
    if not index.exists():
        return [model / "model.safetensors"]
    if not intact(index):
        return [index]
    return [model / name for name in sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))]


def intact(path: Path) -> bool:
    """There and not cut off: formats that say at one end where the other one is, so little is read."""
    try:
        with path.open("rb") as stream:  # what can't be read for another reason is no reason to call it lost
            if path.suffix in (".pt", ".pth"):  # torch.save writes a zip file
                return zipfile.is_zipfile(stream)
            if path.suffix == ".json":
                json.load(stream)
            else:
                safe_open(path, framework="np")
    except (FileNotFoundError, ValueError, SafetensorError):
        return False
    return True
