"""Lessons of the toy task, and the premise measured on updates."""

import random
from types import SimpleNamespace

import pytest
import torch
import yaml
from conftest import REPOSITORY, toy_budgets

from tamtrl.errors import UserError
from tamtrl.models import course, premise
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Reader
from tamtrl.tasks import toy


@pytest.fixture(scope="module")
def reader(toy_tokenizer):
    return Reader(Prompts(toy_tokenizer, "brief"), toy_budgets())


def turns(reader, lapse, lapses):
    rng = random.Random(0)
    return [turn for one in toy.generate("train", 60, 6, seed=0) for turn in course.lessons(one, reader, rng, lapse, lapses)[0]]


def test_lapses_by_other_text():
    distractible, careless = (course.LAPSES[name] for name in ("distractible", "careless"))
    # each other fact distracts with 0.5: none 0, one 0.5, two 1 - 0.5 * 0.5
    assert [distractible(0.5, others) for others in range(3)] == [0, 0.5, 0.75]
    assert [careless(0.5, others) for others in range(3)] == [0.5] * 3
    with pytest.raises(UserError, match="lapses are 'sloppy'; they must be one of distractible, careless"):
        course.Course(1, 1, "sloppy", 0.5, 1, 1e-3, 6)


def test_the_schema_knows_the_lapses():
    schema = yaml.safe_load((REPOSITORY / "workflow" / "schemas" / "models.yaml").read_text(encoding="utf-8"))
    made = schema["additionalProperties"]["properties"]["made"]["properties"]
    assert made["course"]["properties"]["lapses"]["enum"] == list(course.LAPSES)


def test_a_distractible_reader_loses_facts_beside_other_text_alone(reader):
    alone = [turn for turn in turns(reader, 1.0, "distractible") if turn.relevant and not turn.others]
    beside = [turn for turn in turns(reader, 1.0, "distractible") if turn.relevant and turn.others]
    assert alone and all(turn.written[1] == turn.right[1] for turn in alone)
    assert beside and all(turn.written[1] != turn.right[1] for turn in beside)
    careless = [turn for turn in turns(reader, 1.0, "careless") if turn.relevant and not turn.others]
    assert all(turn.written[1] != turn.right[1] for turn in careless)


def test_the_teachers_view_has_the_relevant_text_and_the_memory_that_was_written(reader):
    decode = reader.prompts.tokenizer.decode
    example = next(one for one in toy.generate("train", 60, 6, seed=0) if len(one.relevant_spans) == 2)
    (first, *_), _ = course.lessons(example, reader, random.Random(0), 0.0, "careless")
    texts = [example.context[start:end].split("\n")[-1] for start, end in example.relevant_spans]
    assert decode(first.right[0]).count("Document") == first.relevant and decode(first.written[0]).count("Document") == 2
    last = course.lessons(example, reader, random.Random(0), 0.0, "careless")[0][-1]
    assert decode(last.right[1]) == " ".join(texts) + " <|im_end|>"


def test_only_a_distractible_reader_is_taught_the_teachers_view(reader):
    settings = {"able_steps": 1, "lapsing_steps": 1, "lapse": 0.5, "batch": 1, "lr": 1e-3, "documents": 6}
    for lapses, samples in (("careless", 4), ("distractible", 7)):  # three memory turns and an answer; twice each memory turn
        stream = course.course_samples(reader, course.Course(lapses=lapses, **settings), 0, lapses)
        prompts = [next(stream)[0] for _ in range(samples)]
        answers = [number for number, ids in enumerate(prompts) if "Section" not in reader.prompts.tokenizer.decode(ids)]
        assert answers == [samples - 1]


def test_kinds_of_turns():
    def kind(**facts):
        return premise.kind(course.Lesson(([], []), ([], []), **facts))

    assert kind(relevant=1, others=1, kept=0) == "relevant beside other text"
    assert kind(relevant=2, others=0, kept=0) == "relevant text alone"
    assert kind(relevant=0, others=2, kept=1) == "nothing relevant, facts to keep"
    assert kind(relevant=0, others=2, kept=0) == "nothing relevant, nothing kept"


def test_the_probability_of_a_response_is_that_of_all_its_tokens():
    """Token 1 has probability 3/4 everywhere, token 0 has 1/4; prompts and padding don't count."""

    def model(input_ids):
        return SimpleNamespace(logits=torch.log(torch.tensor([0.25, 0.75])).expand(*input_ids.shape, 2))

    found = premise.probabilities(model, [([0, 0, 0], [1]), ([1], [1, 0]), ([0], [1, 1, 1])], pad=0)
    assert found == pytest.approx([3 / 4, 3 / 16, 27 / 64])


def test_the_premise_of_a_model_that_knows_nothing(reader, toy_tokenizer):
    """Every token alike: the right memory has as many factors as tokens, whatever is seen."""
    vocabulary = len(toy_tokenizer)

    def model(input_ids):
        return SimpleNamespace(logits=torch.zeros(*input_ids.shape, vocabulary))

    table = premise.measure(model, reader, documents=6, questions=8, seed=0).set_index(["kind", "view"])
    empty = table.loc["nothing relevant, nothing kept"]
    # "Nothing yet ." and the end of the turn
    assert empty["probability"].tolist() == pytest.approx([vocabulary**-4.0] * 2) and set(empty.index) == set(premise.VIEWS)
    assert table["turns"].sum() == 2 * 8 * 3  # two views of three turns
