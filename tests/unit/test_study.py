"""What follows from the run table: hours, sweeps, data sets, downloads, and what an archive spares."""

import json
from pathlib import Path

import pytest
from toy_study import BASE, KD, MINE, PRM, SFT, STAR, case, of_rows, study

from tamtrl.errors import UserError
from tamtrl.planning import costs
from tamtrl.record.archive import settings_digest
from tamtrl.workflow import restored
from tamtrl.workflow.data_sets import option
from tamtrl.workflow.patterns import alternatives

pytestmark = pytest.mark.usefixtures("in_the_checkout")


def test_patterns():
    assert alternatives(["b.c", "a", "a"]) == r"a|b\.c" and alternatives([]) == "(?!)"
    assert option("member", "it's") == """--member 'it'"'"'s'""" and option("member", None) == ""


# -- hours -------------------------------------------------------------------------------------------------------------


def test_the_jobs_whose_time_is_a_runs(tmp_path):
    made = of_rows(tmp_path, BASE, SFT, STAR, PRM, MINE, KD)  # which is not of Table A2
    sampled, star = made.trajectories.folder(case("sft"), 1), made.trajectories.folder(case("star"), 1)
    told = [(job["method"], job["part"], job["file"], job["stage"]) for job in made.times.listed("tableA2")]
    runs = "<results>/runs/toy"
    assert told == [
        ("sft", "data", f"{sampled}/shard0.time.tsv", "evaluate"),
        ("sft", "training", f"{runs}/sft/main/seed0/metrics.csv", "train"),
        ("star", "data", f"{star}/shard0.time.tsv", "evaluate"),
        ("star", "data", f"{runs}/star/main/seed0/rounds/2/shard0.time.tsv", "evaluate"),
        ("star", "data", f"{runs}/star/main/seed0/rounds/3/shard0.time.tsv", "evaluate"),
        ("star", "training", f"{runs}/star/main/seed0/metrics.csv", "train"),
        ("prm", "data", f"{star}/shard0.time.tsv", "evaluate"),
        ("prm", "data", "<results>/prm/seed0/label.time.tsv", "label"),
        ("prm", "prm_training", "<results>/prm/seed0/train.time.tsv", "evaluate"),
        ("prm", "training", f"{runs}/prm/main/seed0/metrics.csv", "train"),
        ("mine", "training", f"{runs}/mine/main/seed0/metrics.csv", "train"),
    ]


def test_of_a_restored_run_only_its_training_is_known(tmp_path):
    times = of_rows(tmp_path, STAR, PRM).times
    times.restored.records.append("toy/star/main/seed0")
    times.restored.models.append("toy/prm/main/seed0")
    assert [(job["method"], job["part"]) for job in times.listed("tableA2")] == [("star", "training"), ("prm", "training")]


def test_devices_of_jobs(tmp_path):
    where = {"cores": 1, "memory_gib": 1, "minutes": 1}
    resources = {"train": where | {"devices": 4, "nodes": 2}, "evaluate": where | {"devices": 1, "nodes": 1}}
    times = of_rows(tmp_path, MINE, resources=resources).times
    table = times.with_devices({"stage": ["train", "evaluate", "label"]}, ["a", "b", "c"])
    assert table["devices"].tolist() == [8, 1, 0] and table["file"].tolist() == ["a", "b", "c"]


def test_a_step_by_phase_and_mend():
    """Of both models; each of the six states is as costs.py has it, and none takes longer than the one before."""
    made = study("config/config.yaml")
    lines = made.times.step_seconds()
    step = costs.rollout_batch(made.paper["reading"], made.paper["training"], 100)
    for model in ("0.6B", "1.7B"):
        totals: dict[str, float] = {}
        for line in lines:
            if line["model"] == model:
                totals[line["state"]] = totals.get(line["state"], 0) + line["seconds"]
        assert len(totals) == 6 and list(totals.values()) == sorted(totals.values(), reverse=True)
        assert totals["stock verl"] == pytest.approx(
            costs.step_seconds(costs.MODELS[model], step, costs.A100, 8, switches=costs.STOCK)["step"]
        )
    assert len(lines) == 2 * 6 * 5 and not study("config/toy-full.yaml").times.step_seconds()


