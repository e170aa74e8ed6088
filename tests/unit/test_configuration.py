"""What a configuration comes to, and what is refused in one sentence before any job starts."""

import json
import re

import pytest
import yaml
from conftest import REPOSITORY
from toy_study import study

from tamtrl.errors import UserError
from tamtrl.workflow import checkout, configuration, documents
from tamtrl.workflow.documents import typed

pytestmark = pytest.mark.usefixtures("in_the_checkout")


# -- documents ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("3", {"type": "integer"}, 3),
        ("1.0e-5", {"type": "number"}, 1e-5),
        ("true", {"type": "boolean"}, True),
        ("[1, 2]", {}, [1, 2]),
        ('{"a": 1}', {}, {"a": 1}),
        ("many", {"type": "integer"}, "many"),  # the schema will say so
        ("1e3", {"type": "string"}, "1e3"),  # names that look like something else
        ("null", {"type": "string"}, "null"),
        ('"quoted"', {"type": "string"}, "quoted"),
        (4, {"type": "string"}, 4),
        (None, {}, None),
        (["1", "two"], {"items": {"type": "integer"}}, [1, "two"]),
        ({"b": "1", "a": "2"}, {"properties": {"a": {"type": "string"}}}, {"a": "2", "b": 1}),
        ({"x": "7"}, {"additionalProperties": {"type": "string"}}, {"x": "7"}),
        ({"x": "7"}, {"additionalProperties": False}, {"x": 7}),
    ],
)
def test_typed(text, schema, value):
    made = typed(text, schema)
    assert made == value and type(made) is type(value)


def test_the_order_of_keys_is_one_whatever_was_laid_over_what():
    assert list(typed({"b": 1, "a": {"d": 1, "c": 2}}, {})) == ["a", "b"]
    assert list(typed({"b": 1, "a": {"d": 1, "c": 2}}, {})["a"]) == ["c", "d"]


@pytest.mark.parametrize("name", ["a", "Org/toy+1", "0.6B", "with space", "ä", "it's", 'a"b$', "a-b"])
def test_names(name):
    documents.named({name: 1}, "f.yaml")


@pytest.mark.parametrize("name", ["", "-a", " a", "a ", "a,b", "a=b", "{a}", "a>b", "a\nb", "a\tb", "<results>"])
def test_no_names(name):
    with pytest.raises(UserError, match=r"^f\.yaml: .* can't be a name: it is empty, begins with - or a space, ends with"):
        documents.named(["fine", name], "f.yaml")


@pytest.mark.parametrize("name", [None, 7, 1.5, True])
def test_names_are_text(name):
    with pytest.raises(UserError, match=rf"^f\.yaml: the name {name} is not text; put it in quotes\.$"):
        documents.named({name: 1}, "f.yaml")


def test_known_names_the_first_stranger():
    documents.known([], [], "model")
    documents.known(["a", "b"], iter("ab"), "model")
    with pytest.raises(UserError, match=r"^Unknown model 'x'; there are a, 1\.$"):
        documents.known(["a", "x", "y"], ["a", 1], "model")


def test_check_says_where():
    schema = {"properties": {"a": {"items": {"type": "integer"}}}, "additionalProperties": False}
    documents.check({"a": [1]}, schema, "f.yaml")
    with pytest.raises(UserError, match=r"^f\.yaml: a\.1: 'x' is not of type 'integer'$"):
        documents.check({"a": [1, "x"]}, schema, "f.yaml")
    with pytest.raises(UserError, match=r"^f\.yaml: Additional properties are not allowed \('b' was unexpected\)$"):
        documents.check({"b": 1}, schema, "f.yaml")


def test_what_cant_be_read_is_named(tmp_path):
    (tmp_path / "bad.yaml").write_text("a: [1,\n b: }")
    for name in ("bad.yaml", "absent.yaml"):
        with pytest.raises(UserError, match=rf"{name} can't be read: ") as told:
            documents.read(tmp_path / name)
        assert "\n" not in str(told.value)


# -- what extends what -------------------------------------------------------------------------------------------------


