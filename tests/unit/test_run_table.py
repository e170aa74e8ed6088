"""Rows of the run table: read, selected, and what each comes to."""

import pytest
from conftest import REPOSITORY
from toy_study import HEADING, MINE, of_rows, study, write_table

from tamtrl.errors import UserError
from tamtrl.workflow import run_table
from tamtrl.workflow.configuration import schema
from tamtrl.workflow.run_settings import scorer_kind
from tamtrl.workflow.run_table import Row, run_name, select

SCHEMA = schema(REPOSITORY, "runs.yaml")
MODELS = ["toy", "sample", "0.6B"]


pytestmark = pytest.mark.usefixtures("in_the_checkout")


def read(folder, *lines):
    return run_table.read(write_table(folder, *lines), SCHEMA, MODELS)


# -- reading -----------------------------------------------------------------------------------------------------------


def test_a_line_is_a_row_a_model(tmp_path):
    made = read(
        tmp_path, "0.6B,toy\tbase\tmain\tnone\t\t\ttable1", "toy\tmine\tmain\trl\tteacher\tcredit.std=false a.b=c\ttable1,fig7"
    )
    assert made == [
        Row("0.6B", "base", "main", "none", "", "", ("table1",)),
        Row("toy", "base", "main", "none", "", "", ("table1",)),
        Row("toy", "mine", "main", "rl", "teacher", "credit.std=false a.b=c", ("table1", "fig7")),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("toy\tmine\tmain\trl\tmagic\t\ttable1", "Unknown credit method in {path}: 'magic'; there are judge, outcome,"),
        ("huge\tmine\tmain\trl\tteacher\t\ttable1", "Unknown model in {path}: 'huge'; there are toy, sample, 0.6B."),
        ("toy,toy\tmine\tmain\trl\tteacher\t\ttable1", "{path}: toy mine main stands there twice."),
        ("toy\tmine\tmain\tsft\tteacher\t\ttable1", "{path} line 3: credit: '' was expected"),
        ("toy\tmine\tmain\trl\t\t\ttable1", "{path} line 3: credit: '' should be non-empty"),
        ("toy\tMine\tmain\trl\tteacher\t\ttable1", "{path} line 3: method: 'Mine' does not match"),
        ("toy\tmine\tmain\tppo\tteacher\t\ttable1", "{path} line 3: training: 'ppo' is not one of"),
        ("toy\tmine", "{path} line 3 has 2 cells, but there are 7 columns."),
    ],
)
def test_a_bad_line(tmp_path, line, message):
    with pytest.raises(UserError) as told:
        read(tmp_path, "toy\tbase\tmain\tnone\t\t\ttable1", line)
    assert str(told.value).startswith(message.format(path=tmp_path / "runs.tsv")) and "\n" not in str(told.value)


def test_of_two_problems_the_first_is_told(tmp_path):
    """What a line is wrong in by itself comes before what is wrong among lines."""
    bad = ["toy\tmine\tmain\tppo\t\t\ttable1", "toy\tmine\tmain\tsft\tteacher\t\ttable1"]
    with pytest.raises(UserError, match=r"line 2: training: 'ppo' is not one of"):
        read(tmp_path, *bad)
    with pytest.raises(UserError, match=r"line 2: credit: '' was expected$"):
        read(tmp_path, *bad[::-1])
    with pytest.raises(UserError, match=r"line 4: credit: '' was expected$"):
        read(tmp_path, MINE, MINE, bad[1])
    with pytest.raises(UserError, match=r"toy mine main stands there twice\.$"):
        read(tmp_path, MINE, MINE, "huge\tmine\tmain\tnone\t\t\ttable1")


def test_a_missing_column_and_a_missing_file(tmp_path):
    path = tmp_path / "short.tsv"
    path.write_text(HEADING.replace("\titems", "") + "\ntoy\tmine\tmain\trl\tteacher\t\n")
    with pytest.raises(UserError, match=r"short\.tsv line 2: 'items' is a required property$"):
        run_table.read(str(path), SCHEMA, MODELS)
    with pytest.raises(UserError, match=r"^nowhere\.tsv does not exist\.$"):
        study(runs="nowhere.tsv")


