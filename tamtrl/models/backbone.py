"""Models made from nothing: a small Qwen3 or BERT with a tokenizer of its own, taught the toy task (course.py), grading
(toy_judge.py) or nothing."""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from tamtrl import files, seeds
from tamtrl.errors import UserError
from tamtrl.models import toy_judge
from tamtrl.models.course import Course, toy_texts, train_course
from tamtrl.models.tokenizers import bpe_tokenizer, word_tokenizer, wordpiece_tokenizer
from tamtrl.reading.prompts import STYLES, Prompts
from tamtrl.reading.reader import Reader
from tamtrl.settings import Reading
from tamtrl.stored import build
from tamtrl.tasks.example import ExampleFile
from tamtrl.turn_scores import judge


@dataclass(frozen=True)
class Shape:
    width: int
    layers: int
    heads: int
    feed_forward: int
    kv_heads: int = 0  # a BERT has no use for these two
    head_dim: int = 0


def new_model(shape: Shape, tokenizer: PreTrainedTokenizerFast, window: int, seed: int) -> Qwen3ForCausalLM:
    torch.manual_seed(seeds.derive(seed, "backbone weights") % 2**32)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=window,
        tie_word_embeddings=True,
        rope_theta=10000.0,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config)


def new_bert(shape: Shape, tokenizer: PreTrainedTokenizerFast, window: int, seed: int) -> BertForSequenceClassification:
    torch.manual_seed(seeds.derive(seed, "backbone weights") % 2**32)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        max_position_embeddings=window,
        pad_token_id=tokenizer.pad_token_id,
        num_labels=1,
    )
    return BertForSequenceClassification(config)


def make(recipe_file: Path, output: Path, texts: Path | None, say: Callable[[str], None]) -> None:
    """Make the model a recipe describes: ``seed``, ``reading``, ``tokenizer`` (word, bpe, or wordpiece for a BERT),
    ``shape``, and what it is trained on, if on anything: the toy task (``course``) or grading memories
    (``judge_course``). The folder appears only when complete."""
    recipe = files.read_yaml(recipe_file)
    reading = build(Reading, recipe["reading"], f"{recipe_file}: reading")
    window = recipe.get("window_tokens", reading.window_tokens)
    shape = build(Shape, recipe["shape"], f"{recipe_file}: shape")
    tokenizer = _tokenizer(recipe, texts, reading, window)
    new = new_bert if recipe["tokenizer"] == "wordpiece" else new_model
    model = new(shape, tokenizer, window, recipe["seed"])
    parameters = sum(parameter.numel() for parameter in model.parameters())
    say(f"{parameters / 1e6:.2f} M parameters, {len(tokenizer)} tokens in the vocabulary")
    if recipe.get("course"):
        reader = Reader(Prompts(tokenizer, reading.prompts), reading)
        train_course(model, reader, build(Course, recipe["course"], f"{recipe_file}: course"), recipe["seed"], say)
    if recipe.get("judge_course"):
        course = build(toy_judge.Course, recipe["judge_course"], f"{recipe_file}: judge_course")
        toy_judge.train(model, tokenizer, reading, course, recipe["seed"], say)
    with files.whole_folder(output) as temporary:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)


def _tokenizer(recipe: dict, texts: Path | None, reading: Reading, window: int) -> PreTrainedTokenizerFast:
    if recipe["tokenizer"] == "word":
        return word_tokenizer(toy_texts())
    if texts is None:
        raise UserError(f"A {recipe['tokenizer']} tokenizer is trained on the text of examples; give --texts.")
    own = (text for example in ExampleFile(texts) for text in (example.question, example.context))
    if recipe["tokenizer"] == "wordpiece":
        return wordpiece_tokenizer(own, recipe["vocabulary"], window)
    prompts = [*STYLES[reading.prompts].values()]
    if recipe.get("judge_course"):
        prompts = [judge.PROMPT, *(json.dumps({"score": grade}) for grade in range(judge.BEST + 1))]
    return bpe_tokenizer(itertools.chain(own, prompts), recipe["vocabulary"])
