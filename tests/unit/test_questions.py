"""HotpotQA, 2WikiMultihopQA, MuSiQue and Qasper, and their traps; records made up, real ones where they are given."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import hotpot_record

from tamtrl.answers import scoring
from tamtrl.errors import UserError
from tamtrl.tasks import hotpotqa, multihop, musique, qasper, synthesis

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


@pytest.mark.trap(1, 2, 19)
def test_official_and_hub_layouts_agree(tmp_path):
    records = [hotpot_record(n) for n in range(3)]
    records[0]["context"][5][1].append(" A line\u2028separator and a next\u0085line.")
    official = multihop.load(write_json(tmp_path / "official.json", records))
    folder = tmp_path / "hub" / "distractor"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([to_hub(r) for r in records[:2]]), folder / "train-00000-of-00002.parquet")
    pq.write_table(pa.Table.from_pylist([to_hub(records[2])]), folder / "train-00001-of-00002.parquet")
    lines = tmp_path / "hub.jsonl"
    lines.write_text("\n".join(json.dumps(to_hub(r), ensure_ascii=False) for r in records))
    assert official == multihop.load(tmp_path / "hub") == multihop.load(lines)
    assert official[0].paragraphs[0] == "Title 0-0\nSentence one of 0-0. It has value v00."
    assert official[0].supporting == {0, 1} and official[0].answers == ("v01",)


@pytest.mark.trap(15)
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


@pytest.mark.trap(15)
def test_two_paragraphs_empty_sentences_and_stray_spaces():
    record = hotpot_record(1, paragraphs=2, question=" What? ")
    record["context"][0][1] = ["First.", "", " Third."]
    question = hotpotqa.parse(record, "x")
    assert question.paragraphs[0] == "Title 1-0\nFirst. Third." and question.text == "What?"


@pytest.mark.trap(16)
def test_sentence_numbers_beyond_the_paragraph_are_warned_about_and_do_no_harm():
    with pytest.warns(UserWarning, match="name a sentence that their paragraph does not have"):
        question = hotpotqa.parse(hotpot_record(1, supporting_facts=[["Title 1-0", 99]]), "x")
    assert question.supporting == {0}


@pytest.mark.trap(15)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[{not json", "not valid JSON"),
        ('{"a": 1}', "record 1 is not a labelled record of HotpotQA's layout: it lacks question"),
        ("[]", "holds no hotpotqa question"),
        ('[{"_id": "1", "question": "q"}]', "record 1 is not .*: it lacks answer; it lacks context; it lacks supp"),
        ('["text"]', 'record 1 is not .*: it is "text"; it must be a mapping'),
    ],
)
def test_malformed_files(tmp_path, content, message):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        multihop.load(path)


def test_missing_file_repeated_id_and_unknown_format(tmp_path):
    with pytest.raises(UserError, match=r"nowhere.json does not exist"):
        multihop.load(tmp_path / "nowhere.json")
    path = write_json(tmp_path / "twice.json", [hotpot_record(1), hotpot_record(1)])
    with pytest.raises(UserError, match=r"id 'q1' appears twice. In all 1 of 2 questions"):
        multihop.load(path)
    with pytest.raises(UserError, match="Unknown format 'squad'; there are hotpotqa, 2wikimultihopqa, musique"):
        multihop.load(path, "squad")


# -- 2WikiMultihopQA ---------------------------------------------------------------------------------------------------


def test_twowiki_has_hotpotqas_keys_and_more(tmp_path):
    record = hotpot_record(1, evidences=[["a", "father", "b"]], answer_id="Q1", entity_ids="Q1_Q2", type="bridge_comparison")
    record["supporting_facts"] += [["Title 1-2", 0], ["Title 1-3", 0]]
    (question,) = multihop.load(write_json(tmp_path / "dev.json", [record]), "2wikimultihopqa")
    assert question.supporting == {0, 1, 2, 3}
    # its text has stray spaces inside parentheses; the scorer doesn't mind
    assert scoring.exact_match("Sahara (1943 film)", ["Sahara ( 1943 film)"]) == 1


# -- MuSiQue -----------------------------------------------------------------------------------------------------------


def musique_record(number: int, **changes) -> dict:
    paragraphs = [
        {"idx": k, "title": "Same title", "paragraph_text": f"Text {number}-{k}.", "is_supporting": k in (2, 4)} for k in range(6)
    ]
    record = {"id": f"2hop__{number}", "paragraphs": paragraphs, "question": " Who? ", "answer": "New York City"}
    record |= {"answer_aliases": ["NYC", "New York City"], "answerable": True}
    record["question_decomposition"] = [{"id": 7, "question": "x >> y", "answer": "a", "paragraph_support_idx": None}]
    return record | changes


@pytest.mark.trap(5)
def test_musique_paragraphs_of_one_title_all_stay():
    question = musique.parse(musique_record(1), "x")
    assert len(question.paragraphs) == 6 and question.supporting == {2, 4} and question.text == "Who?"
    assert question.answers == ("New York City", "NYC")
    example = synthesis.synthesise(question, synthesis.Corpus.of([question]), None, seed=0)
    texts = {example.context[a:b].split(":\n", 1)[1] for a, b in example.relevant_spans}
    assert texts == {"Same title\nText 1-2.", "Same title\nText 1-4."} and example.context.count("Document ") == 6


@pytest.mark.trap(6)
def test_musiques_unanswerable_twins_are_left_out(tmp_path):
    twin = musique_record(1, answerable=False)
    for paragraph in twin["paragraphs"]:
        paragraph["is_supporting"] = False
    path = tmp_path / "musique_full_v1.0_dev.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in (musique_record(1), twin, musique_record(2))))
    assert [q.id for q in multihop.load(path, "musique")] == ["2hop__1", "2hop__2"]


def test_musique_records_without_labels_are_refused():
    with pytest.raises(UserError, match="line 3 is not a labelled MuSiQue record: it lacks answer"):
        musique.parse({k: v for k, v in musique_record(1).items() if k != "answer"}, "line 3")
    record = musique_record(1)
    for paragraph in record["paragraphs"]:
        paragraph["is_supporting"] = False
    with pytest.raises(UserError, match="has no supporting paragraph"):
        musique.parse(record, "line 3")


# -- Qasper ------------------------------------------------------------------------------------------------------------


def annotation(**changes) -> dict:
    values = {"unanswerable": False, "extractive_spans": [], "free_form_answer": "", "yes_no": None, "evidence": []}
    return values | {"highlighted_evidence": []} | changes


def paper(answers: list[dict]) -> dict:
    sections = [{"section_name": "Intro", "paragraphs": ["First.", ""]}, {"section_name": None, "paragraphs": ["Second."]}]
    question = {"question": " How? ", "question_id": "q1", "answers": [{"answer": a, "annotation_id": "x"} for a in answers]}
    return {"title": "A paper", "abstract": "About.", "full_text": sections, "qas": [question]}


def hub(official: dict) -> dict:
    """The same paper with every list of dicts as a dict of lists."""
    turn = lambda rows: {key: [row[key] for row in rows] for key in rows[0]}  # noqa: E731
    questions = [question | {"answers": turn(question["answers"])} for question in official["qas"]]
    return official | {"full_text": turn(official["full_text"]), "qas": turn(questions)}


@pytest.mark.trap(14)
@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        (annotation(unanswerable=True, free_form_answer="text all the same", yes_no=True), "Unanswerable"),
        (annotation(extractive_spans=["a", "b"], free_form_answer="c"), "a, b"),
        (annotation(free_form_answer="c", yes_no=False), "c"),
        (annotation(yes_no=True), "Yes"),
        (annotation(yes_no=False), "No"),
    ],
)
def test_qasper_golds_follow_the_official_order(answer, gold):
    assert qasper.gold(qasper.Answer.model_validate(answer)) == gold


@pytest.mark.trap(14)
def test_qasper_annotators_disagree_and_evidence_may_lie_in_a_table(tmp_path):
    def examples(made: dict) -> list:
        return list(qasper.load(write_json(tmp_path / "papers.json", [made]), "qasper"))

    answers = [
        annotation(yes_no=True, evidence=["Second.", "FLOAT SELECTED: Table 1: Numbers."]),
        annotation(yes_no=False, evidence=["First."]),
        annotation(yes_no=True),
    ]
    (example,) = examples(paper(answers))
    assert example.answers == ("Yes", "No") and example.question == "How?"  # scores take the maximum over annotators
    assert example.context == "A paper\n\nAbout.\n\nIntro\n\nFirst.\n\nSecond."
    assert [example.context[a:b] for a, b in example.relevant_spans] == ["First.", "Second."]
    # the question stays although its only evidence is not in the text
    (kept,) = examples(paper([annotation(free_form_answer="7", evidence=["FLOAT SELECTED: Table 1"])]))
    assert kept.relevant_spans == () and kept.answers == ("7",)
    assert examples(hub(paper(answers))) == [example]


def test_qasper_files(tmp_path):
    path = write_json(tmp_path / "qasper-dev-v0.3.json", {"1909.1": paper([annotation(yes_no=True)])})
    assert [e.id for e in qasper.load(path, "qasper")] == ["q1"]
    write_json(path, {"1909.1": {"title": "only"}})
    with pytest.raises(UserError, match=r"entry 1909.1 is not a labelled Qasper paper"):
        list(qasper.load(path, "qasper"))


# -- real records ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "form", "count"),
    [
        ("hotpot_train_v1.1.sample.json", "hotpotqa", 200),
        ("hotpot_dev_distractor_v1.sample.json", "hotpotqa", 256),
        ("2wikimultihopqa_dev.jsonl", "2wikimultihopqa", 500),
        ("musique_ans_dev.jsonl", "musique", 200),
        ("musique_ans_train.jsonl", "musique", 100),
    ],
)
def test_real_questions_load_in_full(real_data, name, form, count):
    questions = multihop.load(real_data / name, form)
    assert len(questions) == count
    numbers = {len(question.supporting) for question in questions}
    if form == "musique":
        assert {len(question.paragraphs) for question in questions} == {20} and numbers == {2, 3, 4}
    corpus = synthesis.Corpus.of(questions)
    for question in questions:
        example = synthesis.synthesise(question, corpus, None, seed=0)
        assert len(example.relevant_spans) == len({question.paragraphs[i] for i in question.supporting})


def test_real_twowiki_counts(real_data):
    """500 questions: 370 with two gold titles, 130 with four; 19 with a title that stands twice."""
    records = [json.loads(line) for line in (real_data / "2wikimultihopqa_dev.jsonl").read_text().splitlines()]
    titles = [{title for title, _ in record["supporting_facts"]} for record in records]
    assert [sum(len(t) == n for t in titles) for n in (2, 4)] == [370, 130]
    doubled = [r for r in records if len({title for title, _ in r["context"]}) < len(r["context"])]
    assert len(doubled) == 19 and all(len(hotpotqa.parse(r, "x").paragraphs) == len(r["context"]) for r in doubled)


def test_real_papers(real_data):
    examples = list(qasper.load(real_data / "qasper_hf_papers.jsonl", "qasper"))
    assert len(examples) == 51 and len({e.context for e in examples}) == 10
    assert sum(bool(e.relevant_spans) for e in examples) > 35


def test_real_fullwiki_records_are_refused(real_data):
    path = real_data / "hotpot_dev_fullwiki_v1.sample.json"
    assert len(json.loads(path.read_text())) == 200
    with pytest.raises(UserError, match="fullwiki"):
        multihop.load(path)