# -- selecting ---------------------------------------------------------------------------------------------------------


ROWS = [
    Row("toy", "base", "main", "none", "", "", ("table1",)),
    Row("0.6B", "base", "main", "none", "", "", ("table1",)),
    Row("toy", "mine", "main", "rl", "teacher", "", ("table1", "fig7")),
    Row("toy", "mine", "short", "rl", "teacher", "", ("fig7",)),
]


@pytest.mark.parametrize(
    ("wanted", "left_out", "numbers"),
    [
        ({}, [], [0, 1, 2, 3]),
        ({"model": [], "method": ""}, [], [0, 1, 2, 3]),
        ({"model": ["toy"]}, [], [0, 2, 3]),
        ({"model": "toy", "variant": ["main"]}, [], [0, 2]),
        ({"items": ["fig7"]}, [], [2, 3]),
        ({"items": ["table1", "fig7"], "model": ["toy"]}, ["base"], [2, 3]),
    ],
)
def test_select(wanted, left_out, numbers):
    assert select(ROWS, wanted, left_out, "t") == [ROWS[number] for number in numbers]


@pytest.mark.parametrize(
    ("wanted", "left_out", "message"),
    [
        ({"method": ["min"]}, [], "Unknown method 'min'; there are base, mine."),
        ({"variant": "nope"}, [], "Unknown variant 'nope'; there are main, short."),
        ({"items": ["fig8"]}, [], "Unknown items 'fig8'; there are fig7, table1."),
        ({}, ["x"], "Unknown method in leave_out: 'x'; there are base, mine."),
        (
            {"model": ["0.6B"], "variant": ["short"]},
            [],
            "`select` ({'model': ['0.6B'], 'variant': ['short']}) matches no row of t.",
        ),
        ({"model": ["0.6B"]}, ["base"], "`select` ({'model': ['0.6B']}) matches no row of t."),
    ],
)
def test_select_in_vain(wanted, left_out, message):
    with pytest.raises(UserError) as told:
        select(ROWS, wanted, left_out, "t")
    assert str(told.value) == message


def test_select_of_the_configuration():
    with pytest.raises(UserError) as told:
        study(select={"method": ["tamtrll"]})
    assert str(told.value) == (
        "Unknown method 'tamtrll'; there are base, llm_judge, memagent, prm, sft, star, tamtrl, vanilla_kd."
    )
    with pytest.raises(UserError, match=r"^Unknown variant 'nope'; there are"):
        study(select={"variant": ["nope"]})
    with pytest.raises(UserError, match=r"matches no row of config/runs\.tsv\.$"):
        study(select={"model": ["toy"], "method": ["base"], "variant": ["turn_group"]})


# -- asking ------------------------------------------------------------------------------------------------------------


def test_cases_and_files():
    table = run_table.RunTable("t", ROWS, ROWS[:3], [0, 1])
    assert [row.key for row in table.of("fig7")] == [("toy", "mine", "main")]  # short is not selected
    assert table.trained == [ROWS[2]] and table.methods("rl", "none") == ["base", "base", "mine", "mine"]
    case = {"model": "toy", "method": "mine", "variant": "main"}
    assert table.cases(table.trained) == [case | {"seed": 0}, case | {"seed": 1}]
    assert table.files("{model}/{seed}/{benchmark}", table.trained, ["a", "b"]) == ["toy/0/a", "toy/0/b", "toy/1/a", "toy/1/b"]
    assert run_name(case | {"seed": 1}) == "toy/mine/main/seed1"
    assert table.row({"model": "toy", "method": "mine", "variant": "short", "seed": "0"}) is ROWS[3]
    assert [line["ours"] for line in table.listed("table1", ["a"])] == [False] * 6
    with pytest.raises(UserError, match=r"^t has no run 0\.6B mine main\.$"):
        table.row(case | {"model": "0.6B"})


