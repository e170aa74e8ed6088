"""Chunks, prompts and the turn loop."""

import asyncio
from itertools import takewhile

import pytest
from conftest import toy_budgets

from tamtrl.errors import UserError
from tamtrl.reading.chunks import split, token_spans
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Generation, Reader
from tamtrl.reading.texts import Texts
from tamtrl.tasks import toy
from tamtrl.tasks.example import Example


def test_token_spans_by_hand():
    # "ab cd ef" in tokens ab|' '|cd|' '|ef
    offsets = [(0, 2), (2, 3), (3, 5), (5, 6), (6, 8)]
    assert token_spans(offsets, [(3, 5)]) == ((2, 3),)
    assert token_spans(offsets, [(1, 4)]) == ((0, 3),)  # a token belongs if it shares one character
    assert token_spans(offsets, [(0, 2), (6, 8)]) == ((0, 1), (4, 5))
    assert token_spans([(0, 2), (3, 5)], [(2, 3)]) == ()  # white space that no token covers


def test_split_by_hand():
    chunks = split(list(range(10)), [(2, 5), (7, 9)], 4)
    assert [c.ids for c in chunks] == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9)]
    # 2..5 is cut at 4, 7..9 at 8: each window has the part inside it
    assert [c.relevant for c in chunks] == [((2, 4),), ((0, 1), (3, 4)), ((0, 1),)]
    assert chunks[1].relevant_ids == [(4,), (7,)]


def test_cut_paragraph_belongs_to_both_windows_and_nothing_is_lost():
    ids, spans = list(range(100)), [(10, 35), (60, 61), (75, 100)]
    for size in (7, 20, 33, 99, 100, 250):
        chunks = split(ids, spans, size)
        assert [i for c in chunks for i in c.ids] == ids
        relevant = [i for c in chunks for part in c.relevant_ids for i in part]
        assert relevant == [i for a, b in spans for i in range(a, b)]


@pytest.mark.trap(20)
@pytest.mark.parametrize("text", ["naïve café", "猫が好き。", "🙂👩‍👩‍👧 family", "e\u0301 combining"])
def test_multibyte_characters_survive_any_cut(bpe_tokenizer, text):
    """The tokenizer has bytes for these characters, so windows of one token cut inside them."""
    ids, offsets = Texts(bpe_tokenizer).encode_with_offsets(text)
    assert len(ids) > len(text.split())
    chunks = split(ids, token_spans(offsets, [(0, len(text))]), 1)
    assert bpe_tokenizer.decode([i for c in chunks for i in c.ids]) == text
    assert all(c.relevant == ((0, 1),) for c in chunks)


def run(reader: Reader, example: Example, replies: list[list[int]]):
    asked = []

    async def generate(prompt_ids, max_tokens, turn):
        asked.append((prompt_ids, max_tokens, turn))
        return Generation(replies[turn])

    return asyncio.run(reader.read(reader.prepare(example), generate)), asked


def test_memory_is_fed_back_as_the_ids_that_were_sampled(toy_tokenizer):
    reader = Reader(Prompts(toy_tokenizer, "brief"), toy_budgets())
    example = next(toy.generate("train", 1, 6, seed=0))
    end = toy_tokenizer.eos_token_id
    # ids no tokenizer would give back from their decoded text
    replies = [[41, 41, 7, end], [9, 8, end], [5, end], [6, end]]
    turns, asked = run(reader, example, replies)
    contains = lambda ids, part: any(ids[i : i + len(part)] == part for i in range(len(ids)))  # noqa: E731
    assert [t.is_answer for t in turns] == [False, False, False, True]
    assert contains(asked[1][0], [41, 41, 7]) and contains(asked[2][0], [9, 8]) and contains(asked[3][0], [5])
    assert not contains(asked[1][0], [41, 41, 7, end, end])
    assert [a[1] for a in asked] == [20, 20, 20, 8] and [a[2] for a in asked] == [0, 1, 2, 3]
    assert [t.generation.ids for t in turns] == replies
    # the answer prompt holds no chunk, and the first prompt the empty memory
    assert len(asked[3][0]) < len(asked[0][0]) and contains(asked[0][0], reader.prompts.empty_memory)


