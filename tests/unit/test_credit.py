"""Every expected number is computed by hand in the comment above it."""

import math

import pytest
import torch
from conftest import REPOSITORY

from tamtrl import credit
from tamtrl.credit import outcome, teacher
from tamtrl.credit.base import Turns
from tamtrl.credit.normalise import group_ids, min_max, standardise
from tamtrl.credit.settings import CHOICES, CreditSettings
from tamtrl.errors import UserError

NAN = float("nan")


def settings(**changes) -> CreditSettings:
    return CreditSettings(method="teacher", **changes)


def make(rows) -> Turns:
    """rows: (query, rollout, turn, is_answer, outcome, score)"""
    query, rollout, turn, answer, r, score = zip(*rows, strict=True)
    return Turns(
        torch.tensor(query), torch.tensor(rollout), torch.tensor(turn), torch.tensor(answer),
        torch.tensor(r, dtype=torch.float64), torch.tensor(score, dtype=torch.float64),
    )  # fmt: skip


def two_rollouts() -> Turns:
    """One query, two rollouts of two memory turns and an answer; the first succeeds."""
    return make(
        [
            (0, 0, 0, False, 1.0, 0.9),
            (0, 0, 1, False, 1.0, 0.5),
            (0, 0, 2, True, 1.0, NAN),
            (0, 1, 0, False, 0.0, 0.7),
            (0, 1, 1, False, 0.0, 0.3),
            (0, 1, 2, True, 0.0, NAN),
        ]
    )


# -- Eq. 4 -------------------------------------------------------------------------------------------------------------

PROBABILITIES = [torch.tensor([0.5, 0.25]).log(), torch.tensor([0.8]).log()]


@pytest.mark.parametrize(
    ("form", "length_norm", "expected"),
    [
        ("mean_prob", True, [0.375, 0.8]),  # (0.5 + 0.25) / 2
        ("mean_prob", False, [0.75, 0.8]),  # 0.5 + 0.25
        ("mean_logprob", True, [math.log(0.125) / 2, math.log(0.8)]),  # (ln 0.5 + ln 0.25) / 2
        ("mean_logprob", False, [math.log(0.125), math.log(0.8)]),
        ("geometric_mean", True, [math.sqrt(0.125), 0.8]),  # (0.5 * 0.25) ** (1/2)
        ("geometric_mean", False, [0.125, 0.8]),  # the probability of the whole memory
    ],
)
def test_score(form, length_norm, expected):
    got = teacher.score(PROBABILITIES, settings(score=form, length_norm=length_norm))
    assert got.tolist() == pytest.approx(expected, rel=1e-6)


def test_score_without_length_norm_grows_with_length():
    short, long = [torch.tensor([0.5]).log()], [torch.tensor([0.5, 0.5]).log()]
    assert teacher.score(short, settings()).item() == pytest.approx(teacher.score(long, settings()).item())
    sums = settings(length_norm=False)
    assert teacher.score(long, sums).item() == pytest.approx(2 * teacher.score(short, sums).item())


# -- Eq. 5 -------------------------------------------------------------------------------------------------------------


def test_min_max_within_groups():
    values = torch.tensor([0.2, 0.6, 0.4, 5.0, 5.0])
    # first group: (v - 0.2) / 0.4; second: all equal, so 1
    assert min_max(values, torch.tensor([0, 0, 0, 1, 1])).tolist() == pytest.approx([0, 1, 0.5, 1, 1])


def test_min_max_of_one_value_is_one():
    assert min_max(torch.tensor([0.3]), torch.tensor([0])).tolist() == [1.0]


# -- Eq. 6 -------------------------------------------------------------------------------------------------------------


def test_rewards_product():
    # P = {.9, .5, .7, .3}: p_hat = 1, 1/3, 2/3, 0; times r; answers r
    assert teacher.rewards(two_rollouts(), settings()).tolist() == pytest.approx([1, 1 / 3, 1, 0, 0, 0])


def test_rewards_sum():
    assert teacher.rewards(two_rollouts(), settings(combine="sum")).tolist() == pytest.approx([2, 4 / 3, 1, 2 / 3, 0, 0])


def test_rewards_without_min_max():
    assert teacher.rewards(two_rollouts(), settings(minmax="off")).tolist() == pytest.approx([0.9, 0.5, 1, 0, 0, 0])


