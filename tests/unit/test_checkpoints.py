"""Checkpoints that a kill, a lost file or another number of ranks has met. Folders are laid out as verl and transformers do."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tamtrl.errors import UserError
from tamtrl.jobs import processes
from tamtrl.jobs.job import TRACKER, Job
from tamtrl.turn_scores import prm_train

LAYOUTS = {"rl": ("actor/huggingface", "data.pt"), "sft": ("huggingface", "data_{rank}.pt")}


def job(folder: Path, layout: str, ranks: int = 2, steps: int = 6) -> Job:
    return Job(folder, steps, ["false"], lambda log: {}, ranks, *LAYOUTS[layout], 1, lambda step, values: None)


def names(layout: str, ranks: int) -> list[str]:
    """What a checkpoint holds, in the order in which verl writes it."""
    model, data = LAYOUTS[layout]
    shards = model.removesuffix("huggingface")
    files = [f"{shards}{k}_world_size_{ranks}_rank_{r}.pt" for r in range(ranks) for k in ("model", "optim", "extra_state")]
    files += [f"{model}/config.json", f"{shards}fsdp_config.json", f"{model}/model.safetensors"]
    return list(dict.fromkeys([*files, *(data.format(rank=rank) for rank in range(ranks))]))


def write(path: Path, ranks: int = 1) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        path.write_text(json.dumps({"FSDP_version": 2, "world_size": ranks}))
    elif path.suffix == ".safetensors":
        save_file({"weight": torch.zeros(9)}, path)
    else:
        torch.save({"weight": torch.zeros(9)}, path)


def save(training: Job, layout: str, step: int, ranks: int = 2) -> Path:
    folder = training.checkpoints / f"global_step_{step}"
    for name in names(layout, ranks):
        write(folder / name, ranks)
    (training.checkpoints / TRACKER).write_text(str(step))
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def spoil(path: Path, how: str) -> None:
    whole = path.read_bytes()
    path.unlink()
    if how != "missing":
        path.write_bytes(b"" if how == "empty" else whole[:-1])


def folders(training: Job) -> set[str]:
    return {path.name for path in training.checkpoints.iterdir() if path.is_dir()}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("saved", "now"), [(2, 1), (1, 2), (16, 8)])
def test_another_number_of_ranks_is_refused_and_loses_nothing(tmp_path, layout, saved, now):
    training, said = job(tmp_path, layout, now), []
    for step in (2, 4):
        save(training, layout, step, saved)
    (training.checkpoints / "global_step_6").mkdir()
    before = content(tmp_path)
    with pytest.raises(
        UserError, match=f"global_step_4 was saved by {saved} ranks?,.* this run has {now} .* again with {saved}, or"
    ):
        training.run(said.append)
    assert content(tmp_path) == before and not said
    with pytest.raises(UserError, match="Training failed"):  # by ``false``: it was started
        job(tmp_path, layout, saved).run(said.append)
    assert said == ["Training 6 steps, resuming after step 4."] and folders(training) == {"global_step_4"}
    assert job(tmp_path, layout, now, steps=4).run(said.append).is_dir()  # nothing to load where nothing is left to train


def test_what_still_saves_is_ended_before_checkpoints_are_looked_at(tmp_path):
    """torchrun's ranks live on where ``tamtrl distil`` was killed."""
    training = job(tmp_path, "sft", ranks=1)
    save(training, "sft", 4)
    rank = subprocess.Popen(["sleep", "300"], env=os.environ | {processes.MARK: "left"}, start_new_session=True)
    register = {"mark": "left", "temporary": str(tmp_path / "none"), "segments": []}
    (tmp_path / "processes.json").write_text(json.dumps(register))
    with pytest.raises(UserError, match="this run has 1"):
        training.run(print)
    assert rank.poll() is not None


@pytest.mark.parametrize("how", ["missing", "empty", "cut"])
@pytest.mark.parametrize(("layout", "name"), [(layout, name) for layout in LAYOUTS for name in names(layout, 2)])
def test_of_a_damaged_checkpoint_nothing_is_lost(tmp_path, layout, name, how):
    training, said = job(tmp_path, layout), []
    damaged = save(training, layout, 4)
    whole = content(damaged)
    spoil(damaged / name, how)
    before = content(tmp_path)
    refused = pytest.raises(UserError, match=f"No checkpoint of this run is whole: {damaged / name} is missing or cut off")
    with refused:
        training.run(said.append)
    assert content(tmp_path) == before and not said

    save(training, layout, 2)  # an older one that is whole
    (training.checkpoints / TRACKER).write_text("4")
    aside = training.checkpoints / "damaged_global_step_4"
    for _ in range(2):
        assert training.last_checkpoint(said.append) == 2
        assert folders(training) == {"global_step_2", aside.name} and (training.checkpoints / TRACKER).read_text() == "2"
    assert said == [f"{damaged / name} is missing or cut off: the checkpoint is now {aside.name}."]
    assert content(aside) == {file: b for file, b in before.items() for file in [file.partition("global_step_4/")[2]] if file}

    (aside / name).write_bytes(whole[name])  # repaired by hand
    aside.rename(damaged)
    assert training.last_checkpoint(said.append) == 4 and content(damaged) == whole and folders(training) == {damaged.name}


