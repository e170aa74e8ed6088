"""Generated stand-ins for the benchmarks that a half-million-parameter model can learn: short documents of one-fact paragraphs,
questions over one or two of them.

Every paragraph has the same number of words, so a chunk size that is a multiple of it never cuts a fact. Facts of a
two-hop question stand in hop order: a reader that sees the second hop first cannot know that it matters.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from tamtrl import seeds
from tamtrl.errors import UserError
from tamtrl.tasks.documents import join_documents
from tamtrl.tasks.example import Example

NAMES = tuple(
    [
        "Ada",
        "Bea",
        "Cal",
        "Dan",
        "Eva",
        "Fay",
        "Gus",
        "Hal",
        "Ida",
        "Jan",
        "Kay",
        "Leo",
        "Mia",
        "Ned",
        "Ola",
        "Pia",
        "Quy",
        "Ray",
        "Sue",
        "Tom",
        "Una",
        "Vic",
        "Wim",
        "Zoe",
    ]
)
# Relations between people (the first hop of a two-hop question) and relations to things (its second hop).
PEOPLE_RELATIONS = ("boss", "neighbour")
THINGS = {
    "pet": tuple(["cat", "dog", "owl", "fox", "pig", "hen"]),
    "city": tuple(["Rome", "Oslo", "Lima", "Bonn", "Kyiv", "Baku"]),
    "food": tuple(["rice", "soup", "cake", "plum", "bean", "corn"]),
}


@dataclass(frozen=True)
class Shape:
    """What a toy set resembles. Of the questions: ``hops`` (1, 2, or None for both) and ``about`` (what the answer is: people,
    things, or None). Of the other paragraphs: ``share`` (relation: the same as asked, so that keys must be told apart; subject:
    about the same person) by ``sharing`` of them (all when None)."""

    hops: int | None = None
    about: str | None = None
    share: str | None = None
    sharing: int | None = None

    def __post_init__(self) -> None:
        choices = {"hops": (None, 1, 2), "about": (None, "people", "things"), "share": (None, "relation", "subject")}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise UserError(f"A toy set's {name} is {getattr(self, name)!r}; it must be one of {allowed[1:]}, or left out.")

    def fits(self, question: tuple[str, ...]) -> bool:
        _, *relations = question
        about = "things" if relations[-1] in THINGS else "people"
        return self.hops in (None, len(relations)) and self.about in (None, about)


def fact(subject: str, relation: str, value: str) -> str:
    return f"The {relation} of {subject} is {value} ."


def _question_space() -> list[tuple[str, ...]]:
    """Every question as (name, relation) or (name, people relation, thing relation)."""
    relations = [*PEOPLE_RELATIONS, *THINGS]
    one_hop: list[tuple[str, ...]] = [(name, relation) for name in NAMES for relation in relations]
    two_hop: list[tuple[str, ...]] = list(itertools.product(NAMES, PEOPLE_RELATIONS, THINGS))
    return one_hop + two_hop


def question_split(split: str, seed: int, held_out: float = 0.25) -> list[tuple[str, ...]]:
    """The questions of ``train`` or ``heldout``: a seeded partition, so the two share no question."""
    space = sorted(_question_space(), key=lambda question: seeds.derive(seed, "toy split", *question))
    cut = int(len(space) * held_out)
    if split not in ("train", "heldout"):
        raise UserError(f"Toy split {split!r} is not one of train, heldout.")
    return space[:cut] if split == "heldout" else space[cut:]


def question_text(question: tuple[str, ...]) -> str:
    name, *relations = question
    return f"What is the {' of the '.join(reversed(relations))} of {name} ?"


def generate(
    split: str, count: int | None, documents: int, seed: int, stream: str = "main", shape: Shape | None = None
) -> Iterator[Example]:
    """``count`` examples (endless when None) of ``documents`` one-fact paragraphs each, one or two of them relevant.

    ``stream`` names independent draws over the same questions, e.g. one for the backbone and one for each benchmark.
    """
    if not 2 <= documents <= len(NAMES):
        raise UserError(f"Toy documents need 2 to {len(NAMES)} paragraphs, not {documents}.")
    shape = shape or Shape()
    questions = [question for question in question_split(split, seed) if shape.fits(question)]
    for index in itertools.count() if count is None else range(count):
        rng = seeds.generator(seed, "toy", split, documents, stream, index)
        question = rng.choice(questions)
        yield _example(f"toy-{split}-{index}", question, documents, rng, stream, shape)


def _value(rng: random.Random, subject: str, relation: str) -> str:
    if relation in THINGS:
        return rng.choice(THINGS[relation])
    return rng.choice([name for name in NAMES if name != subject])


def _distractors(
    pool: list[tuple[str, str]], number: int, question: tuple[str, ...], rng: random.Random, shape: Shape
) -> list[tuple[str, str]]:
    if not shape.share:
        return rng.sample(pool, number)
    place = ("subject", "relation").index(shape.share)
    asked = {question[0]} if shape.share == "subject" else set(question[1:])
    alike = [pair for pair in pool if pair[place] in asked]
    other = [pair for pair in pool if pair[place] not in asked]
    sharing = number if shape.sharing is None else shape.sharing
    if sharing > min(number, len(alike)):
        raise UserError(
            f"A toy set asks for {sharing} paragraphs that share the asked {shape.share}; {min(number, len(alike))} fit."
        )
    chosen = rng.sample(alike, sharing) + rng.sample(other, number - sharing)
    rng.shuffle(chosen)
    return chosen


def _example(
    identifier: str, question: tuple[str, ...], documents: int, rng: random.Random, benchmark: str, shape: Shape
) -> Example:
    subject, *relations = question
    relevant = []
    for relation in relations:
        value = _value(rng, subject, relation)
        relevant.append((subject, relation, value))
        subject = value
    taken = {(person, relation) for person, relation, _ in relevant}
    pairs = [(name, relation) for name in NAMES for relation in (*PEOPLE_RELATIONS, *THINGS)]
    pool = [pair for pair in pairs if pair not in taken]
    distractors = _distractors(pool, documents - len(relevant), question, rng, shape)
    slots = sorted(rng.sample(range(documents), len(relevant)))
    filler = iter([(name, relation, _value(rng, name, relation)) for name, relation in distractors])
    facts = [relevant[slots.index(slot)] if slot in slots else next(filler) for slot in range(documents)]
    context, spans = join_documents(
        [f"{person}\n{fact(person, relation, value)}" for person, relation, value in facts],
        [slot in slots for slot in range(documents)],
    )
    return Example(identifier, question_text(question), context, spans, (subject,), "alternatives", benchmark)
