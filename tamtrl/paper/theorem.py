"""Theorem 1 (docs/theorem.md), checked on policies small enough to enumerate: exact expectations, nothing sampled.

A world is one memory turn and one answer turn. A memory is an end token or up to ``LENGTH`` words before it; the student,
the reference and the teacher (the student with another view) are autoregressive and give every memory a probability; given
a memory, an answer is right with some probability.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from tamtrl import frames, seeds
from tamtrl.credit import teacher
from tamtrl.credit.normalise import min_max
from tamtrl.credit.settings import CreditSettings
from tamtrl.paper.layout import Grid, Section
from tamtrl.paper.layout import write as write_views

WORDS, LENGTH = 3, 3
END = WORDS


@dataclass(frozen=True)
class World:
    """Arrays over memories, in the order of `memories`, but for the two token-level tables: prefix -> probabilities of the
    next token, shape (WORDS + 1,)."""

    student: dict[tuple[int, ...], np.ndarray]
    reference: dict[tuple[int, ...], np.ndarray]
    score: np.ndarray  # p_hat of Eq. 5, over all memories
    right: np.ndarray  # P(r = 1 | S_t, M_{t+1})
    beta: float


def memories() -> list[tuple[int, ...]]:
    """All of them, the end token included; one of full length ends without."""
    words = range(WORDS)
    short = [(*body, END) for n in range(LENGTH) for body in itertools.product(words, repeat=n)]
    return short + list(itertools.product(words, repeat=LENGTH))


def prefixes() -> list[tuple[int, ...]]:
    """Where a next token is chosen."""
    return [body for n in range(LENGTH) for body in itertools.product(range(WORDS), repeat=n)]


def token_probabilities(table: dict[tuple[int, ...], np.ndarray], memory: tuple[int, ...]) -> np.ndarray:
    return np.array([table[memory[:place]][token] for place, token in enumerate(memory)])


def distribution(table: dict[tuple[int, ...], np.ndarray]) -> np.ndarray:
    """pi(M), over `memories`; sums to 1."""
    return np.array([token_probabilities(table, memory).prod() for memory in memories()])


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    """KL(p || q) in nats, where 0 log 0 is 0."""
    some = p > 0
    return float((p[some] * np.log(p[some] / q[some])).sum())


def random_world(seed: int) -> World:
    rng = np.random.default_rng(seeds.derive(seed, "theorem"))

    def policy() -> dict[tuple[int, ...], np.ndarray]:
        logits = {prefix: rng.normal(scale=2.0, size=WORDS + 1) for prefix in prefixes()}
        return {prefix: np.exp(values) / np.exp(values).sum() for prefix, values in logits.items()}

    student, reference, privileged = policy(), policy(), policy()
    log_probs = [torch.tensor(np.log(token_probabilities(privileged, memory))) for memory in memories()]
    p = teacher.score(log_probs, CreditSettings(method="teacher"))  # Eq. 4
    p_hat = min_max(p, torch.zeros(len(p), dtype=torch.long))  # Eq. 5
    return World(student, reference, p_hat.numpy(), rng.uniform(size=len(p)), float(rng.uniform(0.001, 1.0)))


def objective(world: World) -> float:
    """J = E[p_hat r] - beta KL(pi || pi_ref), the KL by the chain rule over tokens, as it is trained."""
    pi = distribution(world.student)
    kl = 0.0
    for prefix in prefixes():
        reached = token_probabilities(world.student, prefix).prod()
        student, reference = world.student[prefix], world.reference[prefix]
        kl += reached * divergence(student, reference)
    return float((pi * world.right * world.score).sum() - world.beta * kl)


def decomposition(world: World, conditional: bool = True) -> dict[str, float]:
    """The terms of Theorem 1. ``conditional``: the KL of L_succ and L_fail is of the policy given the outcome, as the
    theorem needs; otherwise of the policy itself, which is a misreading."""
    pi, reference = distribution(world.student), distribution(world.reference)
    terms, mutual = {}, 0.0
    for name, likelihood, score in (("succ", world.right, world.score), ("fail", 1 - world.right, 0 * world.score)):
        share = float((pi * likelihood).sum())
        given = pi * likelihood / share
        terms[f"P_{name}"] = share
        terms[f"L_{name}"] = float((given * score).sum() - world.beta * divergence(given if conditional else pi, reference))
        mutual += share * divergence(given, pi)
    total = sum(terms[f"P_{name}"] * terms[f"L_{name}"] for name in ("succ", "fail")) + world.beta * mutual
    return terms | {"beta_I": float(world.beta * mutual), "J": float(total)}


def write(worlds: int, output: Path) -> None:
    """The largest difference between the two sides over ``worlds`` random policies. ``output`` gets .csv, .md, .tex and .html."""
    rows = []
    for seed in range(worlds):
        world = random_world(seed)
        exact, misread = decomposition(world), decomposition(world, conditional=False)
        left = objective(world)
        rows.append({"world": seed, "objective": left, **exact, "difference": exact["J"] - left, "misread": misread["J"] - left})
    table = pd.DataFrame(rows)
    frames.write(table, output.with_suffix(".csv"))
    readings = {
        "of the policy given the outcome (docs/theorem.md)": table["difference"],
        "of the policy itself (a misreading)": table["misread"],
    }
    grid = Grid(
        [("", "KL of L_succ and L_fail"), ("right side - J", "largest"), ("right side - J", "median")],
        [[name, f"{values.abs().max():.1e}", f"{values.abs().median():.1e}"] for name, values in readings.items()],
    )
    number = len(memories())
    caption = (
        f"Theorem 1 on {worlds} random autoregressive policies with {number} memories each, all enumerated, in double precision. "
        f"The misreading is off by beta I(M; r | S), which is {table['beta_I'].min():.1e} to {table['beta_I'].max():.1e} here."
    )
    write_views("theorem1", [Section(grid, caption)], output)
