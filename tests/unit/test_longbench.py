"""LongBench from every layout, and its traps; rows made up."""

import json
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamtrl.errors import UserError
from tamtrl.tasks import longbench


def row(number: int, **changes) -> dict:
    values = dict(input=f"Question {number}? ", context=f"Passage 1:\nText {number}\u2028 with a separator.", answers=["Yes"])
    return values | dict(length=5, dataset="qasper", language="en", all_classes=None, _id=f"{number:048x}") | changes


def lines(rows) -> str:
    return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)


def load(source, config="qasper"):
    return list(longbench.load(source, config, "made_up"))


@pytest.mark.trap(2)
def test_every_layout_gives_the_same_examples(tmp_path):
    rows = [row(n) for n in range(3)]
    (tmp_path / "qasper.jsonl").write_text(lines(rows))
    expected = load(tmp_path / "qasper.jsonl")
    assert [e.question for e in expected] == ["Question 0?", "Question 1?", "Question 2?"]
    assert expected[0].answer_mode == "alternatives" and "\u2028" in expected[0].context

    folder = tmp_path / "hub"
    folder.mkdir()
    with zipfile.ZipFile(folder / "data.zip", "w") as archive:
        archive.writestr("data/qasper.jsonl", lines(rows))
        archive.writestr("data/musique.jsonl", lines([row(9, dataset="musique")]))
    parquet = tmp_path / "parquet" / "qasper"
    parquet.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), parquet / "test-00000-of-00001.parquet")
    for source in (folder, folder / "data.zip", tmp_path / "parquet", parquet / "test-00000-of-00001.parquet"):
        assert load(source) == expected
    assert len(load(folder, "musique")) == 1


@pytest.mark.trap(13)
def test_answers_are_stripped_and_deduplicated_in_order(tmp_path):
    path = tmp_path / "qasper.jsonl"
    path.write_text(lines([row(0, answers=["English", "English ", "Yes", "", "No"])]))
    assert load(path)[0].answers == ("English", "Yes", "No")


@pytest.mark.trap(3)
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("musique_e", "LongBench has no musique_e"),
        ("narrativeqa_e", "LongBench has no narrativeqa_e"),
        ("trivia", "Unknown LongBench data set 'trivia'; there are narrativeqa, qasper"),
    ],
)
def test_names(tmp_path, config, message):
    with pytest.raises(UserError, match=message):
        load(tmp_path, config)


@pytest.mark.trap(3, 4)
def test_bad_sources(tmp_path):
    page = tmp_path / "data.zip"
    page.write_text("<html>Too many requests</html>")
    with pytest.raises(UserError, match="is a web page, not data"):
        load(page)
    with zipfile.ZipFile(page, "w") as archive:
        archive.writestr("data/other.jsonl", "")
    with pytest.raises(UserError, match=r"holds no data/qasper\.jsonl"):
        load(page)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="holds no file for qasper"):
        load(tmp_path / "empty")
    with pytest.raises(UserError, match="does not exist"):
        load(tmp_path / "nowhere")
    path = tmp_path / "x.jsonl"
    for text, message in {
        lines([row(0)])[:-20]: "not valid JSON after record 0",
        lines([row(0, dataset="musique")]): "belongs to 'musique', not to 'qasper'",
        lines([row(0), row(0)]): "appears twice",
        '{"a": 1}\n': "record 1 is not a row of LongBench's qasper: it lacks input; it lacks context; it lacks answers",
        lines([row(0, answers=[])]): "has no answer",
    }.items():
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            load(path)


@pytest.mark.parametrize(
    ("config", "count"), [("2wikimqa", 13), ("musique", 7), ("qasper", 9), ("narrativeqa", 4), ("hotpotqa", 13)]
)
def test_real_records(real_data, config, count):
    assert len(load(real_data, config)) == count
