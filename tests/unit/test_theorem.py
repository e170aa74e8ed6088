"""Theorem 1 by exact enumeration, and by hand."""

import math

import numpy as np
import pytest

from tamtrl.paper import theorem


@pytest.mark.parametrize("seed", range(50))
def test_both_sides_agree(seed):
    world = theorem.random_world(seed)
    assert abs(theorem.decomposition(world)["J"] - theorem.objective(world)) < 1e-10


def test_a_policy_is_a_distribution_over_all_memories():
    # 1 + 3 + 9 with an end token after 0, 1 and 2 words, and 27 of full length
    assert len(theorem.memories()) == len(set(theorem.memories())) == 40
    assert theorem.distribution(theorem.random_world(0).student).sum() == pytest.approx(1, abs=1e-12)


def two_memories() -> theorem.World:
    """Ends at once or says one word, half and half, as the reference does; only the first is right, and the teacher likes
    neither."""
    table = {prefix: np.array([0.0, 0.0, 0.0, 1.0]) for prefix in theorem.prefixes()}
    table[()] = np.array([0.5, 0.0, 0.0, 0.5])
    right = np.array([float(memory == (theorem.END,)) for memory in theorem.memories()])
    return theorem.World(table, table, np.zeros(40), right, beta=0.3)


def test_the_counterexample_of_the_documents():
    """J = 0. With the KL of the policy itself the right side is beta ln 2; given the outcome it is 0."""
    world = two_memories()
    assert theorem.objective(world) == 0
    terms = theorem.decomposition(world)
    assert terms["P_succ"] == 0.5 and terms["L_succ"] == pytest.approx(-0.3 * math.log(2))
    assert terms["beta_I"] == pytest.approx(0.3 * math.log(2)) and terms["J"] == pytest.approx(0)
    assert theorem.decomposition(world, conditional=False)["J"] == pytest.approx(0.3 * math.log(2))


def test_the_table(tmp_path):
    theorem.write(20, tmp_path / "theorem1.csv")
    assert "of the policy given the outcome" in (tmp_path / "theorem1.md").read_text()
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".md", ".tex", ".html"}
