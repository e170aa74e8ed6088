"""Whose trajectories a run learns from, and who scores memory turns from outside the policy."""

import hashlib

import pytest
from toy_study import BASE, KD, MINE, PRM, SFT, STAR, case, of_rows

from tamtrl.errors import UserError
from tamtrl.workflow.trajectories import generation_key

pytestmark = pytest.mark.usefixtures("in_the_checkout")


# -- trajectories ------------------------------------------------------------------------------------------------------


def test_a_generation_is_named_by_all_that_it_depends_on():
    settings = {"seed": 2, "reading": {"b": 1, "a": 2}, "samples": 8, "in_flight": 64}
    written = '{"reading": {"a": 2, "b": 1}, "samples": 8, "seed": 2}'
    key = f"8samples-seed2-{hashlib.sha256(written.encode()).hexdigest()[:8]}"
    assert generation_key(settings) == generation_key(settings | {"in_flight": 1}) == key


def test_students_of_one_teacher_share_trajectories(tmp_path):
    made = of_rows(tmp_path, SFT, KD, STAR, MINE, seeds=[0, 1])
    keys = list(made.trajectories.generations)
    assert [key.rpartition("-")[0] for key in keys] == ["1samples-seed0", "1samples-seed1", "8samples-seed0", "8samples-seed1"]
    assert all(generation.shards == 1 for generation in made.trajectories.generations.values())
    shared = f"<results>/trajectories/toy_teacher/{keys[0]}"
    assert made.trajectories.folder(case("sft"), 1) == made.trajectories.folder(case("vanilla_kd"), 1) == shared
    assert made.trajectories.folder(case("star"), "1") == f"<results>/trajectories/toy/{keys[2]}"  # it is its own teacher


def test_a_further_round_samples_with_the_model_of_the_round_before(tmp_path):
    made, star = of_rows(tmp_path, STAR).trajectories, "<results>/runs/toy/star/main/seed0"
    assert made.last_round(case("star")) == 3
    assert made.folder(case("star"), 3) == f"{star}/rounds/3"
    assert made.sampler(case("star", round="3")) == f"{star}/rounds/2/model"
    assert made.inputs(case("star"), 3) == [
        f"{star}/rounds/3/trajectories.parquet",
        "<results>/data/toy_training.parquet",
        "<results>/models/given/toy.sha256",  # teacher and student, once
    ]


def test_run_yaml_of_a_run_on_trajectories(tmp_path):
    made = of_rows(tmp_path, KD).trajectories
    run = made.run(case("vanilla_kd"), 1, lambda path: path.replace("<results>", "r"))
    assert list(run) == [
        "model", "method", "variant", "seed", "loss", "reading", "distillation", "model_path", "train_data", "trajectories",
        "teacher_path", "teacher_probabilities",
    ]  # fmt: skip
    assert (run["seed"], run["loss"], run["distillation"]["teacher"]) == (0, "kd", "toy_teacher")
    assert (run["model_path"], run["teacher_path"]) == ("r/models/given/toy", "r/models/given/toy_teacher")
    assert run["teacher_probabilities"] == "r/runs/toy/vanilla_kd/main/seed0/teacher.parquet"


def test_probabilities_that_are_computed_before_are_waited_for(tmp_path):
    assert len(of_rows(tmp_path, KD).trajectories.inputs(case("vanilla_kd"), 1)) == 4
    before = of_rows(tmp_path, KD, distillation={"precompute": True, "kl_top_k": 8})
    inputs = before.trajectories.inputs(case("vanilla_kd"), 1)
    assert inputs[-1] == "<results>/runs/toy/vanilla_kd/main/seed0/teacher.parquet" and len(inputs) == 5


# -- scorers -----------------------------------------------------------------------------------------------------------


def test_the_process_reward_model_learns_from_star(tmp_path):
    made = of_rows(tmp_path, BASE, STAR, PRM, distillation={"shards": 2})
    scorers, folder = made.scorers, made.trajectories.folder(case("star"), 1)
    assert scorers.folder(case("prm")) == "<results>/prm/seed0/model" and scorers.folder(case("base")) is None
    assert scorers.prm_shards("0") == [f"{folder}/shard0.jsonl.gz", f"{folder}/shard1.jsonl.gz"]
    assert scorers.models(made.rows.row(case("prm"))) == ["toy_bert", "toy"]
    assert scorers.prm_settings("4") == {
        "seed": 4, "reading": made.paper["reading"], "window_tokens": 128, "held_out": 0.1, "batch": 64, "epochs": 1, "lr": 1e-3,
        "weight_decay": 0.01, "save_every": 100,
    }  # fmt: skip
    assert scorers.prm_is_trained(lambda run: False) and not scorers.prm_is_trained(lambda run: True)
    assert not of_rows(tmp_path, BASE, MINE).scorers.prm_is_trained(lambda run: False)


def test_without_star_there_is_nothing_to_learn_from(tmp_path):
    made = of_rows(tmp_path, PRM)
    message = rf"^prm\.trajectories_of is 'toy', but {tmp_path}/runs\.tsv has no row star of that model\.$"
    with pytest.raises(UserError, match=message):
        made.downloads.models()
    unknown = of_rows(tmp_path, PRM, STAR, prm={"base": "gpt"})
    with pytest.raises(UserError, match=r"^Unknown model in prm: 'gpt'; there are "):
        unknown.downloads.models()


def test_a_judge_is_a_model_or_an_endpoint(tmp_path):
    row = "toy\tllm_judge\tmain\trl\tjudge\t\ttable1"
    served = of_rows(tmp_path, row).scorers
    assert served.folder(case("llm_judge")) == "<results>/models/toy_judge"
    away = of_rows(tmp_path, row, judge={"endpoint": "https://x/v1", "model": "gpt"})
    assert away.scorers.folder(case("llm_judge")) is None and away.downloads.models() == []
    with pytest.raises(UserError, match=r"^Unknown model in judge: 'gpt'; there are 0\.6B, "):
        of_rows(tmp_path, row, judge={"model": "gpt"}).downloads.models()
