"""Strictly typed records: wrong types, odd records among many, other layouts; all made up."""

import json
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import hotpot_record
from test_longbench import row as longbench_row
from test_questions import annotation, hub, musique_record, paper

from tamtrl.errors import DataWarning, UserError
from tamtrl.tasks import hotpotqa, longbench, multihop, musique, qasper, twowiki
from tamtrl.tasks.typed import derived_id


def write(path, rows):
    path.write_text(json.dumps(rows))
    return path


def changed(record: dict, change: dict) -> dict:
    """A copy with the values at some paths, e.g. ``{"a.0.b": 1}``, replaced."""
    record = json.loads(json.dumps(record))
    for place, value in change.items():
        *parents, last = [int(part) if part.isdigit() else part for part in place.split(".")]
        target = record
        for part in parents:
            target = target[part]
        target[last] = value
    return record


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question": None}, "question is null; it must be a valid string"),
        ({"question": " "}, 'question is " "; it must hold some text'),
        ({"answer": ""}, 'answer is ""; it must hold some text'),
        ({"answer": ["Paris"]}, "answer is a list of 1; it must be a valid string"),
        ({"answer": 7}, "answer is 7; it must be a valid string"),
        ({"_id": None}, "_id is null; it must be a valid string"),
        ({"context.1.0": None}, r"context\[1\].title is null; it must be a valid string"),
        ({"context.1.1": "Text."}, r'context\[1\].sentences is "Text."; it must be a valid list'),
        ({"context.1.1.0": None}, r"context\[1\].sentences\[0\] is null"),
        ({"context.1": ["only"]}, r"context\[1\] is a list of 1; it must be a mapping"),
        ({"supporting_facts.0.1": True}, r"supporting_facts\[0\].sent_id is true; it must be a valid integer"),
        ({"supporting_facts": []}, "supporting_facts is a list of 0"),
        (
            {"supporting_facts": {"Title 1-0": [0, 1]}},
            r"supporting_facts is a mapping of 1; it needs lists called title and sent_id \(it has Title 1-0\)",
        ),
        (
            {"supporting_facts": {"title": ["a"], "sent_id": [0, 1]}},
            "supporting_facts is a mapping of 2; its lists differ in length: title 1, sent_id 2",
        ),
    ],
)
def test_hotpotqa_fields(change, message):
    with pytest.raises(UserError, match=f"here is not a labelled record of HotpotQA's layout: {message}"):
        hotpotqa.parse(changed(hotpot_record(1), change), "here")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer_aliases": "Lutetia"}, 'answer_aliases is "Lutetia"; it must be a valid list'),
        ({"answer_aliases": {"Lutetia": 1}}, "answer_aliases is a mapping of 1; it must be a valid list"),
        ({"paragraphs.0.is_supporting": "False"}, r'paragraphs\[0\].is_supporting is "False"; it must be a valid boolean'),
        ({"paragraphs.0.is_supporting": 0}, r"paragraphs\[0\].is_supporting is 0; it must be a valid boolean"),
        ({"answerable": "false"}, 'answerable is "false"; it must be a valid boolean'),
        ({"answer": " "}, "question 2hop__1 has no gold answer"),
        ({"id": 5}, "id is 5; it must be a valid string"),
    ],
)
def test_musique_fields(change, message):
    with pytest.raises(UserError, match=message):
        musique.parse(changed(musique_record(1), change), "here")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": "Paris"}, 'answers is "Paris"; it must be a valid list'),
        ({"answers": {"Paris": 1}}, "answers is a mapping of 1; it must be a valid list"),
        ({"answers": ["", " "]}, "has no answer"),
        ({"context": None}, "context is null"),
        ({"_id": None}, "_id is null"),
    ],
)
def test_longbench_fields(tmp_path, change, message):
    path = write(tmp_path / "qasper.json", [changed(longbench_row(0), change)])
    with pytest.raises(UserError, match=message):
        list(longbench.load(path, "qasper", "made_up"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"qas.0.answers.0.answer.yes_no": "Yes"}, r'qas\[0\].answers\[0\].answer.yes_no is "Yes"; it must be a valid boolean'),
        ({"qas.0.answers.0.answer.unanswerable": 1}, "unanswerable is 1; it must be a valid boolean"),
        ({"full_text.0.paragraphs": "First."}, r'full_text\[0\].paragraphs is "First."; it must be a valid list'),
        ({"full_text": {}}, r"it needs lists called section_name and paragraphs \(it has nothing\)"),
        ({"qas.0.answers.0.answer.free_form_answer": " "}, "question q1 has no gold answer"),
    ],
)
def test_qasper_fields(tmp_path, change, message):
    sound = paper([annotation(free_form_answer="7")])
    with pytest.raises(UserError, match=message):
        list(qasper.load(write(tmp_path / "papers.json", [changed(sound, change)]), "qasper"))


