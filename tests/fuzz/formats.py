"""Sound records of every format and layout, their loaders, and a second, naive reading to hold these against."""

import json
import re

from tamtrl.tasks import longbench, multihop, qasper, ruler


def hotpotqa(n: int) -> dict:
    context = [[f"Title {n}{k}", [f"One of {n}{k}.", "", f" Zwei “{k}” 日本 😀."]] for k in range(4)]
    facts = [[f"Title {n}0", 0], [f"Title {n}1", 2]]
    return {"_id": f"q{n}", "question": f"What is {n}?", "answer": f"v{n}", "supporting_facts": facts, "context": context}


def hotpotqa_hub(n: int) -> dict:
    row = hotpotqa(n)
    row["context"] = {"title": [t for t, _ in row["context"]], "sentences": [s for _, s in row["context"]]}
    row["supporting_facts"] = {"title": [t for t, _ in row["supporting_facts"]], "sent_id": [0, 2]}
    return {"id": row.pop("_id")} | row


def musique(n: int) -> dict:
    paragraphs = [{"idx": k, "title": "Same", "paragraph_text": f"Text {n}{k}.", "is_supporting": k < 2} for k in range(4)]
    return {"id": f"2hop__{n}", "paragraphs": paragraphs, "question": "Who?", "answer": "Ann", "answer_aliases": ["Anna"]} | {
        "answerable": True,
        "question_decomposition": [{"id": n, "question": "x", "answer": "y", "paragraph_support_idx": None}],
    }


def paper(n: int) -> dict:
    sections = [{"section_name": "Intro", "paragraphs": ["First.", ""]}, {"section_name": None, "paragraphs": [f"Second {n}."]}]
    answer = {
        "unanswerable": False,
        "extractive_spans": ["a", "b"],
        "free_form_answer": "",
        "yes_no": None,
        "evidence": ["First."],
    }
    asked = [{"question": f"How {k}?", "question_id": f"{n}-{k}", "answers": [{"answer": answer}]} for k in range(2)]
    return {"title": f"Paper {n}", "abstract": "About.", "full_text": sections, "qas": asked}


def paper_hub(n: int) -> dict:
    turn = lambda rows: {key: [row[key] for row in rows] for key in rows[0]}  # noqa: E731
    made = paper(n)
    made["qas"] = turn([asked | {"answers": turn(asked["answers"])} for asked in made["qas"]])
    return made | {"full_text": turn(made["full_text"])}


def row(n: int) -> dict:
    answers = ["Yes", "yes ", "No"]
    return {
        "input": f"Q{n}? ",
        "context": f"Passage {n}",
        "answers": answers,
        "dataset": "qasper",
        "all_classes": None,
        "_id": f"{n:048x}",
    }


def essay(n: int) -> dict:
    return {"title": "T", "text": f"Words of essay {n}."}


# -- loaders, and the second reading -------------------------------------------------------------------------------------


def seen(value: str) -> bool:
    return bool(re.search(r"[^\s\x00-\x1f\x7f-\x9f\u200b\ufeff]", value))


def text(value: object) -> str:
    assert isinstance(value, str), value
    return value


def rows_of(value: object, *names: str) -> list:
    """A table as tuples: a list of pairs or mappings, or a mapping of lists."""
    if isinstance(value, dict):
        return list(zip(*(value[name] for name in names), strict=True))
    return [tuple(item[name] for name in names) if isinstance(item, dict) else tuple(item) for item in value]


def naive_hotpotqa(record: dict) -> list:
    context = [
        (text(title), "".join(map(text, sentences))) for title, sentences in rows_of(record["context"], "title", "sentences")
    ]
    titles = {text(title) for title, _ in rows_of(record["supporting_facts"], "title", "sent_id")}
    supporting = frozenset(place for place, (title, _) in enumerate(context) if title in titles)
    paragraphs = tuple(f"{title}\n{sentences}" for title, sentences in context)
    return [(text(record["question"]).strip(), (text(record["answer"]).strip(),), paragraphs, supporting)]


