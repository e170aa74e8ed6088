"""RULER's needles and multi-hop QA: structure, length fit, and the comparison with the real generator's output."""

import json
import re
import statistics

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import hotpot_record

from tamtrl.errors import UserError
from tamtrl.tasks import hotpotqa, ruler

ESSAY = " ".join(f"This is sentence {i} of a long and rather dull essay." for i in range(400))
UUID4 = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
LINE = re.compile(rf"One of the special magic uuids for ({UUID4}) is: ({UUID4})\.")


def words(text: str) -> int:
    return len(text.split())


def build(number: int, samples: int = 20, limit: int = 2000, count=words, **options):
    return list(ruler.niah(number, samples, limit, count, 0, "made_up", essay=ESSAY, **options))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_asked_needle_is_there_once_and_is_the_relevant_span(number):
    for example in build(number):
        ((start, stop),) = example.relevant_spans
        asked = example.context[start:stop]
        key = re.search(r"for (.+) mentioned", example.question)[1]
        assert example.context.count(f"for {key} is:") == 1 and asked.count(key) == 1
        assert asked.endswith(f"{example.answers[0]}.") and example.context.count(example.answers[0]) == 1
        assert example.answer_mode == "conjunctive"
        assert example.question.endswith("mentioned in the provided text?"), "no answer prefix after it"


@pytest.mark.parametrize(("number", "needles"), [(1, {4}), (2, None), (3, None)])
def test_haystacks(number, needles):
    for example in build(number, samples=3):
        found = example.context.count("One of the special magic")
        if needles:
            assert found in needles and "dull essay" in example.context
        else:  # every line is a needle
            assert found == len(example.context.split("\n")) > 20


@pytest.mark.trap(10)
def test_every_sample_fits_and_uses_the_room():
    for limit in (800, 2000, 8000):
        lengths = [words(e.context) + words(e.question) + 128 for e in build(3, samples=5, limit=limit)]
        assert max(lengths) <= limit and min(lengths) > limit - 25 * 11 - 11


def test_samples_have_generators_of_their_own():
    few, many = build(2, samples=3), build(2, samples=6)
    assert many[:3] == few and len({e.question for e in many}) == 6


def test_depths_are_spread():
    places = [e.relevant_spans[0][0] / len(e.context) for e in build(3, samples=100, limit=800)]
    assert min(places) < 0.1 and max(places) > 0.9 and 0.35 < statistics.mean(places) < 0.65
    assert ruler.DEPTHS[:4] == [0, 3, 5, 8] and ruler.DEPTHS[-2:] == [97, 100]


@pytest.mark.trap(7)
def test_what_cannot_fit_ends_with_the_numbers():
    with pytest.raises(UserError, match=r"smallest document \(1 units\) takes \d+ tokens with 128 to generate, over 100"):
        build(3, limit=100)
    with pytest.raises(UserError, match="essay given has only 0 words"):
        list(ruler.niah(1, 1, 1000, words, 0, "x"))
    with pytest.raises(UserError, match="no niah_multikey_4; there are 1, 2, 3"):
        build(4)


@pytest.mark.trap(9)
def test_words_and_sentences_need_no_download():
    adjectives, nouns = ruler._words()
    assert (len(adjectives), len(nouns)) == (912, 6782)
    assert ruler.split_sentences("One  sentence. Another?\nA third! 3.5 is no end.") == [
        "One sentence.", "Another?", "A third!", "3.5 is no end."
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["essay.txt", "essays.json", "essays.jsonl", "essays.parquet"])
def test_running_text_of_every_kind(tmp_path, name):
    path = tmp_path / name
    if name == "essays.parquet":
        pq.write_table(pa.table({"text": ["First essay.", "Second essay."], "title": ["a", "b"]}), path)
    else:
        rows = [{"text": "First essay."}, {"text": "Second essay."}]
        texts = {
            "essay.txt": "First essay.\nSecond essay.",
            "essays.json": json.dumps({"text": "First essay.\nSecond essay."}),  # RULER's own file
            "essays.jsonl": "\n".join(map(json.dumps, rows)),
        }
        path.write_text(texts[name])
    assert ruler.running_text(path) == "First essay.\nSecond essay."
    (tmp_path / "bad.json").write_text('[{"body": "x"}]')
    with pytest.raises(UserError, match="record 1 is not running text: it lacks text"):
        ruler.running_text(tmp_path / "bad.json")