# -- what a row comes to -----------------------------------------------------------------------------------------------

READING = {
    "chunk_tokens": 28, "max_chunks": 12, "memory_tokens": 20, "output_tokens": 8, "prompts": "brief", "query_tokens": 16,
    "truncate": False, "window_tokens": 128,
}  # fmt: skip


def test_overrides():
    made = study("config/toy-full.yaml")

    def sections(model, method, variant):
        return made.runs.of(made.rows.row({"model": model, "method": method, "variant": variant}))

    chunk = sections("toy", "tamtrl", "chunk_14")
    assert chunk["train_reading"] == READING | {"chunk_tokens": 14, "max_chunks": 24} and chunk["reading"] == READING
    assert sections("toy", "tamtrl", "main")["train_reading"] == READING
    assert sections("toy", "tamtrl", "documents_8")["train_sets"] == {
        "train": "toy_training_documents_8",
        "validation": "toy_validation",
    }
    taught = sections("0.6B", "sft", "main")["distillation"]
    assert taught["teacher"] == "Qwen3-14B" and taught["thinking"] is True and taught["shards"] == 1
    assert sections("toy", "tamtrl", "wo_length_norm")["credit"]["length_norm"] is False
    assert sections("toy", "tamtrl", "wo_minmax")["credit"]["minmax"] == "off"
    assert made.paper["credit"]["minmax"] == "batch"  # a row changes nothing for the others


def test_run_yaml(tmp_path):
    made = of_rows(tmp_path, "toy\tmine\tmain\trl\tteacher\tcredit.combine=sum train_reading.max_chunks=9\ttable1")
    run = made.runs.training(made.rows.selected[0], "3", "m", "t.parquet", "v.parquet")
    assert list(run) == [
        "model", "method", "variant", "seed", "model_path", "train_data", "validation_data", "reading", "credit", "training",
    ]  # fmt: skip
    assert (run["model"], run["method"], run["variant"], run["seed"]) == ("toy", "mine", "main", 3)
    assert (run["model_path"], run["train_data"], run["validation_data"]) == ("m", "t.parquet", "v.parquet")
    assert run["reading"] == READING | {"max_chunks": 9}
    assert run["credit"]["method"] == "teacher" and run["credit"]["combine"] == "sum"
    evaluation = made.runs.evaluation(made.rows.selected[0], "3")
    assert evaluation["seed"] == 3 and evaluation["reading"] == READING  # tested as the others are
    assert evaluation["evaluation"] == {"dtype": "float32", "in_flight": 64, "samples": 4, "temperature": 1.0, "top_p": 0.7}