def naive_musique(record: dict) -> list:
    assert isinstance(record["answerable"], bool)
    if not record["answerable"]:
        return []
    paragraphs = rows_of(record["paragraphs"], "title", "paragraph_text", "is_supporting")
    assert all(isinstance(supports, bool) for *_, supports in paragraphs)
    assert isinstance(record["answer_aliases"], list)
    answers = dict.fromkeys(one for answer in (record["answer"], *record["answer_aliases"]) if seen(one := text(answer).strip()))
    supporting = frozenset(place for place, (*_, supports) in enumerate(paragraphs) if supports)
    return [
        (text(record["question"]).strip(), tuple(answers), tuple(f"{text(t)}\n{text(p)}" for t, p, _ in paragraphs), supporting)
    ]


def naive_qasper(record: dict) -> list:
    pieces = [text(record["title"]), text(record["abstract"])]
    for name, paragraphs in rows_of(record["full_text"], "section_name", "paragraphs"):
        assert isinstance(paragraphs, list)
        pieces += ["" if name is None else text(name), *map(text, paragraphs)]
    found = []
    for question, answers in rows_of(record["qas"], "question", "answers"):
        golds = []
        for (answer,) in rows_of(answers, "answer"):
            assert isinstance(answer["unanswerable"], bool) and answer["yes_no"] in (True, False, None)
            assert isinstance(answer["extractive_spans"], list) and isinstance(answer["evidence"], list)
            spans, free = ", ".join(filter(seen, map(text, answer["extractive_spans"]))), text(answer["free_form_answer"])
            first = "Unanswerable" if answer["unanswerable"] else spans if answer["extractive_spans"] else free
            other = None if first or answer["extractive_spans"] else answer["yes_no"]
            golds.append(first.strip() or {True: "Yes", False: "No", None: ""}[other])
        context = "\n\n".join(piece for piece in pieces if seen(piece))
        found.append((text(question).strip(), tuple(dict.fromkeys(gold for gold in golds if seen(gold))), context))
    return found


def naive_longbench(record: dict) -> list:
    assert isinstance(record["answers"], list) and record["dataset"] == "qasper"
    answers = dict.fromkeys(one for answer in record["answers"] if seen(one := text(answer).strip()))
    return [(text(record["input"]).strip(), tuple(answers), text(record["context"]))]


def naive_essay(record: object) -> list:
    return [one for one in text(record if isinstance(record, str) else record["text"]).split("\n") if one]


def questions(form: str):
    return lambda path: [(one.text, one.answers, one.paragraphs, one.supporting) for one in multihop.load(path, form)]


def examples(load):
    return lambda path: [(one.question, one.answers, one.context) for one in load(path)]


# Of each format: records in every layout, the loader, the naive reading of a record.
FORMATS = {
    "hotpotqa": ((hotpotqa, hotpotqa_hub), questions("hotpotqa"), naive_hotpotqa),
    "2wikimultihopqa": ((hotpotqa,), questions("2wikimultihopqa"), naive_hotpotqa),
    "musique": ((musique,), questions("musique"), naive_musique),
    "qasper": ((paper, paper_hub), examples(lambda path: qasper.load(path, "x")), naive_qasper),
    "longbench": ((row,), examples(lambda path: longbench.load(path, "qasper", "x")), naive_longbench),
    "essay": ((essay,), lambda path: [one for one in ruler.running_text(path).split("\n") if one], naive_essay),
}


def naively(data: bytes, lines: bool) -> list:
    """The records of JSON text, as Python's own reader has them: one after the other, or the items of lists, or (not in JSON
    lines) the entries of mappings of mappings."""

    def once(pairs: list) -> dict:
        assert len({key for key, _ in pairs}) == len(pairs), "a key twice"
        return dict(pairs)

    decoder, whole, values = json.JSONDecoder(object_pairs_hook=once), data.decode("utf-8-sig"), []
    whole.encode()
    place = len(whole) - len(whole.lstrip())
    while place < len(whole):
        value, place = decoder.raw_decode(whole, place)
        place += len(whole[place:]) - len(whole[place:].lstrip())
        values.append(value)
    first = values[0] if values else None
    if isinstance(first, list):
        assert all(isinstance(value, list) for value in values), "a list and something else"
        return [item for value in values for item in value]
    assert not any(isinstance(value, list) for value in values), "a record and a list"
    if not lines and isinstance(first, dict) and first and isinstance(next(iter(first.values())), dict):
        pairs = [pair for value in values for pair in value.items()]
        return list(once(pairs).values())
    return values
