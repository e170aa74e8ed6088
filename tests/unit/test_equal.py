"""Equal is equal: what is the same is scored once, and a difference within rounding is none."""

import asyncio
import random
from functools import cache, partial
from types import SimpleNamespace

import pytest
import torch
import yaml
from conftest import REPOSITORY
from omegaconf import OmegaConf

from tamtrl import credit, seeds
from tamtrl.credit import prm, rounding, teacher
from tamtrl.credit.base import Turns
from tamtrl.credit.normalise import min_max, span, standardise
from tamtrl.credit.rounding import LAST_BIT, LOG_ODDS
from tamtrl.credit.settings import CreditSettings

NAN = float("nan")
GROUPS, GROUP = 12, 8
BY_TURN = CreditSettings(method="teacher", advantage_set="query_turn")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def floats(*values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def one_turn(scores, outcomes, resolution, queries=None) -> Turns:
    """Trajectories of one memory turn and the answer, of query 0 unless said: memory turns first, then the answers."""
    count = len(scores)
    queries = torch.tensor(queries or [0] * count)
    both = partial(torch.cat, dim=0)
    return Turns(
        query=both([queries, queries]), rollout=torch.arange(count).repeat(2), turn=torch.tensor([0] * count + [1] * count),
        is_answer=torch.tensor([False] * count + [True] * count), outcome=floats(*outcomes).repeat(2),
        score=both([floats(*scores), floats(*[NAN] * count)]), resolution=both([floats(*resolution), floats(*[NAN] * count)]),
    )  # fmt: skip


# -- once --------------------------------------------------------------------------------------------------------------


def test_each_distinct_row_is_computed_once_in_order():
    asked = []

    def compute(rows):
        asked.extend(rows)
        return [f"{row}{place}" for place, row in enumerate(rows)]

    assert rounding.each_once(compute, list("baabcb"), list("baabcb")) == ["b0", "a1", "a1", "b0", "c2", "b0"]
    assert asked == list("bac")


# -- the resolution of a score -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "length_norm", "expected"),
    [
        # p = 0.5 and 0.75, log-odds off by 0.01: log-probabilities by 0.005 and 0.0025 (together 0.00559),
        # probabilities by 0.0025 and 0.001875 (together 0.003125)
        ("mean_prob", True, [0.0015625, 0.0025]),
        ("mean_prob", False, [0.003125, 0.0025]),
        ("mean_logprob", True, [0.00559 / 2, 0.005]),
        ("mean_logprob", False, [0.00559, 0.005]),
        ("geometric_mean", True, [0.375**0.5 * 0.00559 / 2, 0.0025]),
        ("geometric_mean", False, [0.375 * 0.00559, 0.0025]),
    ],
)
def test_how_far_a_score_may_be_off(form, length_norm, expected):
    rows = [torch.tensor([0.5, 0.75]).log(), torch.tensor([0.5]).log()]
    score = partial(teacher.score, settings=CreditSettings("teacher", score=form, length_norm=length_norm))
    # LAST_BIT adds 2e-6 a token
    with torch.no_grad():  # whatever the caller does
        assert rounding.resolution(score, rows, 0.01).tolist() == pytest.approx(expected, rel=2e-3)


def test_a_certain_token_is_off_by_its_last_bit():
    score = partial(teacher.score, settings=CreditSettings("teacher"))
    assert rounding.resolution(score, [torch.zeros(4)], 0.2).tolist() == pytest.approx([LAST_BIT / 2])  # sqrt(4) / 4
    # 0.5 * (0.2 * 0.5 + 2^-19)
    assert rounding.of_probability(floats(0.5, 1), 0.2).tolist() == pytest.approx([0.05 + 2**-20, LAST_BIT])


# -- Eq. 5 and 7 within it ---------------------------------------------------------------------------------------------


