"""A small judge for the toy task: taught in seconds to grade by the rule that the judge's prompt states. It stands in for
Qwen3-8B; what it has learned of the rule is little, but it answers the same requests in the same form."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from tamtrl import seeds
from tamtrl.models.course import response_loss, toy_texts
from tamtrl.models.tokenizers import word_tokenizer
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Reader
from tamtrl.reading.texts import Texts
from tamtrl.settings import Reading
from tamtrl.tasks import toy
from tamtrl.turn_scores import judge
from tamtrl.turn_scores.updates import Update, UpdateWriter

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


@dataclass(frozen=True)
class Course:
    steps: int
    batch: int  # graded turns
    lr: float
    lapse: float  # probability that a fact which should be in a memory is lost or replaced
    perfect: float  # share of the turns without a lapse that are taught
    documents: int


def grade(kept: set[str], useful: set[str]) -> int:
    """0 to 10: the share of the useful facts that the memory keeps, halved when it holds anything else."""
    share = len(kept & useful) / len(useful) if useful else 1.0
    return round(judge.BEST * (share if kept <= useful else share / 2))


def graded_turns(reading: Reading, course: Course, seed: int) -> Iterator[tuple[Update, int]]:
    """Memory turns of a reader that loses and confuses facts, with their grades."""
    # Texts as the toy policy's own tokenizer spells them.
    reader = Reader(Prompts(word_tokenizer(toy_texts()), reading.prompts), reading)
    rng = seeds.generator(seed, "toy judge", "lapses")
    for example in toy.generate("train", None, course.documents, seed, stream="judge"):
        writer = UpdateWriter(reader, reader.prepare(example))
        memory: list[str] = []
        for section, relevant in zip(writer.sections, writer.relevant, strict=True):
            new, others = _facts(relevant), [fact for fact in _facts(section) if fact not in _facts(relevant)]
            after = [kept for fact in [*memory, *new] for kept in _lapse(fact, others, course.lapse, rng)]
            texts = [" ".join(facts) if facts else reader.prompts.tokenizer.decode(reader.prompts.empty_memory)
                     for facts in (memory, after)]  # fmt: skip
            points = grade(set(after), {*memory, *new})
            # Most turns are perfect, and a judge taught on all of them says nothing else.
            if points < judge.BEST or rng.random() < course.perfect:
                yield Update(writer.question, section, relevant, *texts), points
            memory = after


def _facts(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip().startswith("The ")]


def _lapse(fact: str, others: list[str], lapse: float, rng: random.Random) -> list[str]:
    if rng.random() >= lapse:
        return [fact]
    return [rng.choice(others)] if others and rng.random() < 0.5 else []


def train(
    model: torch.nn.Module,
    tokenizer: "PreTrainedTokenizerFast",
    reading: Reading,
    course: Course,
    seed: int,
    say: Callable[[str], None],
) -> None:
    texts = Texts(tokenizer)

    def sample(update: Update, points: int) -> tuple[list[int], list[int]]:
        message = [{"role": "user", "content": judge.prompt(update, texts.broken_up)}]  # as the server will get and tokenize it
        prompt = tokenizer.apply_chat_template(message, add_generation_prompt=True, enable_thinking=False, return_dict=False)
        answer = tokenizer(json.dumps({"score": points}), add_special_tokens=False)["input_ids"]
        return prompt, [*answer, tokenizer.eos_token_id]

    optimizer = torch.optim.AdamW(model.parameters(), lr=course.lr, weight_decay=0.01)
    turns = graded_turns(reading, course, seed)
    model.train()
    for step in range(1, course.steps + 1):
        loss = response_loss(model, [sample(*next(turns)) for _ in range(course.batch)], tokenizer.pad_token_id)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 20 == 0 or step == course.steps:
            say(f"judge step {step}/{course.steps}: loss {loss.item():.4f}")