def test_lay_over():
    below = {"a": {"x": 1, "y": [1, 2]}, "b": 2, "c": None, "d": "text"}
    configuration.lay_over(below, {"a": {"y": [3]}, "b": {"z": 1}, "c": {"q": {"r": 1}}, "d": 5, "e": {}})
    assert below == {"a": {"x": 1, "y": [3]}, "b": {"z": 1}, "c": {"q": {"r": 1}}, "d": 5, "e": {}}


def test_a_chain_of_configurations(tmp_path):
    """toy-full.yaml extends toy.yaml, which lies over config.yaml; the nearest value counts."""
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"extends": "config/toy-full.yaml", "training": {"steps": 3}}))
    made = configuration.complete({"extends": str(tmp_path / "mine.yaml"), "seeds": [5]}, REPOSITORY)
    assert made["seeds"] == [5] and made["training"]["steps"] == 3 and made["label"] == "toy-full"
    assert made["training"]["lr"] == 3.0e-4 and made["reading"]["chunk_tokens"] == 28  # toy.yaml
    assert made["training"]["kl_coef"] == 1.0e-3 and made["credit"]["minmax"] == "batch"  # config.yaml
    assert configuration.complete({}, REPOSITORY) == yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text())


def test_what_is_laid_over_config_yaml_stays_out_of_it():
    configuration.complete({"training": {"steps": 3}}, REPOSITORY)
    assert configuration.complete({}, REPOSITORY)["training"]["steps"] == 800


def test_a_circle_of_configurations(tmp_path):
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text(f"extends: {two}\n")
    two.write_text(f"extends: {one}\n")
    with pytest.raises(UserError, match=rf"^{one} extends itself, through {one} and {two}\.$"):
        configuration.complete({"extends": str(one)}, REPOSITORY)


def test_what_is_extended_holds_keys(tmp_path):
    (tmp_path / "list.yaml").write_text("- 1\n")
    with pytest.raises(UserError, match=r"list\.yaml must hold keys and values: a configuration extends it\.$"):
        configuration.complete({"extends": str(tmp_path / "list.yaml")}, REPOSITORY)
    with pytest.raises(UserError, match=r"^nowhere\.yaml can't be read: "):
        configuration.complete({"extends": "nowhere.yaml"}, REPOSITORY)


def test_files_of_ours_and_of_the_users(tmp_path, monkeypatch):
    assert checkout.ours(REPOSITORY, "config/runs.tsv") == "config/runs.tsv"  # here is the checkout
    assert checkout.located(REPOSITORY, "config/runs.tsv", False) == "config/runs.tsv"
    monkeypatch.chdir(tmp_path)
    assert checkout.ours(REPOSITORY, "config/runs.tsv") == f"{REPOSITORY}/config/runs.tsv"
    assert checkout.located(REPOSITORY, "config/runs.tsv", False) == f"{REPOSITORY}/config/runs.tsv"
    assert checkout.located(REPOSITORY, "nowhere.tsv", False) == "nowhere.tsv"
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "runs.tsv").touch()
    assert checkout.located(REPOSITORY, "config/runs.tsv", False) == "config/runs.tsv"  # the user's, named as ours is
    assert checkout.located(REPOSITORY, "config/runs.tsv", True) == f"{REPOSITORY}/config/runs.tsv"


# -- what it comes to --------------------------------------------------------------------------------------------------


def test_text_from_the_command_line():
    """--config hands over nested values as text."""
    given = {"training": {"steps": "7", "lr": "1e-5"}, "credit": {"minmax": False, "std": "false"}, "judge": {"model": "1e3"}}
    paper = study(**given, seeds=["1", "2"]).paper
    assert (paper["training"]["steps"], paper["training"]["lr"], paper["seeds"]) == (7, 1e-5, [1, 2])
    assert (paper["credit"]["minmax"], paper["credit"]["std"], paper["judge"]["model"]) == ("off", False, "1e3")