def test_a_range_within_the_resolution_is_none():
    values, groups = floats(0.25, 0.5, 0.25, 0.75), torch.tensor([0, 0, 1, 1])
    off = floats(0.25, 0, 0.25, 0)  # the largest of a group counts: ranges of 0.25 and 0.5 against 0.25
    assert span(values, groups, off).tolist() == [0, 0, 0.5, 0.5]
    assert min_max(values, groups, off).tolist() == [1, 1, 0, 1]
    assert standardise(values, groups, True, off).tolist() == [0, 0, -1, 1]
    assert standardise(values, groups, False, off).tolist() == [0, 0, -0.25, 0.25]


def test_min_max_stretches_the_resolution_with_the_scores():
    # Batch: 0.25 to 0.75, so 0.03 of a score is 0.06 of a reward. Query 0: scores 0.02 apart, rewards 0.04: equal. Query 1: 0.5.
    turns = one_turn([0.50, 0.52, 0.25, 0.75], [1, 1, 1, 1], [0.03] * 4, [0, 0, 1, 1])
    rewards = teacher.rewards(turns, BY_TURN)
    assert rewards.tolist() == pytest.approx([0.5, 0.54, 0, 1, 1, 1, 1, 1])
    assert teacher.advantages(turns, rewards, BY_TURN).tolist() == pytest.approx([0, 0, -1, 1, 0, 0, 0, 0])
    # With the answers, whose reward is 1, they do differ: (0.5, 0.54, 1, 1), mean 0.76, and not from each other by much
    pooled = teacher.advantages(turns, rewards, CreditSettings("teacher"))
    deviation = ((0.26**2 + 0.22**2 + 2 * 0.24**2) / 4) ** 0.5
    assert pooled[[0, 1, 4, 5]].tolist() == pytest.approx([-0.26 / deviation, -0.22 / deviation] + 2 * [0.24 / deviation])


def test_without_min_max_the_resolution_is_the_scores_own():
    off = CreditSettings("prm", minmax="off", advantage_set="query_turn")
    for apart, expected in ((0.02, 0.0), (0.04, 1.0)):
        turns = one_turn([0.5, 0.5 + apart], [1, 1], [0.03, 0.03])
        assert prm.advantages(turns, prm.rewards(turns, off), off)[1].item() == pytest.approx(expected)


def test_outcomes_are_exact_whatever_the_resolution():
    # p_hat 1 and 1 (the scores are equal), outcomes 1 and 0
    turns = one_turn([0.5, 0.5], [1, 0], [0.9, 0.9])
    assert teacher.advantages(turns, teacher.rewards(turns, BY_TURN), BY_TURN).tolist() == [1, -1, 1, -1]
    # Two failures: products with 0, equal though their scores are far apart
    turns = one_turn([0.1, 0.9], [0, 0], [0.01, 0.01])
    assert teacher.advantages(turns, teacher.rewards(turns, BY_TURN), BY_TURN).tolist() == [0, 0, 0, 0]


def test_above_the_resolution_not_a_bit_changes():
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(12, generator=generator).tolist()
    exact, off = (one_turn(scores, [1, 0, 1] * 4, [by] * 12, [0, 0, 1] * 4) for by in (0.0, 1e-4))
    for minmax in ("batch", "query", "query_turn", "off"):
        settings = CreditSettings("teacher", minmax=minmax)
        one, other = (teacher.advantages(turns, teacher.rewards(turns, settings), settings) for turns in (exact, off))
        assert torch.equal(one, other)


# -- a model, micro-batches --------------------------------------------------------------------------------------------