def test_projections_are_of_models_and_documents_of_known_size():
    made = study("config/config.yaml")
    # 22 runs of reinforcement learning; the judge and the teacher cost more than the outcome
    hours = {(line["model"], line["method"], line["variant"]): line["hours"] for line in made.times.projections()}
    assert len(hours) == 22 and hours["1.7B", "memagent", "main"] < hours["1.7B", "tamtrl", "main"]
    row = made.rows.row({"model": "0.6B", "method": "memagent", "variant": "main"})
    line = made.times.projected(row)
    seconds = costs.training_seconds("0.6B", (), made.paper["reading"], made.paper["training"], 100, 8)
    assert line["step_seconds"] == seconds and line["assumptions"] == costs.ASSUMPTIONS
    # 16,384 tokens a micro-batch (tests/unit/test_costs.py); 1.7B doesn't fit beside a judge's server, 30 % of a device
    fitting = {(one["model"], one["method"]): one["fits"] for one in made.times.projections() if one["variant"] == "main"}
    assert line["gib_without_checkpointing"] == pytest.approx(43.43, abs=0.01) and line["fits"] == "yes"
    assert fitting["1.7B", "tamtrl"] == "yes" and fitting["1.7B", "llm_judge"] == "no" and fitting["0.6B", "llm_judge"] == "yes"
    assert line["hours"] == pytest.approx(seconds * 800 / 3600) and line["gpu_hours"] == pytest.approx(8 * line["hours"])
    sets = {"train_sets": {"train": "musique_training", "validation": "2wikimultihopqa_original"}}
    left = [line["variant"] for line in study("config/config.yaml", **sets).times.projections()]
    assert left == ["documents_50", "documents_200", "questions_1024", "questions_2048", "questions_4096"]


# -- sweeps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "values"),
    [
        ("fig5_training", {"main": 6, "documents_4": 4, "documents_8": 8}),
        ("fig6_training", {"main": 28, "chunk_14": 14, "chunk_42": 42}),
        ("fig7", {"main": 512, "questions_32": 32, "questions_128": 128}),
    ],
)
def test_sweeps_over_training(item, values):
    points = study("config/toy-full.yaml", select={"model": ["toy"], "variant": []}).sweeps.points(item)
    assert {(point["variant"], point["value"]) for point in points} == set(values.items()) and len(points) == 3 * 9
    assert points[0] == case("tamtrl", seed=0) | {
        "benchmark": "toy_multihop",
        "value": values["main"],
        "documents": "<results>/runs/toy/tamtrl/main/seed0/scores/toy_multihop.documents.csv",
    }


@pytest.mark.parametrize(("item", "values"), [("fig5_test", [6, 4, 8, 12]), ("fig6_test", [28, 14, 42])])
def test_sweeps_over_tests(item, values):
    """The first point of a run is that of Table 1."""
    points = study("config/toy-full.yaml", select={"model": ["toy"], "variant": []}).sweeps.points(item)
    assert [point["value"] for point in points] == values * 2 and {point["benchmark"] for point in points} == {"toy_multihop"}
    files = [point["documents"].removeprefix("<results>/runs/toy/memagent/main/seed0/") for point in points[:2]]
    test = {"fig5_test": "documents/scores/toy_documents_4", "fig6_test": "chunk_14/scores/toy_multihop"}[item]
    assert files == ["scores/toy_multihop.documents.csv", f"tests/{test}.documents.csv"]


def test_a_panel_needs_two_points():
    full, toy = study("config/toy-full.yaml").sweeps, study().sweeps
    assert full.drawn() == full.figures == ["fig5_documents", "fig6_chunk_size", "fig7_data"] and toy.drawn() == []
    assert full.items == ["fig5_training", "fig5_test", "fig6_training", "fig6_test", "fig7"]
    varied = study("config/toy-full.yaml", select={"variant": ["main"]}).sweeps
    assert [panel.item for figure in varied.figures for panel in varied.panels(figure)] == ["fig5_test", "fig6_test"]


# -- data sets and downloads -------------------------------------------------------------------------------------------


def test_data_sets_of_the_selected_runs(tmp_path):
    row = MINE.replace("\t\t", "\ttrain_sets.train=toy_training_documents_4\t")
    sets = of_rows(tmp_path, MINE.replace("mine", "first"), row, evaluate_on=["toy_keys"], average_over=[]).sets
    keys = ["toy_keys_1", "toy_keys_2", "toy_keys_3"]
    assert sets.uses == [
        ("training", "toy_training"),
        ("training", "toy_training_documents_4"),
        ("validation", "toy_validation"),
        *(("evaluation", name) for name in keys),
    ]
    assert sets.used == ["toy_training", "toy_validation", "toy_training_documents_4", *keys]
    assert sets.options("toy_keys_1", "split", "documents", "absent") == "--split heldout --documents 8"


def test_sources_and_the_closed_book_filter():
    sets = study("config/config.yaml", hotpotqa_train="my own.json").sets
    assert sets.source_of("hotpotqa_training") == "my own.json"
    assert sets.source_of("hotpotqa") == f"<results>/data/raw/{sets.configuration.sources['hotpotqa_dev']['file']}"
    assert sets.source_file(sets.configuration.sources["essay"]["file"]) == sets.configuration.sources["essay"]
    with pytest.raises(UserError, match=r"^Unknown source in config/sources\.yaml: 'nope'; there are "):
        sets.source_path("nope")
    assert sets.verdicts("hotpotqa") == "<results>/data/closed_book/hotpotqa_dev.csv" and sets.verdicts("qasper") == []
    assert sets.source_options("hotpotqa_dev") == "--format hotpotqa "
    assert sets.filter_options() == "--candidates 24576 --dtype bfloat16 --samples 2 --temperature 1.0 --tokens 512 --top-p 0.7"
    unfiltered = study("config/config.yaml", closed_book={"models": []}).sets
    assert unfiltered.verdicts("hotpotqa") == [] and unfiltered.models_asked() == []


