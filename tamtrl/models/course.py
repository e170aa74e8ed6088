"""The toy task as lessons: text of whole readings, and training of a small model on them.

A reader is taught to be able first and careless then: it can do the task but often drops or confuses the fact it should keep.
Reinforcement learning moves an able but careless model in a few steps; an unable one hardly at all.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from tamtrl import seeds
from tamtrl.reading.prompts import STYLES
from tamtrl.reading.reader import Reader
from tamtrl.tasks import toy
from tamtrl.tasks.example import Example

Sample = tuple[list[int], list[int]]
"""Prompt ids and response ids (end-of-turn token included)."""


@dataclass(frozen=True)
class Course:
    """``able_steps`` on ideal memories, then ``careless_steps`` in which a relevant fact is lost with ``lapse``."""

    able_steps: int
    careless_steps: int
    lapse: float
    batch: int
    lr: float
    documents: int


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


def response_loss(model: torch.nn.Module, batch: list[Sample], pad: int) -> torch.Tensor:
    """Mean cross-entropy over response tokens (end-of-turn included), in nats per token."""
    length = max(len(prompt) + len(response) for prompt, response in batch)
    ids = torch.full((len(batch), length), pad)
    labels = torch.full((len(batch), length), -100)
    for row, (prompt, response) in enumerate(batch):
        ids[row, : len(prompt) + len(response)] = torch.tensor(prompt + response)
        labels[row, len(prompt) : len(prompt) + len(response)] = torch.tensor(response)
    # Rows are padded on the right, so causal attention alone keeps padding out of every scored position.
    return model(input_ids=ids, labels=labels).loss


def train_course(model: torch.nn.Module, reader: Reader, course: Course, seed: int, say: Callable[[str], None]) -> None:
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