def test_prompt_as_text(toy_tokenizer):
    reader = Reader(Prompts(toy_tokenizer, "brief"), toy_budgets())
    example = Example("1", "What is the pet of Ada ?", "Document 1:\nAda\nThe pet of Ada is cat .\n\n", ((0, 40),), ("cat",),
                      "alternatives", "toy")  # fmt: skip
    turns, _ = run(reader, example, [[5], [5]])
    assert toy_tokenizer.decode(turns[0].prompt_ids).split() == [
        "<|im_start|>",
        "user",
        "Update",
        ".",
        "What",
        "is",
        "the",
        "pet",
        "of",
        "Ada",
        "?",
        "Memory",
        ":",
        "Nothing",
        "yet",
        ".",
        "Section",
        ":",
        "Document",
        "1:",
        "Ada",
        "The",
        "pet",
        "of",
        "Ada",
        "is",
        "cat",
        ".",
        "<|im_end|>",
        "<|im_start|>",
        "assistant",
        "<think>",
        "</think>",
    ]


@pytest.mark.parametrize("style", ["full", "section_first"])
def test_what_rollouts_share_reaches_to_the_section_or_past_it(toy_tokenizer, style):
    """Two memories of one turn: the prompts part where the memory begins, before the section or after it."""
    prompts = Prompts(toy_tokenizer, style)
    question, section = prompts.encode("Who ?"), prompts.encode("The boss of Ada is Bea .")
    one, other = (prompts.update.fill(question=question, memory=[memory], section=section) for memory in (41, 42))
    common = [a for a, b in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=True))]
    assert one[len(common)] == 41 and other[len(common)] == 42
    holds_section = any(common[i : i + len(section)] == section for i in range(len(common)))
    assert holds_section == (style == "section_first")


def test_teacher_sees_only_relevant_text(toy_tokenizer):
    prompts = Prompts(toy_tokenizer, "brief")
    example = next(e for e in toy.generate("train", 50, 6, seed=0) if len(e.relevant_spans) == 2)
    facts = [example.context[a:b].split("\n")[-1] for a, b in example.relevant_spans]
    replies = [[7, 7], [8, 8], [9, 9], [5]]
    for view in ("chunk", "global"):
        turns, _ = run(Reader(prompts, toy_budgets(), view), example, replies)
        texts = [toy_tokenizer.decode(t.teacher_prompt_ids) for t in turns[:-1]]
        for text in texts:
            assert all(fact in facts for fact in _facts(text))
        seen = [_facts(text) for text in texts]
        assert seen == [facts] * 3 if view == "global" else [f for part in seen for f in part] == facts
        assert turns[-1].teacher_prompt_ids is None
        # the memory in the teacher's prompt is the student's
        assert any(turns[1].teacher_prompt_ids[i : i + 2] == [7, 7] for i in range(len(turns[1].teacher_prompt_ids)))


def _facts(text):
    return [
        line.strip() for line in text.split("Section :")[1].split("<|im_end|>")[0].split("\n") if line.strip().startswith("The ")
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window_tokens": 100}, r"need \d+ tokens but reading.window_tokens is 100.*query 16 \+ chunk 28"),
        ({"memory_tokens": 2}, "empty memory alone takes 3 tokens"),
        ({"chunk_tokens": 0}, "reading.chunk_tokens must be at least 1, not 0"),
    ],
)
def test_budgets_that_do_not_fit(toy_tokenizer, changes, message):
    with pytest.raises(UserError, match=message):
        Reader(Prompts(toy_tokenizer, "brief"), toy_budgets(**changes))


def test_long_documents_are_refused_or_counted(toy_tokenizer):
    prompts = Prompts(toy_tokenizer, "brief")
    example = next(toy.generate("train", 1, 6, seed=0))
    with pytest.raises(UserError, match=r"has 82 tokens, more than 2 chunks of 28; raise reading.max_chunks"):
        Reader(prompts, toy_budgets(max_chunks=2)).prepare(example)
    document = Reader(prompts, toy_budgets(max_chunks=2, truncate=True)).prepare(example)
    assert len(document.chunks) == 2 and document.dropped_tokens == 82 - 56
    tokens = len(prompts.encode(example.question))
    cut = Reader(prompts, toy_budgets(query_tokens=3, truncate=True)).prepare(example)
    assert len(cut.question_ids) == 3 and cut.dropped_tokens == tokens - 3
    with pytest.raises(UserError, match=r"question of example .* has \d+ tokens but reading.query_tokens is 3"):
        Reader(prompts, toy_budgets(query_tokens=3)).prepare(example)


def test_models_that_cannot_read(toy_tokenizer):
    with pytest.raises(UserError, match="Prompt style 'long' is not one of"):
        Prompts(toy_tokenizer, "long")
    template, toy_tokenizer.chat_template = toy_tokenizer.chat_template, None
    try:
        with pytest.raises(UserError, match="no chat template"):
            Prompts(toy_tokenizer, "brief")
    finally:
        toy_tokenizer.chat_template = template
