"""The toy task as lessons: text of whole readings, and training of a small model on them.

A reader is taught to be able first and to have lapses then: it can do the task but often drops or confuses the fact it should
keep. Reinforcement learning moves an able model that has lapses in a few steps; an unable one hardly at all.

A *distractible* reader has them beside other text alone: what a teacher that sees only the relevant text says of its memories is
then worth something. A *careless* one has them whatever it reads, and its teacher knows no more than itself.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from tamtrl import seeds
from tamtrl.errors import UserError
from tamtrl.reading.prompts import STYLES
from tamtrl.reading.reader import Reader
from tamtrl.tasks import toy
from tamtrl.tasks.example import Example

Sample = tuple[list[int], list[int]]
"""Prompt ids and response ids (end-of-turn token included)."""


@dataclass(frozen=True)
class Course:
    """``able_steps`` on ideal memories, then ``lapsing_steps`` on memories with lapses."""

    able_steps: int
    lapsing_steps: int
    lapses: str  # a key of LAPSES
    lapse: float
    batch: int
    lr: float
    documents: int

    def __post_init__(self) -> None:
        if self.lapses not in LAPSES:
            raise UserError(f"A course's lapses are {self.lapses!r}; they must be one of {', '.join(LAPSES)}.")


# Probability that a relevant fact is lost, from the course's ``lapse`` and the number of other facts in the section: each other
# fact distracts by itself, or none matters.
LAPSES: dict[str, Callable[[float, int], float]] = {
    "distractible": lambda lapse, others: 1 - (1 - lapse) ** others,
    "careless": lambda lapse, others: lapse,
}


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


@dataclass(frozen=True)
class Lesson:
    """A memory turn with what is written in it, which may lack or confuse facts; and the same turn as a teacher sees it, the
    relevant text alone, with what should have been written."""

    written: Sample
    right: Sample
    others: int  # facts of the section that are not relevant
    relevant: int
    kept: int  # facts in the memory before


def lessons(example: Example, reader: Reader, rng: random.Random, lapse: float, lapses: str) -> tuple[list[Lesson], Sample]:
    """The memory turns of one reading, and its answer turn. A relevant fact is lost with the probability of ``LAPSES``: it is
    dropped, or replaced by another fact of the section."""
    document, prompts = reader.prepare(example), reader.prompts
    end = [prompts.tokenizer.eos_token_id]

    def text(facts: list[str]) -> list[int]:
        return prompts.encode(" ".join(facts)) if facts else prompts.empty_memory

    turns: list[Lesson] = []
    memory: list[str] = []
    for chunk in document.chunks:
        lines = prompts.tokenizer.decode(chunk.ids).split("\n")
        facts = [line.strip() for line in lines if line.strip().startswith("The ")]
        relevant = [prompts.tokenizer.decode(ids).split("\n")[-1].strip() for ids in chunk.relevant_ids]
        others = [fact for fact in facts if fact not in relevant]
        after = list(memory)
        for fact in relevant:
            if rng.random() >= LAPSES[lapses](lapse, len(others)):
                after.append(fact)
            elif others and rng.random() < 0.5:
                after.append(rng.choice(others))
        slots = {"question": document.question_ids, "memory": text(memory)}
        written = prompts.update.fill(section=chunk.ids, **slots), text(after) + end
        right = prompts.update.fill(section=reader.relevant(document, chunk), **slots), text([*memory, *relevant]) + end
        turns.append(Lesson(written, right, len(others), len(relevant), len(memory)))
        memory = after
    # The last value of the memory is the best guess even of a memory that lost the fact it needed.
    guess = memory[-1].split()[-2] if memory else rng.choice(toy.THINGS["pet"])
    prompt = prompts.answer.fill(question=document.question_ids, memory=text(memory))
    return turns, (prompt, prompts.encode(f"\\boxed{{ {guess} }}") + end)


def teacher_forced_turns(example: Example, reader: Reader, rng: random.Random, lapse: float) -> list[Sample]:
    """One sample a turn, as a careless reader writes them."""
    turns, answer = lessons(example, reader, rng, lapse, "careless")
    return [*(turn.written for turn in turns), answer]


def course_samples(reader: Reader, course: Course, seed: int, stage: str) -> Iterator[Sample]:
    """Of a stage: ``able``, or the name of the lapses. A distractible reader also learns what is right on the relevant text."""
    rng = seeds.generator(seed, stage, "lapses")
    lapse, lapses = (0.0, "careless") if stage == "able" else (course.lapse, stage)
    for example in toy.generate("train", None, course.documents, seed, stream=stage):
        turns, answer = lessons(example, reader, rng, lapse, lapses)
        for turn in turns:
            yield turn.written
            if lapses == "distractible":
                yield turn.right
        yield answer


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
    total = course.able_steps + course.lapsing_steps
    step = 0
    model.train()
    for stage, steps in (("able", course.able_steps), (course.lapses, course.lapsing_steps)):
        samples = course_samples(reader, course, seed, stage)
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