def test_a_damaged_one_goes_when_its_step_was_done_again(tmp_path):
    training = job(tmp_path, "rl")
    for step in (2, 4, 6):
        save(training, "rl", step)
    for step in (4, 6):
        spoil(training.checkpoints / f"global_step_{step}" / "data.pt", "missing")
    assert training.last_checkpoint(print) == 2
    assert folders(training) == {"global_step_2", "damaged_global_step_4", "damaged_global_step_6"}
    save(training, "rl", 4)
    assert training.last_checkpoint(print) == 4 and folders(training) == {"global_step_4", "damaged_global_step_6"}
    spoil(save(training, "rl", 6) / "data.pt", "empty")  # once more: the newer of the same step is kept
    assert training.last_checkpoint(print) == 4
    assert (training.checkpoints / "damaged_global_step_6" / "data.pt").read_bytes() == b""
    save(training, "rl", 6)
    assert training.last_checkpoint(print) == 6 and folders(training) == {"global_step_6"}


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize(("layout", "written"), [("rl", n) for n in range(8)] + [("sft", n) for n in range(8)])
def test_what_a_kill_left_half_written_goes(tmp_path, layout, written, cut):
    """With one rank there are seven files; the kill comes while the next is written, or before it."""
    training, said = job(tmp_path, layout, ranks=1), []
    order = names(layout, 1)
    assert len(order) == 7
    for older in (0, 2):
        if older:
            save(training, layout, older, 1)
        half = training.checkpoints / "global_step_4"
        half.mkdir(parents=True)
        for name in order[:written]:
            write(half / name)
        if written < 7 and cut:
            write(half / order[written])
            spoil(half / order[written], "cut")
        whole = written >= 7  # but for the tracker, which is mended
        assert training.last_checkpoint(said.append) == (4 if whole else older) and not said
        assert folders(training) == ({"global_step_4"} if whole else {"global_step_2"} if older else set())
        if whole:
            return


@pytest.mark.parametrize("tracked", ["4", "", "nonsense", "2", None])
def test_the_tracker_is_mended(tmp_path, tracked):
    training = job(tmp_path, "rl")
    save(training, "rl", 4)
    write(training.checkpoints / "global_step_2" / "data.pt")  # pruned to a shell by verl
    tracker = training.checkpoints / TRACKER
    tracker.unlink()
    if tracked is not None:
        tracker.write_text(tracked)
    assert training.last_checkpoint(print) == 4 and tracker.read_text() == "4" and folders(training) == {"global_step_4"}


def test_a_model_of_several_files_is_whole_with_all_of_them(tmp_path):
    training = job(tmp_path, "sft")
    save(training, "sft", 2)
    model = save(training, "sft", 4) / "huggingface"
    (model / "model.safetensors").rename(model / "model-1.safetensors")
    index = model / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}))
    save_file({"b": torch.zeros(9)}, model / "model-2.safetensors")
    assert training._checkpoints.last().name == "global_step_4"
    spoil(model / "model-2.safetensors", "missing")
    assert training._checkpoints.last().name == "global_step_2"
    save_file({"b": torch.zeros(9)}, model / "model-2.safetensors")
    spoil(index, "cut")
    assert training._checkpoints.last().name == "global_step_2"


TRAINER = ["model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"]  # in this order


@pytest.mark.parametrize("name", TRAINER)
def test_checkpoints_of_the_process_reward_model(tmp_path, name):
    """transformers would train on with a new optimizer where that file is lost."""
    said, kept = [], prm_train.checkpoints(tmp_path)
    for step in (9, 10):
        for one in TRAINER:
            write(tmp_path / f"checkpoint-{step}" / one)
    assert kept.last().name == "checkpoint-10"
    spoil(tmp_path / "checkpoint-10" / name, "cut")
    assert kept.tidy(said.append).name == "checkpoint-9"
    finished = name != TRAINER[-1]  # without that file a kill cut it off
    assert (tmp_path / "damaged_checkpoint-10").exists() == finished == bool(said)
    assert not (tmp_path / "checkpoint-10").exists()
    spoil(tmp_path / "checkpoint-9" / "optimizer.pt", "missing")
    with pytest.raises(UserError, match=r"checkpoint-9/optimizer\.pt is missing or cut off"):
        kept.tidy(said.append)
    assert (tmp_path / "checkpoint-9" / "model.safetensors").exists()