@cache
def toy_rows() -> tuple:
    """Prompt and memory update of GROUPS turns, as a careless reader writes them."""
    from transformers import AutoTokenizer

    from tamtrl.models.course import teacher_forced_turns
    from tamtrl.reading.prompts import Prompts
    from tamtrl.reading.reader import Reader
    from tamtrl.settings import Reading
    from tamtrl.stored import build
    from tamtrl.tasks import toy

    values = yaml.safe_load((REPOSITORY / "config/config.yaml").read_text(encoding="utf-8"))["reading"]
    values |= yaml.safe_load((REPOSITORY / "config/toy.yaml").read_text(encoding="utf-8"))["reading"]
    reader = Reader(Prompts(AutoTokenizer.from_pretrained(REPOSITORY / "models/toy"), "brief"), build(Reading, values, "reading"))
    rng = seeds.generator(0, "careless reader")
    turns = [row for one in toy.generate("train", 20, 6, seed=0) for row in teacher_forced_turns(one, reader, rng, 0.5)[:-1]]
    distinct = list({(tuple(prompt), tuple(response)): None for prompt, response in turns})[:GROUPS]
    return tuple((list(prompt), torch.tensor(response)) for prompt, response in distinct)


@cache
def toy_model(precision: str):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(REPOSITORY / "models/toy", dtype=DTYPES[precision]).eval()


def forward(model, rows, order) -> list[torch.Tensor]:
    """Log-probabilities of the responses: rows in this order, micro-batches of one to seven, packed as verl does."""
    out, order, size = [None] * len(rows), list(order), 0
    while order:
        size = size % 7 + 1
        batch, order = order[:size], order[size:]
        lengths = [(len(rows[row][0]), len(rows[row][1])) for row in batch]
        ids = torch.cat([torch.cat([torch.tensor(rows[row][0]), rows[row][1]]) for row in batch])
        positions = torch.cat([torch.arange(sum(length)) for length in lengths])
        with torch.no_grad():
            logits = model(input_ids=ids[None], position_ids=positions[None], use_cache=False).logits[0, :-1].float()
        found, end = logits.log_softmax(-1).gather(1, ids[1:, None])[:, 0], 0
        for row, (prompt, response) in zip(batch, lengths, strict=True):
            end += prompt + response
            out[row] = found[end - 1 - response : end - 1]
    return out


def scattered(precision: str, rows, seed: int = 0) -> list[torch.Tensor]:
    return forward(toy_model(precision), rows, random.Random(seed).sample(range(len(rows)), len(rows)))


