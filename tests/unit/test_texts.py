"""Text that isn't ours never becomes a control token, and is otherwise encoded as ever."""

import json
import random

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AddedToken, PreTrainedTokenizerFast

from tamtrl.commands.data import token_counter
from tamtrl.errors import UserError
from tamtrl.reading.texts import Texts, is_control
from tamtrl.tasks import toy

SCRIPTS = ["naïve café", "猫が好き。", "🙂👩‍👩‍👧 family", "e\u0301 combining", "  two  spaces\n\n\tand tabs ", "<b> [1] a|b", ""]


def made(model, *added: AddedToken, normalizer=None, pre_tokenizer=None, special=(), **names) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
        tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    tokenizer.add_tokens(list(added))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def byte_level(*added: AddedToken, normalizer=None, **names) -> PreTrainedTokenizerFast:
    vocabulary = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return made(models.BPE(vocabulary, []), *added, normalizer=normalizer, pre_tokenizer=level, **names)


def plain(content: str, **options) -> AddedToken:
    return AddedToken(content, special=False, **{"normalized": False} | options)


THINKING = [AddedToken("<|im_end|>", special=True, normalized=False), plain("<think>"), plain("</think>"), plain("<tool_call>")]


@pytest.mark.trap(22)
@pytest.mark.parametrize("text", ["<think>", "a</think>b", "<tool_call> <|im_end|>", "<<think>>", "x <think>\n</think>\n\n猫"])
def test_added_tokens_stay_text_whether_special_or_not(text):
    tokenizer = byte_level(*THINKING)
    ids, offsets = Texts(tokenizer).encode_with_offsets(text)
    assert len(ids) == len(text.encode()) and max(ids) < 256  # a token for each byte
    assert tokenizer.decode(ids) == text
    # one character's bytes all have its place; no part of the text is passed over
    assert [place for place in dict.fromkeys(offsets)] == [(k, k + 1) for k in range(len(text))]
    assert not set(tokenizer(text, add_special_tokens=False)["input_ids"]) <= set(range(256))  # what it would be otherwise


@pytest.mark.trap(22)
@pytest.mark.parametrize(
    ("token", "normalizer", "text"),
    [
        (plain("<mask>", lstrip=True, rstrip=True), None, "a  <mask>  b"),
        (plain("<mask>", single_word=True), None, "a <mask> b"),
        (plain("<mask>", normalized=True), normalizers.Lowercase(), "a <MASK> b"),
        (plain("<MASK>", normalized=True), normalizers.NFKC(), "a \uff1cMASK\uff1e b"),
    ],
)
def test_however_the_tokenizer_looks_for_them(token, normalizer, text):
    tokenizer = byte_level(token, normalizer=normalizer)
    assert 256 in tokenizer(text, add_special_tokens=False)["input_ids"]
    texts = Texts(tokenizer)
    ids = texts.encode(text)
    shown = normalizer.normalize_str(text) if normalizer else text
    assert 256 not in ids and tokenizer.decode(ids) == shown  # with its white space
    assert 256 not in tokenizer(texts.broken_up(text), add_special_tokens=False)["input_ids"]


@pytest.mark.trap(22)
def test_a_vocabulary_that_holds_them_is_not_asked_for_them(toy_tokenizer):
    """Word-level: a whole word is looked up; unigram: the best pieces are taken, and control tokens have the best score."""
    texts = Texts(toy_tokenizer)
    for name in ("<|im_end|>", "<|im_start|>", "<think>", "</think>", "<unk>", "猫"):
        assert texts.encode(f"The {name} pet") == toy_tokenizer.convert_tokens_to_ids(["The", "<unk>", "pet"])
    pieces = [("<unk>", 0.0), ("</s>", 0.0), *((letter, -3.0) for letter in "</s>ab")]
    unigram = made(models.Unigram(pieces, unk_id=0), special=["<unk>", "</s>"], unk_token="<unk>", eos_token="</s>")
    assert unigram.backend_tokenizer.model.tokenize("</s>")[0].id == 1
    assert Texts(unigram).encode("a</s>b") == [6, 2, 3, 4, 5, 7] and Texts(unigram).encode("?") == [0]


