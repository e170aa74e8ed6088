"""Small tokenizers for models made from nothing: with Qwen3's chat format, or BERT's."""

from collections.abc import Iterable
from typing import Any

from tokenizers import (
    AddedToken,
    BertWordPieceTokenizer,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import BertTokenizerFast, PreTrainedTokenizerFast

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Qwen3's own layout: with thinking off, the generation prompt holds an empty think block.
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}"
    "{{- '<|im_start|>assistant\\n' -}}"
    "{%- if enable_thinking is defined and not enable_thinking -%}{{- '<think>\\n\\n</think>\\n\\n' -}}{%- endif -%}"
    "{%- endif -%}"
)


def word_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """One token a word, for closed vocabularies; a word that was not in ``texts`` becomes ``<unk>``.

    Spaces are dropped and come back between tokens on decoding; line breaks are tokens.
    """
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(Regex(r"[ \t]+"), " ")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(" ", "removed"),
            pre_tokenizers.Split("\n", "isolated"),
            pre_tokenizers.Split("}", "isolated"),
        ]
    )
    # Without a decoder of its own the library joins tokens with spaces, which is what we want.
    vocabulary = trainers.WordLevelTrainer(special_tokens=["<unk>", *SPECIAL], vocab_size=4096)
    tokenizer.train_from_iterator(texts, vocabulary)
    words = ["\\boxed{", "}", "<think>", "</think>"]
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words])
    return _wrap(tokenizer, unk_token="<unk>")


def bpe_tokenizer(texts: Iterable[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE: any text survives a round trip."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return _wrap(tokenizer)


def wordpiece_tokenizer(texts: Iterable[str], vocabulary: int, window: int) -> BertTokenizerFast:
    """BERT's own kind, uncased. The library numbers pieces within words in the order of a hash table, another in every process,
    and by these numbers it decides between pieces of equal frequency: so they are given to it in order."""
    texts, trained = list(texts), BertWordPieceTokenizer()
    words = {word for text in texts for word, _ in trained.pre_tokenizer.pre_tokenize_str(trained.normalizer.normalize_str(text))}
    within = sorted({f"##{letter}" for word in words for letter in word[1:]})
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trained.train_from_iterator(texts, vocab_size=vocabulary, show_progress=False, special_tokens=[*special, *within])
    tokenizer = BertWordPieceTokenizer(trained.get_vocab())  # in which only the special tokens are special
    return BertTokenizerFast(tokenizer_object=tokenizer._tokenizer, model_max_length=window)


def _wrap(tokenizer: Tokenizer, **extra: Any) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        **extra,
    )