def test_a_key_twice_is_not_a_choice(tmp_path):
    text = json.dumps([hotpot_record(1)]).replace('"question"', '"answer": "another", "question"')
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UserError, match="it has answer twice"):
        multihop.load(tmp_path / "a.json")


def test_columns_instead_of_rows(tmp_path):
    rows = [hotpot_record(1), hotpot_record(2)]
    for columns in ({key: [row[key] for row in rows] for key in rows[0]}, {key: {"0": rows[0][key]} for key in rows[0]}):
        with pytest.raises(UserError, match=r"columns instead of rows|it lacks question"):
            multihop.load(write(tmp_path / "a.json", columns))


def test_a_few_odd_records_are_skipped_and_named(tmp_path):
    """2 of 2,001 are under 0.1 %; 3 of 2,001 are over."""
    rows = [musique_record(number) for number in range(2001)]
    rows[5]["answer"] = ""
    rows[9]["paragraphs"] = None
    path = write(tmp_path / "a.json", rows)
    with pytest.warns(DataWarning) as told:
        assert len(multihop.load(path, "musique")) == 1999
    (warning,) = told
    assert "2 of 2001 questions can't be used and were skipped" in str(warning.message)
    assert "record 6: question 2hop__5 has no gold answer" in str(warning.message)
    assert "record 10 is not a labelled MuSiQue record: paragraphs is null" in str(warning.message)
    rows[20]["id"] = rows[19]["id"]
    with pytest.raises(
        UserError, match=r"record 6: question .* In all 3 of 2001 questions of .*a.json can't be used; up to 0.1 %"
    ):
        multihop.load(write(path, rows), "musique")


def test_another_data_set_is_refused_without_reading_all_of_it(tmp_path):
    rows = [{"input": "x", "answers": ["y"]}] * 5000
    with pytest.raises(UserError, match=r"it lacks question; it lacks answer; it lacks context\. None of the first 10 questions"):
        multihop.load(write(tmp_path / "a.json", rows))


def test_the_limit_is_each_files_own(tmp_path):
    """One odd record of a small file isn't made up for by a large one beside it."""
    for name, start in (("a.json", 0), ("b.json", 2000)):
        write(tmp_path / name, [musique_record(number) for number in range(start, start + (2000 if name == "a.json" else 20))])
    assert len(multihop.load(tmp_path, "musique")) == 2020
    rows = [musique_record(number, answer="" if number == 2003 else "x") for number in range(2000, 2020)]
    write(tmp_path / "b.json", rows)
    with pytest.raises(UserError, match=r"In all 1 of 20 questions of .*b.json can't be used"):
        multihop.load(tmp_path, "musique")


@pytest.mark.parametrize("blank", ["\u200b", "\ufeff \u200b", "\0", "\u2060\n"])
def test_text_that_shows_nothing_is_none(tmp_path, blank):
    with pytest.raises(UserError, match="it must hold some text"):
        hotpotqa.parse(changed(hotpot_record(1), {"answer": blank}), "here")
    with pytest.raises(UserError, match="has no gold answer"):
        musique.parse(changed(musique_record(1), {"answer": blank}), "here")
    assert musique.parse(musique_record(1, answer_aliases=[blank]), "here").answers == ("New York City",)
    path = write(tmp_path / "q.json", [changed(longbench_row(0), {"answers": [blank]})])
    with pytest.raises(UserError, match="has no answer"):
        list(longbench.load(path, "qasper", "x"))
    for spans, gold in ((["", blank], None), ([blank, "b"], "b")):
        write(path, [paper([annotation(extractive_spans=spans)])])
        if gold:
            assert [one.answers for one in qasper.load(path, "x")] == [(gold,)]
            continue
        with pytest.raises(UserError, match="has no gold answer"):
            list(qasper.load(path, "x"))