def test_min_max_sets():
    # Two queries of one memory turn each, two rollouts, all correct. Batch: P = {.2, .4, .6, 1}, span .8.
    rows = []
    for query, scores in enumerate([(0.2, 0.4), (0.6, 1.0)]):
        for rollout, score in enumerate(scores):
            rows += [(query, rollout, 0, False, 1.0, score), (query, rollout, 1, True, 1.0, NAN)]
    turns = make(rows)
    memory = ~turns.is_answer
    expected = {
        "batch": [0, 0.25, 0.5, 1],
        "query": [0, 1, 0, 1],
        "query_turn": [0, 1, 0, 1],
        "off": [0.2, 0.4, 0.6, 1],
    }
    for name, values in expected.items():
        assert teacher.rewards(turns, settings(minmax=name))[memory].tolist() == pytest.approx(values), name


def test_min_max_by_query_and_turn_differs_from_query():
    # Query: P = {.9, .5, .7, .3}; by turn: {.9, .7} and {.5, .3}, so the successful rollout gets 1 at both turns.
    assert teacher.rewards(two_rollouts(), settings(minmax="query"))[:2].tolist() == pytest.approx([1, 1 / 3])
    assert teacher.rewards(two_rollouts(), settings(minmax="query_turn"))[:2].tolist() == pytest.approx([1, 1])


# -- Eq. 7 -------------------------------------------------------------------------------------------------------------


def test_advantages_over_all_turns_and_rollouts_of_the_query():
    turns = two_rollouts()
    rewards = teacher.rewards(turns, settings())
    # R = 1, 1/3, 1, 0, 0, 0: mean 7/18; variance (2*121 + 1 + 3*49) / 324 / 6 = 390 / 1944
    std = math.sqrt(390 / 1944)
    expected = [11 / 18 / std, -1 / 18 / std, 11 / 18 / std] + 3 * [-7 / 18 / std]
    assert teacher.advantages(turns, rewards, settings()).tolist() == pytest.approx(expected)
    without = teacher.advantages(turns, rewards, settings(std=False)).tolist()
    assert without == pytest.approx([11 / 18, -1 / 18, 11 / 18] + 3 * [-7 / 18])


def test_advantages_by_query_and_turn():
    turns = two_rollouts()
    rewards = teacher.rewards(turns, settings())
    got = teacher.advantages(turns, rewards, settings(advantage_set="query_turn"))
    # two values a set, one above and one below: +1 and -1 whatever their distance
    assert got.tolist() == pytest.approx([1, 1, 1, -1, -1, -1])


def test_standardise_keeps_groups_apart():
    values, groups = torch.tensor([1.0, 3.0, 10.0, 10.0]), torch.tensor([0, 0, 1, 1])
    assert standardise(values, groups).tolist() == pytest.approx([-1, 1, 0, 0])


def test_group_ids_join_every_key():
    ids = group_ids(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 0]))
    assert len(set(ids.tolist())) == 3 and ids[2] == ids[3]


# -- outcome credit ----------------------------------------------------------------------------------------------------


def test_outcome_credit():
    turns = two_rollouts()
    rewards = outcome.rewards(turns, settings())
    assert rewards.tolist() == [1, 1, 1, 0, 0, 0]
    # trajectories {1, 0}: mean 1/2, std 1/2
    assert outcome.advantages(turns, rewards, settings()).tolist() == pytest.approx([1, 1, 1, -1, -1, -1])
    assert outcome.advantages(turns, rewards, settings(std=False)).tolist() == pytest.approx(3 * [0.5] + 3 * [-0.5])


def test_outcome_statistics_are_of_trajectories_not_rows():
    # A trajectory of 5 rows that fails, one of 2 rows that succeeds. By rows the mean would be 2/7; by trajectory 1/2.
    rows = [(0, 0, t, t == 4, 0.0, NAN) for t in range(5)] + [(0, 1, t, t == 1, 1.0, NAN) for t in range(2)]
    turns = make(rows)
    got = outcome.advantages(turns, outcome.rewards(turns, settings()), settings(std=False))
    assert got.tolist() == pytest.approx(5 * [-0.5] + 2 * [0.5])


# -- edges, for every method -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", credit.names())
@pytest.mark.parametrize("r", [0.0, 1.0])
def test_equal_rewards_give_no_advantage(method, r):
    """All failed, or all correct with equal scores: nothing to learn, and no division by zero."""
    rows = [(0, j, t, t == 2, r, NAN if t == 2 else 0.4) for j in range(3) for t in range(3)]
    module, turns = credit.load(method), make(rows)
    rewards = module.rewards(turns, settings())
    assert rewards.tolist() == [r] * 9
    assert module.advantages(turns, rewards, settings()).tolist() == [0.0] * 9


@pytest.mark.parametrize("method", credit.names())
def test_one_row(method):
    turns = make([(0, 0, 0, True, 1.0, NAN)])
    module = credit.load(method)
    rewards = module.rewards(turns, settings())
    assert rewards.tolist() == [1.0] and module.advantages(turns, rewards, settings()).tolist() == [0.0]