def test_values():
    rng = ruler.seeds.generator(0, "x")
    assert re.fullmatch(r"[a-z'-]+-[a-z' -]+", ruler.draw("word", rng)), "names are adjective-noun"
    assert all(len(ruler.draw("number", rng)) == 7 for _ in range(50))
    assert all(re.fullmatch(UUID4, ruler.draw("uuid", rng)) for _ in range(50))


def test_qa_is_fitted_by_documents():
    questions = [hotpotqa.parse(hotpot_record(n), "x") for n in range(60)]
    made = list(ruler.qa(questions, 10, 700, words, 0, "ruler_qa"))
    for example in made:
        assert words(example.context) + words(example.question) + 32 <= 700
        assert len(example.relevant_spans) == 2 and example.context.count("Document ") > 10
    with pytest.raises(UserError, match="over 30"):
        list(ruler.qa(questions, 1, 30, words, 0, "ruler_qa"))
    with pytest.raises(UserError, match="asks for 61 questions but the source has only 60"):
        list(ruler.qa(questions, 61, 700, words, 0, "ruler_qa"))


def test_multikey_3_against_the_real_generator(real_data):
    """500 real samples (RULER, 4,096 tokens): 53 lines each, the answer in exactly one, at places all over."""
    rows = [json.loads(line) for line in (real_data / "ruler_niah_multikey_3_4096.jsonl").read_text().splitlines()]
    real = []
    for row in rows:
        found = [i for i, line in enumerate(row["input"].split("\n")[1:-1]) if LINE.fullmatch(line) and row["outputs"][0] in line]
        real.append((len(row["input"].split("\n")) - 2, found))
    assert len(rows) == 500 and {n for n, _ in real} == {51} and all(len(found) == 1 for _, found in real)

    ours = []
    line_words = words(ruler.needle("uuid", "k", "v"))
    for example in build(3, samples=500, limit=51 * line_words + 128 + 11):
        lines = example.context.split("\n")
        assert all(LINE.fullmatch(line) for line in lines)
        ours.append((len(lines), [i for i, line in enumerate(lines) if example.answers[0] in line]))
    assert all(len(found) == 1 for _, found in ours)
    ours_places = [found[0] / (n - 1) for n, found in ours]
    real_places = [found[0] / (n - 1) for n, found in real]
    assert statistics.mean(ours_places) == pytest.approx(statistics.mean(real_places), abs=0.06)
    assert statistics.pstdev(ours_places) == pytest.approx(statistics.pstdev(real_places), abs=0.04)


@pytest.mark.slow
def test_prepared_with_a_models_own_tokenizer(tmp_path):
    from conftest import REPOSITORY
    from test_cli import tamtrl
    from transformers import AutoTokenizer

    from tamtrl.tasks.example import ExampleFile

    source = tmp_path / "hotpot.json"
    source.write_text(json.dumps([hotpot_record(n) for n in range(40)]))
    model = REPOSITORY / "models" / "toy"
    shared = ["--tokenizer", model, "--tokens", 600, "--count", 4, "--seed", 0, "--benchmark", "made_up"]
    tokenizer = AutoTokenizer.from_pretrained(model)
    for verb, more in {"prepare-niah": ["--multikey", 3], "prepare-ruler-qa": ["--source", source]}.items():
        done = tamtrl(verb, *more, *shared, "--output", tmp_path / f"{verb}.parquet")
        assert done.returncode == 0, done.stderr
        examples = list(ExampleFile(tmp_path / f"{verb}.parquet"))
        lengths = [len(tokenizer(e.context)["input_ids"]) + len(tokenizer(e.question)["input_ids"]) for e in examples]
        assert len(examples) == 4 and 300 < min(lengths) <= max(lengths) <= 600