def test_downloads_of_the_paper():
    """Two backbones, two teachers (one judges too), BERT, and the two models that the filter asks."""
    downloads = study("config/config.yaml").downloads
    assert downloads.models() == [
        "0.6B", "1.7B", "Qwen3-14B", "Qwen3-8B", "bert-base-uncased", "Qwen2.5-7B", "Qwen2.5-7B-Instruct",
    ]  # fmt: skip
    assert len(downloads.sources()) == 4 and study("config/toy-full.yaml").downloads.models() == []


def test_folders_of_models(tmp_path):
    given, own = tmp_path / "given", tmp_path / "models.yaml"
    given.mkdir()
    own.write_text(f"mine: {{path: {given}}}\ntoy: {{path: models/toy}}\n")
    models = of_rows(tmp_path, MINE, models=str(own), closed_book={"models": []}).models
    assert models.given() == ["mine", "toy"] and models.folder("mine") == "<results>/models/given/mine"
    with pytest.raises(
        UserError, match=rf"^The folder of model mine \({given}\) has no files; correct `path` in models\.yaml\.$"
    ):
        models.given_files("mine")
    for name in ("b.json", "a.json", ".hidden"):
        (given / name).touch()
    assert models.given_files("mine") == [f"{given}/a.json", f"{given}/b.json"]
    assert "models/toy/config.json" in models.given_files("toy")
    ours = study().models
    assert ours.folder("0.6B") == "<results>/models/0.6B" and "toy_judge" in ours.having("made")
    assert ours.taught(study().rows.every) == ["toy", "toy_careless"]
    assert ours.learns_tokens("toy_judge") and not ours.learns_tokens("toy")
    assert list(ours.recipe("toy_bert"))[:3] == ["seed", "reading", "tokenizer"]


# -- archives ----------------------------------------------------------------------------------------------------------


def index(folder, made, **entries):
    """Of runs with these files, made with the settings of ``made``."""
    runs = {}
    for method, files in entries.items():
        row = made.rows.row(case(method))
        runs[f"toy/{method}/main/seed0"] = {
            "settings": settings_digest(restored.settings_of(made.runs, row.case(0))),
            "evaluation": settings_digest(made.runs.evaluation(row, 0)),
            "tests": {"short": settings_digest(made.runs.evaluation(row, 0, "short"))},
            "files": dict.fromkeys(files, ""),
        }
    (folder / "index.json").write_text(json.dumps({"format": 1, "runs": runs}))


def test_what_an_archive_spares(tmp_path):
    test = {"name": "short", "benchmarks": ["toy_long"], "reading": {"chunk_tokens": 14, "max_chunks": 24}}
    lines = [line + ",fig6_test" for line in (BASE, SFT, MINE, PRM, STAR)]
    given = {"evaluate_on": ["toy_long"], "average_over": [], "tests": {"fig5_test": [], "fig6_test": [test]}}
    predicted, tested = "predictions/toy_long.jsonl.gz", "tests/short/predictions/toy_long"
    files = {"base": [predicted], "sft": [predicted, "model/x", f"{tested}.jsonl.gz"], "prm": ["card.json"]}
    files |= {"mine": [predicted, "model/x"], "star": [predicted]}  # without the test's predictions, which need a model
    index(tmp_path, of_rows(tmp_path, *lines, **given), **files)
    found = of_rows(tmp_path, *lines, **given, archive=str(tmp_path)).restored
    assert found.records == ["toy/base/main/seed0", "toy/sft/main/seed0"] and found.trained() == ["toy/sft/main/seed0"]
    assert found.models == ["toy/mine/main/seed0"] and found.tests == [("toy/sft/main/seed0", tested)]
    assert found.has(case("mine", seed=0)) and not found.has(case("prm", seed=0)) and not found.has(case("star", seed=0))
    # another evaluation: of models, predictions can be made here
    other = of_rows(tmp_path, *lines, **given, archive=str(tmp_path), evaluation={"samples": 3}).restored
    assert other.records == [] and other.models == ["toy/sft/main/seed0", "toy/mine/main/seed0"] and other.tests == []
    # another training of one, another of all
    slower = of_rows(tmp_path, *lines, **given, archive=str(tmp_path), training={"lr": 1e-5}).restored
    assert slower.models == [] and slower.records == found.records
    less = of_rows(tmp_path, *lines, **given, archive=str(tmp_path), distillation={"shards": 3}).restored
    assert less.records == found.records  # how a run is carried out is no setting of it


def test_where_the_index_of_an_archive_is(tmp_path):
    assert restored.index_file("", tmp_path) is None
    assert restored.index_file("some/folder", tmp_path) == Path("some/folder/index.json")
    message = rf"^Fetch the archive's index first: tamtrl archive-index https://x/runs --output {tmp_path}/index\.json$"
    with pytest.raises(UserError, match=message):
        restored.index_file("https://x/runs", tmp_path)
    (tmp_path / "index.json").touch()
    assert restored.index_file("https://x/runs", tmp_path) == tmp_path / "index.json"
