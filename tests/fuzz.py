"""Damaged and odd data files through every loader: right data or one sentence, never a traceback, never silent loss.

    python tests/fuzz.py --cases 20000 --seed 1

prints how many cases of each kind ended how, and each case that ended wrongly, and exits with 1 if there is one. What is right is
said by a second, naive reading of the damaged text with Python's own json; what has a checksum must be the same or refused.
"""

import argparse
import bz2
import copy
import gzip
import io
import json
import lzma
import os
import random
import resource
import sys
import tarfile
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tamtrl.errors import UserError
from tamtrl.tasks import longbench, multihop, qasper, ruler

MEMORY = 2 << 30
SECONDS = 10  # for one case
LONGEST_SENTENCE = 1200

# -- sound records -----------------------------------------------------------------------------------------------------


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


# -- loaders, and a second reading -------------------------------------------------------------------------------------


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
    answers = dict.fromkeys(one for answer in (record["answer"], *record["answer_aliases"]) if (one := text(answer).strip()))
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
            spans, free = ", ".join(map(text, answer["extractive_spans"])), text(answer["free_form_answer"])
            first = "Unanswerable" if answer["unanswerable"] else spans if answer["extractive_spans"] else free
            golds.append(first.strip() or {True: "Yes", False: "No", None: ""}[None if first else answer["yes_no"]])
        context = "\n\n".join(piece for piece in pieces if piece.strip())
        found.append((text(question).strip(), tuple(dict.fromkeys(gold for gold in golds if gold)), context))
    return found


def naive_longbench(record: dict) -> list:
    assert isinstance(record["answers"], list) and record["dataset"] == "qasper"
    answers = dict.fromkeys(one for answer in record["answers"] if (one := text(answer).strip()))
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

# -- containers and damage ---------------------------------------------------------------------------------------------


def archived(kind: str, data: bytes) -> bytes:
    stream = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("data/qasper.jsonl", data)
        return stream.getvalue()
    with tarfile.open(fileobj=stream, mode={"tgz": "w:gz", "tar.xz": "w:xz", "tar": "w"}[kind]) as archive:
        member = tarfile.TarInfo("data/qasper.jsonl")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def parquet(rows: list) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), stream, write_page_checksum=True)
    return stream.getvalue()


def lines(rows: list) -> bytes:
    return "\n".join(json.dumps(one, ensure_ascii=False) for one in rows).encode()


PACKED = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    **{kind: lambda data, kind=kind: archived(kind, data) for kind in ("zip", "tgz", "tar.xz", "tar")},
}
PLAIN = {
    "json": lambda rows: json.dumps(rows).encode(),
    "utf8.json": lambda rows: json.dumps(rows, ensure_ascii=False, indent=1).encode(),
    "jsonl": lines,
    "lines.json": lines,
    "mapping.json": lambda rows: json.dumps({f"key{n}": one for n, one in enumerate(rows)}).encode(),
}
ODD_VALUES = (
    None, "", " ", "None", "False", "text", "\0", "\ufeffx", 0, 1, -1, 1.5, 10**30, True, False, [], {}, [None], [[]], ["a"],
    {"a": "b"},
)  # fmt: skip


def places(value: object, here: tuple = ()) -> list[tuple]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in inside for place in [(*here, key), *places(inner, (*here, key))]]


def change_values(rows: list, rng: random.Random) -> list:
    """One or two values of another type, missing, repeated, wrapped or deep."""
    rows = json.loads(json.dumps(rows))
    for _ in range(rng.choice((1, 1, 2))):
        *parents, last = rng.choice(places(rows))
        target = rows
        for part in parents:
            target = target[part]
        match rng.randrange(6):
            case 0:
                del target[last]
            case 1:
                target[last] = [target[last]]
            case 2:
                target[last] = {"0": target[last]}
            case 3 if isinstance(target, list):
                target.append(target[last])
            case 4:
                for _ in range(rng.choice((3, 80))):
                    target[last] = [target[last]]
            case _:
                target[last] = copy.deepcopy(rng.choice(ODD_VALUES))
        if not places(rows):
            break
    return rows


def change_bytes(data: bytes, rng: random.Random) -> bytes:
    """Cut, flipped, dropped, doubled or foreign bytes."""
    start = rng.randrange(len(data))
    stop = min(len(data), start + rng.choice((1, 2, 16, 300)))
    match rng.randrange(9):
        case 0:
            return data[:start]
        case 1 | 2 | 3:
            return data[:start] + bytes([data[start] ^ 1 << rng.randrange(8)]) + data[start + 1 :]
        case 4:
            return data[:start] + data[stop:]
        case 5:
            return data[:stop] + data[start:]
        case 6:
            return data[:start] + bytes(stop - start) + data[stop:]
        case 7:
            return data[:start] + rng.randbytes(stop - start) + data[stop:]
    return (
        data[:start]
        + rng.choice((b"\xff", b"\\ud800", b"\\", b'"', b"[" * 200_000, b'{"a":' * 40_000, b"\xef\xbb\xbf"))
        + data[start:]
    )