@pytest.mark.parametrize("ids", [None, "q1", {"0": "q1"}])
def test_ids_of_the_hubs_qasper_are_a_list_or_missing(tmp_path, ids):
    made = hub(paper([annotation(yes_no=True)]))
    made["qas"]["question_id"] = ids
    with pytest.raises(
        UserError, match=r"it needs lists called question_id \(it has question, question_id \(no list\), answers\)"
    ):
        list(qasper.load(write(tmp_path / "q.json", [made]), "x"))
    del made["qas"]["question_id"]
    assert len(list(qasper.load(write(tmp_path / "q.json", [made]), "x"))) == 1


def test_a_record_without_an_id_gets_one_from_its_content(tmp_path):
    records = [{key: value for key, value in hotpot_record(number).items() if key != "_id"} for number in (1, 2)]
    first = [question.id for question in multihop.load(write(tmp_path / "a.json", records))]
    again = [question.id for question in multihop.load(write(tmp_path / "b.json", records[::-1]))]
    assert first == again[::-1] and len(set(first)) == 2 and all(len(one) == 24 for one in first)
    row = {key: value for key, value in longbench_row(0).items() if key != "_id"}
    (example,) = longbench.load(write(tmp_path / "qasper.json", [row]), "qasper", "made_up")
    assert example.id == derived_id(row["input"], row["context"])


def test_hub_rows_of_hotpotqa_and_qasper(tmp_path):
    """As parquet and as JSON lines; tables are mappings of lists there."""
    official = hotpot_record(1)
    row = {"id": "h1", "question": official["question"], "answer": official["answer"]}
    row["context"] = {"title": [t for t, _ in official["context"]], "sentences": [s for _, s in official["context"]]}
    facts = official["supporting_facts"]
    row["supporting_facts"] = {"title": [t for t, _ in facts], "sent_id": [n for _, n in facts]}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    expected = hotpotqa.parse(official | {"_id": "h1"}, "x")
    assert multihop.load(tmp_path / "a.parquet") == multihop.load(tmp_path / "a.jsonl") == [expected]
    made = paper([annotation(yes_no=True)])
    pq.write_table(pa.Table.from_pylist([hub(made)]), tmp_path / "q.parquet")
    (example,) = qasper.load(tmp_path / "q.parquet", "qasper")
    assert [example] == list(qasper.load(write(tmp_path / "q.json", [made]), "qasper")) and example.answers == ("Yes",)


# -- 2WikiMultihopQA's aliases -----------------------------------------------------------------------------------------

ALIASES = [
    {"Q_id": "Q30", "aliases": ["USA", "United States"], "demonyms": ["American"]},
    {"Q_id": "Q9", "aliases": [], "demonyms": []},
]


@pytest.mark.parametrize("kind", ["archive", "folder", "beside"])
def test_names_of_an_answer_are_answers(tmp_path, kind):
    rows = [hotpot_record(1, answer="United States", answer_id="Q30"), hotpot_record(2, answer_id="Q9")]
    rows += [hotpot_record(3, answer_id=None), hotpot_record(4)]
    lines = "\n".join(map(json.dumps, ALIASES))
    if kind == "archive":
        source = tmp_path / "data_ids.zip"
        with zipfile.ZipFile(source, "w") as archive:
            archive.writestr("data/dev.json", json.dumps(rows))
            archive.writestr("data/id_aliases.json", lines)
    else:
        (tmp_path / "id_aliases.json").write_text(lines)
        path = write(tmp_path / "dev.json", rows)
        source = path if kind == "beside" else tmp_path
    questions = multihop.load(source, "2wikimultihopqa")
    assert [question.answers for question in questions[:1]] == [("United States", "USA", "American")]
    assert [len(question.answers) for question in questions[1:]] == [1, 1, 1]
    assert {question.answers for question in multihop.load(source)[:1]} == {("United States",)}, "HotpotQA has no such ids"


def test_aliases_of_another_layout_are_refused(tmp_path):
    (tmp_path / "id_aliases.json").write_text('{"Q_id": "Q30", "aliases": "USA", "demonyms": []}')
    with pytest.raises(UserError, match='aliases is "USA"; it must be a valid list'):
        twowiki.aliases(write(tmp_path / "dev.json", []))


def test_aliases_of_an_id_that_stands_twice_all_count(tmp_path):
    more = {"Q_id": "Q30", "aliases": ["US"], "demonyms": []}
    (tmp_path / "id_aliases.json").write_text(f"{json.dumps(ALIASES)}{json.dumps([more])}")
    with pytest.warns(DataWarning, match=r"has 1 ids again \(Q30\); all of their names count"):
        assert twowiki.aliases(write(tmp_path / "dev.json", []))["Q30"] == ["USA", "United States", "American", "US"]
