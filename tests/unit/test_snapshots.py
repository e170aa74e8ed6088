"""Models of earlier steps, kept while their checkpoints go."""

import json
import shutil
from pathlib import Path

import pytest

from tamtrl.errors import UserError
from tamtrl.jobs.checkpoints import Checkpoints
from tamtrl.jobs.snapshots import Snapshots


def checkpoint(folder: Path, step: int, whole: bool = True) -> Path:
    model = folder / f"global_step_{step}" / "actor" / "model"
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps({"step": step}))
    if whole:
        (model / "weights").write_text(str(step))
    return model


def of(folder: Path) -> Checkpoints:
    lacks = lambda path: "" if (path / "actor/model/weights").exists() else "weights"  # noqa: E731
    return Checkpoints(folder, "global_step_", lacks, finished=lambda path: True)


def test_a_snapshot_outlives_its_checkpoint(tmp_path):
    checkpoints, snapshots = tmp_path / "checkpoints", Snapshots(tmp_path / "snapshots", [5, 10])
    first = checkpoint(checkpoints, 5, whole=False)
    snapshots.take(of(checkpoints), "actor/model")
    assert not list(tmp_path.glob("snapshots/*"))  # half a checkpoint is none
    (first / "weights").write_text("5")
    snapshots.take(of(checkpoints), "actor/model")
    shutil.rmtree(first)
    checkpoint(checkpoints, 10)
    checkpoint(checkpoints, 15)
    snapshots.take(of(checkpoints), "actor/model")
    snapshots.publish(tmp_path / "output")
    assert {path.parent.name: path.read_text() for path in tmp_path.glob("output/*/weights")} == {"step5": "5", "step10": "10"}


def test_one_that_was_asked_for_too_late_is_named(tmp_path):
    snapshots = Snapshots(tmp_path / "scratch" / "snapshots", [5])
    with pytest.raises(UserError, match=r"model of step 5 \(training.snapshots\) is gone: .* move .*/scratch away"):
        snapshots.publish(tmp_path / "output")
    assert not (tmp_path / "output").exists()


def test_none_asked_for_is_an_empty_folder(tmp_path):
    Snapshots(tmp_path / "snapshots").publish(tmp_path / "output")
    assert not list((tmp_path / "output").iterdir())