@pytest.mark.parametrize("method", credit.names())
def test_ragged_trajectories_and_row_order(method):
    """Documents of different lengths, and rows in any order: each row keeps its own number."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    for query, turns_in_document in enumerate((1, 4, 2)):
        for rollout in range(3):
            r = float(torch.rand(1, generator=generator) < 0.5)
            for t in range(turns_in_document + 1):
                answer = t == turns_in_document
                rows.append((query, rollout, t, answer, r, NAN if answer else torch.rand(1, generator=generator).item()))
    module, order = credit.load(method), torch.randperm(len(rows), generator=generator).tolist()
    turns, shuffled = make(rows), make([rows[i] for i in order])
    for choice in CHOICES["advantage_set"]:
        chosen = settings(advantage_set=choice)
        plain = module.advantages(turns, module.rewards(turns, chosen), chosen)
        mixed = module.advantages(shuffled, module.rewards(shuffled, chosen), chosen)
        assert torch.isfinite(plain).all() and mixed.tolist() == pytest.approx(plain[order].tolist())


def test_failed_trajectory_gets_zero_at_every_turn():
    assert teacher.rewards(two_rollouts(), settings())[3:].tolist() == [0, 0, 0]


def test_unknown_method_and_choice():
    with pytest.raises(UserError, match="Unknown credit method 'magic'; there are judge, outcome, prm, teacher"):
        credit.load("magic")
    with pytest.raises(UserError, match=r"credit.minmax is 'global'; it must be one of batch"):
        settings(minmax="global")


# -- judge and process reward model --------------------------------------------------------------------------------------


def test_judge_and_prm_multiply_the_score_and_the_outcome():
    for name in ("judge", "prm"):
        method, off = credit.load(name), CreditSettings(method=name, minmax="off")
        # score * r for memory turns, r for the answer
        assert method.rewards(two_rollouts(), off).tolist() == [0.9, 0.5, 1.0, 0.0, 0.0, 0.0]
        plus = method.rewards(two_rollouts(), CreditSettings(method=name, minmax="off", combine="sum"))
        assert plus.tolist() == [1.9, 1.5, 1.0, 0.7, 0.3, 0.0]
        # min-max on: (0.9, 0.5, 0.7, 0.3) -> (1, 1/3, 2/3, 0)
        scaled = method.rewards(two_rollouts(), CreditSettings(method=name))
        assert scaled.tolist() == pytest.approx([1, 1 / 3, 1, 0, 0, 0])


def test_a_turn_without_a_score_gets_no_advantage_and_counts_in_nobody_elses():
    judge, off = credit.load("judge"), CreditSettings(method="judge", minmax="off")
    turns = two_rollouts()
    turns.score[1] = NAN
    rewards = judge.rewards(turns, off)
    assert rewards[1].isnan() and rewards[[0, 2, 3, 4, 5]].tolist() == [0.9, 1.0, 0.0, 0.0, 0.0]
    advantages = judge.advantages(turns, rewards, off)
    # without it: mean 1.9 / 5 = 0.38, variance (0.52^2 + 0.62^2 + 3 * 0.38^2) / 5 = 1.088 / 5
    deviation = math.sqrt(1.088 / 5)
    assert advantages[1] == 0
    assert advantages[[0, 2, 3]].tolist() == pytest.approx([0.52 / deviation, 0.62 / deviation, -0.38 / deviation])
    # min-max over the scores there are: (0.9, 0.7, 0.3) -> (1, 2/3, 0)
    assert judge.rewards(turns, CreditSettings(method="judge", combine="sum"))[[0, 3, 4]].tolist() == pytest.approx([2, 2 / 3, 0])


def test_a_batch_without_any_score_still_credits_the_answers():
    judge, off = credit.load("judge"), CreditSettings(method="judge", minmax="off")
    turns = two_rollouts()
    turns.score[:] = NAN
    # answers 1 and 0: mean 0.5, deviation 0.5
    assert judge.advantages(turns, judge.rewards(turns, off), off).tolist() == [0, 0, 1, 0, 0, -1]


def test_needs_are_read_without_importing(tmp_path, monkeypatch):
    (tmp_path / "borrowed.py").write_text("from tamtrl.credit.judge import NEEDS, advantages, rewards\n")
    (tmp_path / "silent.py").write_text("import this_does_not_exist\n")
    for name in ("base", "judge"):
        (tmp_path / f"{name}.py").write_text((REPOSITORY / "tamtrl" / "credit" / f"{name}.py").read_text())
    monkeypatch.setattr(credit, "__path__", [str(tmp_path)])
    assert credit.needs("borrowed") == ("judge",)
    with pytest.raises(UserError, match="has no line `NEEDS"):
        credit.needs("silent")