def test_the_scorer_of_a_run(tmp_path):
    lines = [f"toy\t{name}\tmain\trl\t{name}\t\ttable1" for name in ("judge", "prm", "teacher")]
    made = of_rows(tmp_path, *lines, "toy\tstar\tmain\tsft\t\t\ttable1", "toy\tbase\tmain\tnone\t\t\ttable1")
    judged, measured, plain, _, base = made.rows.selected
    assert [scorer_kind(row) for row in made.rows.selected] == ["judge", "prm", None, None, None]
    serving = {"window_tokens": 512, "in_flight": 64, "timeout_seconds": 60, "failures_allowed": 0.05, "gpu_memory": 0.3}
    request = {"chat_template_kwargs": {"enable_thinking": False}}
    judge = {"kind": "judge", "model": "toy_judge", "path": "j", "endpoint": "", "answer_tokens": 16}
    judge |= {"dtype": "float32", "request": request}
    assert made.runs.training(judged, 0, "", "", "", "j")["scorer"] == judge | serving
    own = {"kind": "prm", "model": "prm", "path": "p", "endpoint": "", "answer_tokens": 0, "dtype": "float32"}
    own["request"] = {}
    assert made.runs.training(measured, 0, "", "", "", "p")["scorer"] == own | serving | {
        "window_tokens": 128,
        "gpu_memory": 0.05,
    }
    assert "scorer" not in made.runs.training(plain, 0, "", "", "")
    assert made.models.tested(base, 0) == "<results>/models/given/toy"
    assert made.models.tested(plain, 0) == "<results>/runs/toy/teacher/main/seed0/model"
    assert made.runs.first_trained("{method}/{seed}") == "judge/0"
    away = of_rows(tmp_path, lines[0], judge={"endpoint": "https://x/v1", "model": "gpt"})
    scorer = away.runs.training(away.rows.selected[0], 0, "", "", "", "j")["scorer"]
    assert (scorer["endpoint"], scorer["path"], scorer["model"]) == ("https://x/v1", "", "gpt")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "toy\tmine\tmain\trl\tteacher\tcredit.minmx=off\ttable1",
            "{path}: mine main overrides 'credit.minmx', which does not exist.",
        ),
        ("toy\tmine\tmain\trl\tteacher\tprm.batch=3\ttable1", "{path}: mine main overrides 'prm.batch', which does not exist."),
        ("toy\tmine\tmain\trl\tteacher\tsteps\ttable1", "{path}: mine main overrides 'steps', which does not exist."),
        ("toy\tmine\tmain\trl\tteacher\ttraining.steps=-\ttable1", "toy mine main: training: steps must be int, not '-'"),
        (
            "toy\tmine\tmain\trl\tteacher\ttrain_sets.train=x\ttable1",
            "Unknown data set in {path}: 'x'; there are hotpotqa_training",
        ),
        ("toy\tmine\tmain\tsft\t\tdistillation.teacher=huge\ttable1", "Unknown teacher in {path}: 'huge'; there are self, 0.6B"),
        ("toy\tmine\tmain\tkd\t\tdistillation.precompute=true\ttable1", "distillation.precompute needs distillation.kl_top_k"),
        (
            "toy\tmine\tmain\tsft\t\tdistillation.teacher=toy_teacher distillation.rounds=2\ttable1",
            "{path}: mine main has rounds but its teacher is not self.",
        ),
        (
            "toy\tmine\tmain\tsft\t\ttrain_sets.train=toy_training\ttable1",
            "{path}: mine main overrides train_sets or train_reading, which only training rl can: ",
        ),
    ],
)
def test_a_row_that_comes_to_nothing(tmp_path, line, message):
    with pytest.raises(UserError) as told:
        of_rows(tmp_path, line)
    assert str(told.value).startswith(message.format(path=tmp_path / "runs.tsv")) and "\n" not in str(told.value)


def test_further_seeds_of_some_runs(tmp_path):
    base, other = "toy\tbase\tmain\tnone\t\t\ttable1", "toy\tother\tmain\trl\toutcome\t\ttable1"
    table = of_rows(tmp_path, base, MINE, other, more_seeds={"seeds": [0, "2", 1], "select": {"method": ["mine"]}}).runs.table
    assert [(case["method"], case["seed"]) for case in table.cases(table.selected)] == [
        ("base", 0), ("mine", 0), ("mine", 2), ("mine", 1), ("other", 0)
    ]  # fmt: skip
    with pytest.raises(UserError, match="Unknown method 'none'"):
        of_rows(tmp_path, base, MINE, more_seeds={"seeds": [1], "select": {"method": ["none"]}})


def test_only_selected_rows_are_checked(tmp_path):
    bad = "sample\tother\tmain\trl\tteacher\tcredit.minmx=off\ttable1"
    made = of_rows(tmp_path, MINE, bad, select={"model": ["toy"], "variant": []})
    assert [row.method for row in made.rows.selected] == ["mine"]


def test_a_first_run_needs_one_to_train():
    made = study(select={"model": ["toy"], "method": ["base"], "variant": []})
    with pytest.raises(UserError, match=r"^`smoke` checks a run of reinforcement learning, and `select` leaves none\.$"):
        made.runs.first_trained("{model}")