def test_benchmarks_of_the_toy_configuration():
    paper = study().paper
    assert paper.evaluated == [
        "toy_multihop", "toy_long", "toy_keys_1", "toy_keys_2", "toy_keys_3", "toy_needle", "toy_dense", "toy_two_hops",
        "toy_two_hops_long",
    ]  # fmt: skip
    assert paper.shown == "toy_multihop" and "toy_keys=toy_keys_1,toy_keys_2,toy_keys_3" in paper.means
    assert paper.note.startswith("TOY SCALE: ") and "Generated stand-ins: toy_multihop for hotpotqa, " in paper.note
    assert study(sweep_on="toy_documents_4", evaluate_on=["toy_two_hops"], average_over=[]).paper.shown == "toy_two_hops"
    assert study("config/smoke.yaml").paper.note == study("config/smoke.yaml").paper["note"]  # no stand-in


def test_tests_beside_table_1():
    paper = study("config/toy-full.yaml").paper
    assert list(paper.tests) == ["documents", "chunk_14", "chunk_42"]
    assert paper.test_reading("chunk_14") == {"chunk_tokens": 14, "max_chunks": 24}
    assert paper.test_reading("documents") is None and paper.test_reading(None) is None
    one, other = ({"name": "a", "benchmarks": [name]} for name in ("toy_long", "toy_dense"))
    assert list(study(tests={"fig5_test": [one], "fig6_test": [one]}).paper.tests) == ["a"]
    with pytest.raises(UserError, match=r"^configuration: two different tests are called 'a'; give each its own name\.$"):
        study(tests={"fig5_test": [one], "fig6_test": [other]})
    with pytest.raises(UserError, match=r"^Unknown benchmark in tests: 'nope'; there are hotpotqa_training, "):
        study(tests={"fig5_test": [one | {"benchmarks": ["nope"]}], "fig6_test": []})


def test_files_in_place_of_sources_are_no_settings():
    paper = study(hotpotqa_train="mine.json").paper
    assert paper.own_files == {"hotpotqa_train": "mine.json"} and "hotpotqa_train" not in paper.as_given
    assert paper.as_given["label"] == "toy"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"evaluate_on": ["triviaqa"]}, "Unknown benchmark 'triviaqa'; there are hotpotqa_training"),
        ({"train_sets": {"train": "hotpot"}}, "Unknown data set in train_sets: 'hotpot'; there are hotpotqa_training"),
        ({"means": {"toy_keys": ["niah"]}}, "Unknown benchmark in means: 'niah'; there are"),
        ({"means": {"-a": ["toy_long"]}}, "configuration: means: '-a' can't be a name: "),
        ({"metric": "accuracy"}, "configuration: metric: 'accuracy' is not one of"),
        ({"closed_book": {"models": ["gpt"]}}, "Unknown model in closed_book: 'gpt'; there are"),
        (
            {"trainning": {"steps": "3"}},
            "configuration: Additional properties are not allowed ('trainning' was unexpected)",
        ),
        (
            {"training": {"stepz": "3"}},
            "configuration: training: Additional properties are not allowed ('stepz' was unexpected)",
        ),
        ({"training": {"steps": "many"}}, "configuration: training.steps: 'many' is not of type 'integer'"),
        ({"seeds": ["one"]}, "configuration: seeds.0: 'one' is not of type 'integer'"),
        ({"credit": {"minmax": "all"}}, "configuration: credit.minmax: 'all' is not one of"),
        ({"credit": ["minmax"]}, "configuration: credit: ['minmax'] is not of type 'object'"),
        ({"models": "nowhere.yaml"}, "nowhere.yaml can't be read: "),
    ],
)
def test_bad_configuration(given, message):
    with pytest.raises(UserError) as told:
        study(**given)
    assert str(told.value).startswith(message) and "\n" not in str(told.value)


def test_every_key_that_holds_a_number_may_come_as_text():
    """`--config` hands over nested values as text."""
    keys = configuration.schema(REPOSITORY, "config.yaml")["properties"]
    holding = {name for name, key in keys.items() if re.search(r'"(integer|number|boolean)"', json.dumps(key))}
    assert "more_seeds" in holding and holding <= set(configuration.SECTIONS)