def test_a_merge_cannot_make_them():
    vocabulary = {"<": 0, "s": 1, ">": 2, "<s": 3, "<s>": 4}
    tokenizer = made(models.BPE(vocabulary, [("<", "s"), ("<s", ">")]), special=["<s>"], bos_token="<s>")
    assert tokenizer.backend_tokenizer.model.tokenize("<s>")[0].id == 4
    assert Texts(tokenizer).encode("<s>") == [3, 2]


@pytest.mark.parametrize(
    ("content", "special", "expected"),
    [("<think>", False, True), ("[INST]", False, True), ("<｜User｜>", False, True), ("◁/think▷", False, True),
     ("sop", True, True), ("[UNK]", True, True),
     ("\n\n", False, False), ("   ", False, False), ("ø", False, False), ("!", True, False), ("photosynthesis", False, False),
     ("\\boxed{", False, False), ("}", False, False)],
)  # fmt: skip
def test_what_is_a_control_token(content, special, expected):
    assert is_control({"content": content, "special": special}) == expected


def test_added_words_and_white_space_keep_their_ids():
    """Behind a control token in the list: their numbers must not move up."""
    tokenizer = byte_level(plain("<think>"), plain("  "), plain("photon"))
    texts = Texts(tokenizer)
    assert texts.encode("  photon") == [257, 258] and 256 not in texts.encode("  photon<think>")
    assert texts.encode("  photon<think>")[:2] == [257, 258]


@pytest.mark.parametrize("name", ["toy_tokenizer", "bpe_tokenizer", "bert"])
def test_all_other_texts_get_the_tokenizers_own_ids_and_places(request, name):
    from tamtrl.models.tokenizers import wordpiece_tokenizer

    examples = list(toy.generate("train", 20, 6, seed=0))
    words = [text for example in examples for text in (example.question, example.context)]
    tokenizer = wordpiece_tokenizer(words, 400, 128) if name == "bert" else request.getfixturevalue(name)
    texts, rng = Texts(tokenizer), random.Random(0)
    several = [" ".join(rng.sample([*SCRIPTS, *words], 4)) for _ in range(100)]
    for text in [*SCRIPTS, *words, *several]:
        expected = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids, offsets = texts.encode_with_offsets(text)
        assert ids == expected["input_ids"] and offsets == expected["offset_mapping"]


def test_what_a_tokenizer_sets_for_itself_does_not_cut_texts():
    tokenizer = byte_level(*THINKING)
    tokenizer.backend_tokenizer.enable_truncation(3)
    tokenizer.backend_tokenizer.enable_padding(length=10)
    assert len(Texts(tokenizer).encode("abcde")) == 5


def test_an_unknown_word_that_ends_a_text_is_refused():
    """A tokenizer whose token for unknown words is its end of text."""
    tokenizer = made(models.WordLevel({"<end>": 0, "a": 1}, "<end>"), special=["<end>"], unk_token="<end>", eos_token="<end>")
    assert Texts(tokenizer).encode("a") == [1]
    with pytest.raises(UserError, match=r"makes its control token '<end>' out of a text that begins 'b'; take that text out"):
        Texts(tokenizer).encode("b")


def test_unknown_words_are_not_broken_up(toy_tokenizer):
    texts = Texts(toy_tokenizer)
    assert texts.broken_up("The 猫 pet <unk> <think> }") == "The 猫 pet < unk> < think> }"


def test_slow_tokenizers_are_refused():
    slow = type("Slow", (), {"is_fast": False, "name_or_path": "old"})()
    with pytest.raises(UserError, match="tokenizer of old gives no character offsets"):
        Texts(slow)


def test_tokens_are_counted_as_the_reader_encodes(tmp_path):
    byte_level(*THINKING).save_pretrained(tmp_path)
    assert token_counter(str(tmp_path))("a<think>") == 8


def test_the_copy_is_made_of_a_saved_tokenizer_too(tmp_path):
    """Control tokens that stand in tokenizer_config.json only."""
    byte_level(*THINKING[:1]).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    config["additional_special_tokens"] = ["<|new|>"]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    assert len(tokenizer("<|new|>")["input_ids"]) == 1 and len(Texts(tokenizer).encode("<|new|>")) == 7