def recode(data: bytes, rng: random.Random) -> bytes:
    """The same text otherwise encoded, or a page in its place."""
    page = b"<!DOCTYPE html><html><body>Quota exceeded</body></html>"
    whole = data.decode()
    return rng.choice(
        (whole.encode("utf-16"), whole.encode("utf-16-le"), whole.encode("latin-1", "replace"), page, b"\xef\xbb\xbf" + data, b"")
    )


def naively(data: bytes, lines: bool) -> list:
    """The records of JSON text, as Python's own reader has them: one after the other (always in JSON lines), or the items of
    a list, or the entries of a mapping of mappings."""

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
    first = values[0] if values and not lines else None
    if isinstance(first, list):
        return first + values[1:]
    if isinstance(first, dict) and first and isinstance(next(iter(first.values())), dict):
        return [*first.values(), *values[1:]]
    return values


# -- cases -------------------------------------------------------------------------------------------------------------


def case(number: int, seed: int, folder: Path) -> tuple[str, str]:
    """The kind of a case and how it ended: same, other (as its text says), refused; anything else is wrong."""
    rng = random.Random(f"{seed}-{number}")
    name = rng.choice(list(FORMATS))
    layouts, load, naive = FORMATS[name]
    make = rng.choice(layouts)
    rows = [make(n) for n in range(rng.randint(1, 3))]
    expected = [one for record in rows for one in naive(record)]
    kind = rng.choice(("values", "values", "values", "bytes", "text", "packed", "packed values", "parquet", "parquet values"))
    layout = rng.choice(list(PLAIN) if name != "essay" else [key for key in PLAIN if key != "mapping.json"])
    suffix, readable = layout, True
    if "values" in kind:
        rows = change_values(rows, rng)
    if kind.startswith("parquet"):
        suffix, readable = "parquet", False
        try:
            data = parquet(rows)
            rows = pa.Table.from_pylist(rows).to_pylist()  # what one row lacks is null there
        except (pa.ArrowException, TypeError, AttributeError, OverflowError):
            return kind, "cannot be written"
        if kind == "parquet":
            data = change_bytes(data, rng)
    else:
        data = PLAIN[layout](rows)
        if kind == "bytes":
            data = change_bytes(data, rng)
        elif kind == "text":
            data = recode(data, rng)
        if kind.startswith("packed"):
            suffix = rng.choice(list(PACKED))
            if suffix in ("zip", "tgz", "tar.xz", "tar"):
                layout, data = "jsonl", lines(rows)
            plain, data = data, PACKED[suffix](data)
            if kind == "packed":
                data, readable = change_bytes(data, rng), suffix == "tar"
            else:
                data, readable = data, True
    path = folder / f"{'longbench_qasper' if name == 'longbench' else 'case'}.{suffix}"
    path.write_bytes(data)
    began = time.monotonic()
    try:
        found = load(path)
    except UserError as error:
        sentence = str(error)
        if "\n" in sentence or len(sentence) > LONGEST_SENTENCE:
            return kind, f"WRONG: not one sentence: {sentence[:300]!r}"
        return kind, "refused"
    except BaseException as error:
        return kind, f"WRONG: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    finally:
        if (took := time.monotonic() - began) > SECONDS:
            print(f"case {number} took {took:.0f} s", file=sys.stderr)
        path.unlink()
    if found == expected:
        return kind, "same"
    if not readable:
        checksum = "WRONG: read as other text, although it has a checksum"
        return kind, typed(rows, naive, found) if kind == "parquet values" else checksum
    if suffix == "tar":
        return kind, "other" if kind == "packed" else typed(rows, naive, found)
    try:
        raw = naively(data if suffix in PLAIN else plain, layout == "jsonl" and suffix not in ("gz", "bz2", "xz"))
    except (ValueError, AssertionError, RecursionError) as error:
        return kind, f"WRONG: read, although it is no JSON ({error})"
    return kind, typed(raw, naive, found)


def typed(rows: list, naive, found: list) -> str:
    try:
        right = [one for record in rows for one in naive(record)]
    except (AssertionError, KeyError, TypeError, ValueError, AttributeError) as error:
        return f"WRONG: read, although a record is odd ({type(error).__name__}: {error})"
    return "other" if right == found else f"WRONG: {str(found)[:200]} instead of {str(right)[:200]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one case, and leave its file in the working folder")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    ends: Counter = Counter()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.cases) if args.only is None else [args.only]:
            kind, end = case(number, args.seed, Path(folder))
            ends[kind, end.split(":")[0]] += 1
            if end.startswith("WRONG"):
                wrong += 1
                print(f"case {number} of seed {args.seed} ({kind}): {end}")
    for (kind, end), count in sorted(ends.items()):
        print(f"{kind:16} {end:20} {count:7,}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{sum(ends.values()):,} cases, {wrong} wrong, peak memory {peak} MiB")
    sys.stdout.flush()
    os._exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
