"""Models made from nothing: a small Qwen3 or BERT with a tokenizer of its own.

The toy backbone learns to read from generated text and is then made careless: it can do the task but often drops or
confuses the fact it should keep. Reinforcement learning moves an able but careless model in a few steps; an unable one
hardly at all.
"""

import itertools
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, Qwen3Config, Qwen3ForCausalLM

from tamtrl import files, seeds
from tamtrl.errors import UserError
from tamtrl.reading.prompts import STYLES, Prompts
from tamtrl.reading.reader import Reader
from tamtrl.settings import Reading, build
from tamtrl.tasks import toy
from tamtrl.tasks.example import Example, ExampleFile
from tamtrl.training.tokenizers import bpe_tokenizer, word_tokenizer, wordpiece_tokenizer
from tamtrl.turn_scores import judge, toy_judge

Sample = tuple[list[int], list[int]]
"""Prompt ids and response ids (end-of-turn token included)."""


@dataclass(frozen=True)
class Shape:
    width: int
    layers: int
    heads: int
    feed_forward: int
    kv_heads: int = 0  # a BERT has no use for these two
    head_dim: int = 0


@dataclass(frozen=True)
class Course:
    """``able_steps`` on ideal memories, then ``careless_steps`` in which a relevant fact is lost with ``lapse``."""

    able_steps: int
    careless_steps: int
    lapse: float
    batch: int
    lr: float
    documents: int


def new_model(shape: Shape, tokenizer, window: int, seed: int) -> Qwen3ForCausalLM:
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


def new_bert(shape: Shape, tokenizer, window: int, seed: int) -> BertForSequenceClassification:
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


def toy_texts() -> list[str]:
    """Every word the toy task can produce."""
    relations = [*toy.PEOPLE_RELATIONS, *toy.THINGS]
    values = [value for things in toy.THINGS.values() for value in things]
    facts = [toy.fact(name, relation, value) for name in toy.NAMES for relation in relations for value in values]
    questions = [toy.question_text((name, "boss", relation)) for name in toy.NAMES for relation in relations]
    headers = [f"Document\n{number}:" for number in range(1, len(toy.NAMES) + 1)]
    style = STYLES["brief"]
    chat = ["user\n assistant\n", style["update"], style["answer"], style["empty_memory"]]
    return facts + questions + headers + chat


def teacher_forced_turns(example: Example, reader: Reader, rng: random.Random, lapse: float) -> list[Sample]:
    """One sample per turn with the memory a careful reader would write, except that each newly relevant fact is
    dropped, or replaced by the chunk's other fact, with probability ``lapse``."""
    document, prompts = reader.prepare(example), reader.prompts
    end = [prompts.tokenizer.eos_token_id]
    samples, memory, kept = [], prompts.empty_memory, []
    for chunk in document.chunks:
        lines = prompts.tokenizer.decode(chunk.ids).split("\n")
        facts = [line.strip() for line in lines if line.strip().startswith("The ")]
        relevant = [prompts.tokenizer.decode(ids).split("\n")[-1].strip() for ids in chunk.relevant_ids]
        for fact in relevant:
            others = [other for other in facts if other not in relevant]
            if rng.random() >= lapse:
                kept.append(fact)
            elif others and rng.random() < 0.5:
                kept.append(rng.choice(others))
        prompt = prompts.update.fill(question=document.question_ids, memory=memory, section=chunk.ids)
        memory = prompts.encode(" ".join(kept)) if kept else prompts.empty_memory
        samples.append((prompt, memory + end))
    prompt = prompts.answer.fill(question=document.question_ids, memory=memory)
    # The last value of the memory is the best guess even of a memory that lost the fact it needed.
    guess = kept[-1].split()[-2] if kept else rng.choice(toy.THINGS["pet"])
    samples.append((prompt, prompts.encode(f"\\boxed{{ {guess} }}") + end))
    return samples


def course_samples(reader: Reader, documents: int, seed: int, stage: str, lapse: float) -> Iterator[Sample]:
    rng = seeds.generator(seed, stage, "lapses")
    for example in toy.generate("train", None, documents, seed, stream=stage):
        yield from teacher_forced_turns(example, reader, rng, lapse)


def response_loss(model, batch: list[Sample], pad: int) -> torch.Tensor:
    """Mean cross-entropy over response tokens (end-of-turn included), in nats per token."""
    length = max(len(prompt) + len(response) for prompt, response in batch)
    ids = torch.full((len(batch), length), pad)
    labels = torch.full((len(batch), length), -100)
    for row, (prompt, response) in enumerate(batch):
        ids[row, : len(prompt) + len(response)] = torch.tensor(prompt + response)
        labels[row, len(prompt) : len(prompt) + len(response)] = torch.tensor(response)
    # Rows are padded on the right, so causal attention alone keeps padding out of every scored position.
    return model(input_ids=ids, labels=labels).loss


def train_course(model, reader: Reader, course: Course, seed: int, say: Callable[[str], None]) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=course.lr, betas=(0.9, 0.95), weight_decay=0.01)
    pad = reader.prompts.tokenizer.pad_token_id
    total = course.able_steps + course.careless_steps
    stages = [("able", course.able_steps, 0.0), ("careless", course.careless_steps, course.lapse)]
    step = 0
    model.train()
    for stage, steps, lapse in stages:
        samples = course_samples(reader, course.documents, seed, stage, lapse)
        for _ in range(steps):
            lr = course.lr * min(1.0, (step + 1) / 50) * (1.0 if step < 0.7 * total else 0.3)
            for group in optimizer.param_groups:
                group["lr"] = lr
            loss = response_loss(model, [next(samples) for _ in range(course.batch)], pad)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step % 50 == 0 or step == total:
                say(f"{stage} step {step}/{total}: loss {loss.item():.4f}")


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
    temporary = output.with_name(f".{os.getpid()}.tmp.{output.name}")
    model.save_pretrained(temporary)
    tokenizer.save_pretrained(temporary)
    if output.exists():
        shutil.rmtree(output)
    temporary.rename(output)


def _tokenizer(recipe: dict, texts: Path | None, reading: Reading, window: int):
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
