"""Data: the example file, the synthesis, the toy generator."""

import gzip
import hashlib
import json
import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import hotpot_record

from tamtrl.errors import UserError
from tamtrl.evaluation.predictions import read_predictions
from tamtrl.tasks import hotpotqa, synthesis, toy
from tamtrl.tasks.documents import join_documents
from tamtrl.tasks.example import SCHEMA, Example, ExampleFile, write_examples


def example(**changes) -> Example:
    values = dict(
        id="1", question="q?", context="Some context.", relevant_spans=((0, 4),), answers=("a",),
        answer_mode="alternatives", benchmark="made_up",
    )  # fmt: skip
    return Example(**values | changes)


# -- the file ----------------------------------------------------------------------------------------------------------


def test_round_trip_keeps_everything_and_the_schema_is_explicit(tmp_path):
    examples = [
        example(),
        example(id="2", relevant_spans=(), context="naïve 猫 🙂"),
        example(id="3", answers=("x", "y")),
    ]
    path = tmp_path / "examples.parquet"
    assert write_examples(path, iter(examples), batch=2) == 3
    assert pq.read_schema(path).equals(SCHEMA)
    assert list(ExampleFile(path)) == examples
    with pytest.raises(IndexError):
        ExampleFile(path)[3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"relevant_spans": ((5, 5),)}, "span 5:5 is empty"),
        ({"relevant_spans": ((0, 4), (3, 6))}, "span 3:6"),
        ({"relevant_spans": ((0, 99),)}, "outside the context"),
        ({"answers": ()}, "has no answer"),
        ({"context": ""}, "empty question or context"),
        ({"answer_mode": "any"}, "answer_mode 'any'"),
    ],
)
def test_bad_examples_are_refused(changes, message):
    with pytest.raises(UserError, match=message):
        example(**changes)


def test_nothing_half_written(tmp_path):
    def broken():
        yield example()
        raise RuntimeError("cut off")

    with pytest.raises(RuntimeError):
        write_examples(tmp_path / "x.parquet", broken())
    with pytest.raises(UserError, match="no example"):
        write_examples(tmp_path / "x.parquet", iter([]))
    assert list(tmp_path.iterdir()) == []


def test_other_parquet_files_are_refused(tmp_path):
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"text": ["x"]}), path)
    with pytest.raises(UserError, match="columns of an Example file"):
        ExampleFile(path)[0]
    path.write_bytes(b"<html>quota exceeded</html>")
    with pytest.raises(UserError, match="not a readable parquet file"):
        ExampleFile(path)[0]


# -- synthesis ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def questions():
    return [hotpotqa.parse(hotpot_record(n), "x") for n in range(20)]


def test_context_and_spans():
    context, spans = join_documents(["A\nx", "B\ny"], [False, True])
    assert context == "Document 1:\nA\nx\n\nDocument 2:\nB\ny"
    assert [context[a:b] for a, b in spans] == ["Document 2:\nB\ny"]


def test_synthesis_has_the_right_paragraphs(questions):
    corpus = synthesis.Corpus.of(questions)
    built = synthesis.synthesise(questions[3], corpus, 50, seed=0)
    documents = [part.split(":\n", 1)[1] for part in built.context.split("\n\n")]
    assert len(documents) == 50 == len(set(documents))
    assert set(questions[3].paragraphs) <= set(documents) <= set(corpus.paragraphs)
    texts = {built.context[a:b].split(":\n", 1)[1] for a, b in built.relevant_spans}
    assert texts == {questions[3].paragraphs[0], questions[3].paragraphs[1]}


def test_each_question_has_a_generator_of_its_own(questions):
    """Neither order nor company changes an example, and positions differ between questions."""
    everything = {e.id: e for e in synthesis.build(questions, 30, None, 0, seed=5)}
    corpus = synthesis.Corpus.of(questions)
    assert all(synthesis.synthesise(q, corpus, 30, 5) == everything[q.id] for q in reversed(questions))
    assert len({e.relevant_spans for e in everything.values()}) > 10
    assert synthesis.synthesise(questions[0], corpus, 30, 6) != everything["q0"]


@pytest.mark.trap(8)
def test_own_paragraphs_beyond_the_number_are_dropped_but_never_supporting_ones(questions):
    corpus = synthesis.Corpus.of(questions)
    built = synthesis.synthesise(questions[0], corpus, 4, seed=0)
    assert built.context.count("Document ") == 4 and len(built.relevant_spans) == 2
    with pytest.raises(UserError, match="2 supporting paragraphs, which don't fit 1"):
        synthesis.synthesise(questions[0], corpus, 1, seed=0)


@pytest.mark.trap(8)
def test_too_few_distractors_or_questions(questions):
    with pytest.raises(UserError, match="needs 490 distractors but the corpus has only 190"):
        synthesis.synthesise(questions[0], synthesis.Corpus.of(questions), 500, seed=0)
    with pytest.raises(UserError, match="asks for 15 questions after the first 10, but the source has only 20"):
        list(synthesis.build(questions, 20, 15, 10, seed=0))


def test_supporting_paragraphs_count_as_texts(questions):
    """One that stands twice in a question is one document."""
    first = questions[0]
    twice = replace(first, paragraphs=(*first.paragraphs, first.paragraphs[0]), supporting=frozenset({0, len(first.paragraphs)}))
    built = synthesis.synthesise(twice, synthesis.Corpus.of(questions), 1, seed=0)
    assert built.context == f"Document 1:\n{first.paragraphs[0]}"