def turns_of(rows, turn: int = 0) -> Turns:
    """Every GROUP rows are the rollouts of a query, all correct; answers follow."""
    count = len(rows)
    query, rollout = torch.arange(count // GROUP).repeat_interleave(GROUP), torch.arange(GROUP).repeat(count // GROUP)
    return Turns(query.repeat(2), rollout.repeat(2), torch.tensor([0] * count + [1] * count),
                 torch.tensor([False] * count + [True] * count), torch.ones(2 * count, dtype=torch.float64))  # fmt: skip


def trainer_of(precision: str, compute) -> SimpleNamespace:
    """What of the trainer its teacher pass reads, with ``compute`` in the place of verl's workers."""
    engine = {"fsdp_config": {"mixed_precision": {"param_dtype": precision}}}
    actors = {"actor": engine, "ref": {"fsdp_config": {}}, "rollout": {"temperature": 1.0}}
    config = OmegaConf.create({"actor_rollout_ref": actors})
    return SimpleNamespace(config=config, credit=credit.load("teacher"), credit_settings=BY_TURN, _teacher_log_probs=compute)


@pytest.mark.parametrize("precision", DTYPES)
def test_identical_memories_scattered_over_micro_batches(precision):
    from tamtrl.training.trainer import TurnCreditTrainer

    rows = [row for row in toy_rows() for _ in range(GROUP)]
    turns = turns_of(rows)
    extras = [{"teacher_prompt_ids": prompt} for prompt, _ in rows] + [{}] * len(rows)
    responses = [response for _, response in rows] * 2

    def advantages(turns: Turns) -> torch.Tensor:
        groups = teacher.advantages(turns, teacher.rewards(turns, BY_TURN), BY_TURN)[: len(rows)].reshape(GROUPS, GROUP)
        return groups.abs().amax(1)

    # every row passed by itself, as before: rounding alone makes advantages
    raw = scattered(precision, rows)
    score = partial(teacher.score, settings=BY_TURN)
    missing = floats(*[NAN] * len(rows))
    noisy = advantages(Turns(**vars(turns) | {"score": torch.cat([score(raw), missing])}))
    assert noisy.max() >= 1
    # Scored once: one score a group, and no advantage. Two orders of the micro-batches.
    for seed in (0, 1):
        passed, metrics = [], {}

        def compute(some, seed=seed, passed=passed):
            passed.extend(some)
            return scattered(precision, some, seed)

        scored = TurnCreditTrainer._with_teacher_scores(
            trainer_of(precision, compute), turns, list(range(2 * len(rows))), responses, extras, metrics
        )
        assert len(passed) == GROUPS and metrics == {"tamtrl/scores_known": GROUPS * (GROUP - 1)}
        assert (scored.score[: len(rows)].reshape(GROUPS, GROUP).diff() == 0).all() and scored.score[len(rows) :].isnan().all()
        assert advantages(scored).tolist() == [0.0] * GROUPS
    # And if they were different texts with so little between them, that would be none: the resolution covers what was found.
    off = torch.cat([rounding.resolution(score, raw, LOG_ODDS[precision]), missing])
    assert advantages(Turns(**vars(turns) | {"score": torch.cat([score(raw), missing]), "resolution": off})).max() == 0


@pytest.mark.parametrize("precision", DTYPES)
def test_different_memories_keep_their_advantages(precision):
    """Distinct texts as groups: their differences are far above rounding, and not a bit of them changes."""
    rows = list(toy_rows())[: GROUPS - GROUPS % GROUP]
    turns, score = turns_of(rows), partial(teacher.score, settings=BY_TURN)
    found, missing = scattered(precision, rows), floats(*[NAN] * len(rows))
    plain = Turns(**vars(turns) | {"score": torch.cat([score(found), missing])})
    off = torch.cat([rounding.resolution(score, found, LOG_ODDS[precision]), missing])
    resolved = Turns(**vars(plain) | {"resolution": off})
    one, other = (teacher.advantages(t, teacher.rewards(t, BY_TURN), BY_TURN) for t in (plain, resolved))
    assert torch.equal(one, other) and one[: len(rows)].abs().max() > 1


# -- judge and process reward model --------------------------------------------------------------------------------------


def test_verl_starts_all_rollouts_of_a_question_in_one_process(monkeypatch):
    """Else the client's memory of what it asked would not make identical turns equal (tamtrl/turn_scores/client.py)."""
    from verl.trainer.ppo.v1 import agent_loop_tq

    async def put(**_):
        pass

    monkeypatch.setattr(agent_loop_tq.tq, "async_kv_put", put)
    sessions = []

    class Worker:
        config = OmegaConf.create({"actor_rollout_ref": {"rollout": {"n": 8}}})

        async def _run_agent_loop(self, sampling_params, *, session_id, uid, **_):
            sessions.append((uid, session_id))

    run_prompt = agent_loop_tq.AgentLoopWorkerTQ.__ray_metadata__.modified_class._run_prompt
    asyncio.run(run_prompt(Worker(), {"uid": "3-0"}, {}, trajectory={"validate": False}))
    assert sessions == [("3-0", rollout) for rollout in range(8)]


def test_scores_that_are_no_smooth_function_are_exact_and_products_stay_apart():
    rows = [torch.zeros(3), torch.full((50,), 0.5).log()]
    steps = lambda log_probs: torch.stack([(row > -0.5).double().mean() for row in log_probs])  # noqa: E731
    roots = lambda log_probs: torch.stack([1 - (-row).mean().sqrt() for row in log_probs])  # noqa: E731
    assert rounding.resolution(steps, rows, 0.4).tolist() == [0, 0]
    assert rounding.resolution(roots, rows, 0.4)[0] == 0  # its slope is infinite
    product = lambda log_probs: torch.stack([row.sum().exp() for row in log_probs])  # noqa: E731
    many = [torch.full((100,), p).log().double() for p in (0.7, 0.6)]
    score = product(many)
    assert score[0] - score[1] > rounding.resolution(product, many, 0.4).max()
