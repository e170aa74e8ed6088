"""What jobs ask a scheduler for, by hand from config/README.md."""

import pytest

from tamtrl.workflow.resources import devices, of_job

TRAIN = {"devices": 8, "nodes": 1, "cores": 64, "memory_gib": 256, "minutes": 2880}
EVALUATE = {"devices": 1, "nodes": 1, "cores": 8, "memory_gib": 32.5, "minutes": 240}
GPU = {"device": "gpu", "gpu_model": "a100", "gres": "", "train": TRAIN, "evaluate": EVALUATE}


def asked(constraint=None, stage="train", train=None, **changes):
    job = of_job(GPU | changes | {"train": TRAIN | (train or {})}, stage, constraint)
    place, always = job.pop("place"), {"mem_mb": 262144, "runtime": 2880}
    assert stage != "train" or {name: job.pop(name) for name in always} == always
    return job, place


def test_one_node_with_gpus():
    place = "--device gpu --devices 8 --nodes 1 --cores 64 --memory-gib 256"
    assert asked() == ({"nodes": 1, "gpu": 8, "gpu_model": "a100"}, place)
    assert asked(gpu_model="") == ({"nodes": 1, "gpu": 8}, place)
    evaluation = {"mem_mb": 33280, "runtime": 240, "nodes": 1, "gpu": 1, "gpu_model": "a100"}
    assert asked(stage="evaluate") == (evaluation, "--device gpu --devices 1 --nodes 1 --cores 8 --memory-gib 32.5")


@pytest.mark.parametrize(
    ("model", "gres", "named"), [("a100", "", "gpu:a100:4"), ("", "", "gpu:4"), ("a100", "gpu:h100", "gpu:h100:4")]
)
def test_several_nodes_ask_for_gpus_of_each(model, gres, named):
    """A total over nodes fits no partition and no job step."""
    job, place = asked(train={"nodes": 2, "devices": 4}, gpu_model=model, gres=gres)
    assert job == {"nodes": 2, "gres": named, "slurm_extra": "--ntasks-per-node=1"}
    assert place == "--device gpu --devices 4 --nodes 2 --cores 64 --memory-gib 256"


def test_sites_that_take_gpus_as_gres():
    assert asked(gres="gpu:a100")[0] == {"nodes": 1, "gres": "gpu:a100:8"}


def test_without_gpus_none_are_asked_for():
    for changes in ({}, {"gres": "gpu:a100"}):
        assert asked(device="cpu", constraint="a100_80", **changes)[0] == {"nodes": 1}
        assert asked(device="cpu", train={"nodes": 2}, **changes)[0] == {"nodes": 2, "tasks": 2}


def test_a_constraint_is_for_jobs_with_gpus():
    assert asked("a100_80")[0]["constraint"] == "a100_80" and "constraint" not in asked("")[0]


def test_devices_are_those_of_all_nodes():
    two = GPU | {"train": TRAIN | {"nodes": 2}}
    assert (devices(two, "train"), devices(two, "evaluate"), devices(two, "label")) == (16, 1, 0)