@pytest.mark.parametrize(("count", "skip"), [(-1, 0), (2, -1), (None, -3)])
def test_counts_are_not_negative(questions, count, skip):
    with pytest.raises(UserError, match="neither can be negative"):
        list(synthesis.build(questions, 20, count, skip, seed=0))


def test_skipped_questions_are_not_shared(questions):
    first = {e.id for e in synthesis.build(questions, 20, 8, 0, seed=0)}
    second = {e.id for e in synthesis.build(questions, 20, 8, 8, seed=0)}
    assert len(first) == len(second) == 8 and not first & second


def test_only_usable_questions_are_chosen(questions):
    usable = {"q3", "q5", "q9"}
    built = list(synthesis.build(questions, 20, 2, 1, seed=0, usable=usable))
    assert len(built) == 2 and {e.id for e in built} < usable
    with pytest.raises(UserError, match=r"asks for 4 questions .* only 3 that the closed-book filter kept"):
        list(synthesis.build(questions, 20, 4, 0, seed=0, usable=usable))


def test_own_paragraphs_only(questions):
    built = synthesis.synthesise(questions[0], synthesis.Corpus.of(questions), None, seed=0)
    assert built.context.count("Document ") == 10


# -- toy ---------------------------------------------------------------------------------------------------------------


def test_toy_splits_share_no_question():
    train, held_out = toy.question_split("train", 0), toy.question_split("heldout", 0)
    assert not set(train) & set(held_out) and len(held_out) == 66 and len(train) == 198
    assert {len(q) for q in held_out} == {2, 3}
    with pytest.raises(UserError, match="'test' is not one of"):
        toy.question_split("test", 0)


def test_toy_answers_follow_from_the_relevant_facts():
    for made in toy.generate("heldout", 200, 6, seed=1):
        facts = [made.context[a:b].splitlines()[-1] for a, b in made.relevant_spans]
        assert len(facts) == made.question.count(" of ") and made.context.count("Document ") == 6
        name = made.question.split()[-2]
        for fact in facts:  # in hop order: each fact is about the previous value
            words = fact.split()
            assert words[3] == name
            name = words[-2]
        assert made.answers == (name,)


def test_toy_facts_never_contradict_each_other():
    for made in toy.generate("train", 100, 8, seed=2):
        facts = [line.split(" is ")[0] for line in made.context.splitlines() if line.startswith("The ")]
        assert len(facts) == len(set(facts)) == 8


def test_same_seed_same_bytes(tmp_path):
    def digest(seed):
        path = tmp_path / "toy.parquet"
        write_examples(path, toy.generate("train", 50, 6, seed))
        return hashlib.sha256(path.read_bytes()).hexdigest()

    assert digest(0) == digest(0) != digest(1)


@pytest.mark.parametrize(
    ("documents", "shape"),
    [
        (8, toy.Shape(hops=1, about="things", share="relation", sharing=3)),
        (8, toy.Shape(hops=1, about="people", share="relation")),
        (4, toy.Shape(hops=1, share="subject")),
        (6, toy.Shape(hops=2)),
    ],
)
def test_toy_shapes(documents, shape):
    for made in toy.generate("heldout", 50, documents, seed=1, stream="x", shape=shape):
        facts = [line.split() for line in made.context.splitlines() if line.startswith("The ")]
        asked = [made.context[a:b].splitlines()[-1].split() for a, b in made.relevant_spans]
        others = [fact for fact in facts if fact not in asked]
        assert len(facts) == documents and len(asked) == shape.hops and made.benchmark == "x"
        if shape.about:
            assert (made.answers[0] in toy.NAMES) == (shape.about == "people")
        if shape.share == "relation":
            assert sum(fact[1] == asked[0][1] for fact in others) == (shape.sharing or documents - 1)
        if shape.share == "subject":
            assert all(fact[3] == asked[0][3] for fact in others)


def test_toy_shapes_that_cannot_be():
    with pytest.raises(UserError, match=r"hops is 3; it must be one of \(1, 2\)"):
        toy.Shape(hops=3)
    with pytest.raises(UserError, match="asks for 7 paragraphs that share the asked subject; 4 fit"):
        next(toy.generate("heldout", 1, 8, 0, shape=toy.Shape(hops=1, share="subject")))


def test_a_flipped_bit_of_our_own_files_is_never_read_as_other_text(tmp_path):
    """Prepared examples and predictions: the same, or one sentence."""
    examples, records = (
        list(toy.generate("train", 40, 6, seed=0)),
        [{"document": n, "response": f"It is {n}."} for n in range(40)],
    )
    write_examples(tmp_path / "a.parquet", examples)
    with gzip.open(tmp_path / "a.jsonl.gz", "wt", encoding="utf-8") as stream:
        stream.writelines(json.dumps(record) + "\n" for record in records)
    for name, read, expected in (
        ("a.parquet", lambda p: list(ExampleFile(p)), examples),
        ("a.jsonl.gz", read_predictions, records),
    ):
        sound, rng, refused = (tmp_path / name).read_bytes(), random.Random(name), 0
        for _ in range(60):
            place = rng.randrange(len(sound))
            damaged = sound[:place] + bytes([sound[place] ^ 1 << rng.randrange(8)]) + sound[place + 1 :]
            (tmp_path / name).write_bytes(damaged)
            try:
                assert read(tmp_path / name) == expected
            except UserError:
                refused += 1
        assert refused > 30
