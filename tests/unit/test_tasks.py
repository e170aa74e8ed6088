"""Data: the example file, HotpotQA's traps, the synthesis, the toy generator."""

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import hotpot_record

from tamtrl.errors import UserError
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


# -- HotpotQA ----------------------------------------------------------------------------------------------------------


def write_json(path, records):
    path.write_text(json.dumps(records))
    return path


def to_hub(record: dict) -> dict:
    titles, sentences = zip(*record["context"], strict=True)
    facts, numbers = zip(*record["supporting_facts"], strict=True)
    return {
        "id": record["_id"],
        "question": record["question"],
        "answer": record["answer"],
        "context": {"title": list(titles), "sentences": list(sentences)},
        "supporting_facts": {"title": list(facts), "sent_id": list(numbers)},
    }


def test_official_and_hub_layouts_agree(tmp_path):
    records = [hotpot_record(n) for n in range(3)]
    records[0]["context"][5][1].append(" A line\u2028separator and a next\u0085line.")
    official = hotpotqa.load(write_json(tmp_path / "official.json", records))
    folder = tmp_path / "hub" / "distractor"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([to_hub(r) for r in records[:2]]), folder / "train-00000-of-00002.parquet")
    pq.write_table(pa.Table.from_pylist([to_hub(records[2])]), folder / "train-00001-of-00002.parquet")
    lines = tmp_path / "hub.jsonl"
    lines.write_text("\n".join(json.dumps(to_hub(r), ensure_ascii=False) for r in records))
    assert official == hotpotqa.load(tmp_path / "hub") == hotpotqa.load(lines)
    assert official[0].paragraphs[0] == "Title 0-0\nSentence one of 0-0. It has value v00."
    assert official[0].supporting == {0, 1}


def test_fullwiki_is_refused():
    record = hotpot_record(1)
    record["context"] = record["context"][1:]
    with pytest.raises(UserError, match=r"lacks its supporting paragraph 'Title 1-0'.*fullwiki.*distractor"):
        hotpotqa.parse(record, "file.json item 0")


def test_duplicate_titles_keep_both_paragraphs():
    record = hotpot_record(1)
    record["context"].append(["Title 1-0", ["Another page of the same name."]])
    question = hotpotqa.parse(record, "x")
    assert len(question.paragraphs) == 11 and question.supporting == {0, 1, 10}


def test_html_entities_are_compared_as_they_stand():
    record = hotpot_record(1, supporting_facts=[["Tom &amp; Jerry", 0], ["Title 1-1", 0]])
    record["context"][0][0] = "Tom &amp; Jerry"
    question = hotpotqa.parse(record, "x")
    assert question.supporting == {0, 1} and question.paragraphs[0].startswith("Tom &amp; Jerry\n")


def test_two_paragraphs_empty_sentences_and_stray_spaces():
    record = hotpot_record(1, paragraphs=2, question=" What? ")
    record["context"][0][1] = ["First.", "", " Third."]
    question = hotpotqa.parse(record, "x")
    assert question.paragraphs[0] == "Title 1-0\nFirst. Third." and question.text == "What?"


def test_sentence_numbers_beyond_the_paragraph_do_no_harm():
    assert hotpotqa.parse(hotpot_record(1, supporting_facts=[["Title 1-0", 99]]), "x").supporting == {0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{not json", "not valid JSON"),
        ('{"a": 1}', "must hold a JSON list"),
        ("[]", "holds no HotpotQA question"),
        ('[{"_id": "1", "question": "q"}]', "item 0 is not a labelled HotpotQA record"),
        ('["text"]', "item 0 is not a labelled HotpotQA record"),
    ],
)
def test_malformed_files(tmp_path, content, message):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        hotpotqa.load(path)


def test_missing_file_and_repeated_id(tmp_path):
    with pytest.raises(UserError, match=r"nowhere.json does not exist"):
        hotpotqa.load(tmp_path / "nowhere.json")
    path = write_json(tmp_path / "twice.json", [hotpot_record(1), hotpot_record(1)])
    with pytest.raises(UserError, match="q1 appears twice"):
        hotpotqa.load(path)


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


def test_own_paragraphs_beyond_the_number_are_dropped_but_never_supporting_ones(questions):
    corpus = synthesis.Corpus.of(questions)
    built = synthesis.synthesise(questions[0], corpus, 4, seed=0)
    assert built.context.count("Document ") == 4 and len(built.relevant_spans) == 2
    with pytest.raises(UserError, match="2 supporting paragraphs, which don't fit 1"):
        synthesis.synthesise(questions[0], corpus, 1, seed=0)


def test_too_few_distractors_or_questions(questions):
    with pytest.raises(UserError, match="needs 490 distractors but the corpus has only 190"):
        synthesis.synthesise(questions[0], synthesis.Corpus.of(questions), 500, seed=0)
    with pytest.raises(UserError, match="asks for 15 questions after the first 10, but the source has only 20"):
        list(synthesis.build(questions, 20, 15, 10, seed=0))


def test_skipped_questions_are_not_shared(questions):
    first = {e.id for e in synthesis.build(questions, 20, 8, 0, seed=0)}
    second = {e.id for e in synthesis.build(questions, 20, 8, 8, seed=0)}
    assert len(first) == len(second) == 8 and not first & second


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
