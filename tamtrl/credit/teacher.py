"""TAMTRL: the policy itself, shown only the chunk's relevant paragraphs, scores every memory update (Eq. 4-7)."""

from collections.abc import Sequence

import torch

from tamtrl.credit.base import Turns
from tamtrl.credit.normalise import group_ids, min_max, standardise
from tamtrl.credit.settings import CreditSettings

NEEDS = frozenset({"teacher"})


def score(log_probs: Sequence[torch.Tensor], settings: CreditSettings) -> torch.Tensor:
    """Eq. 4: p = 1/|M| sum_k pi(m_k | [q, C_t, M_t], m_<k), the mean of token *probabilities*.

    log_probs: for each row the teacher's log-probabilities (nats) of the sampled tokens, shape (tokens,), the
    end-of-turn token included. Returns (rows,). Without ``length_norm`` the sum is not divided by |M|. The other forms:
    mean_logprob, the mean of log-probabilities; geometric_mean, its exponential.
    """
    form = torch.exp if settings.score == "mean_prob" else (lambda x: x)
    sums = torch.stack([form(row.double()).sum() for row in log_probs])
    if settings.length_norm:
        sums = sums / torch.tensor([len(row) for row in log_probs], dtype=sums.dtype)
    return sums.exp() if settings.score == "geometric_mean" else sums


def rewards(turns: Turns, settings: CreditSettings) -> torch.Tensor:
    """Eq. 5 and 6: R = p_hat * r for memory turns (``sum``: p_hat + r), R = r for the answer turn. Returns (rows,)."""
    memory = ~turns.is_answer
    query, turn = turns.query[memory], turns.turn[memory]
    p = turns.score[memory]
    match settings.minmax:
        case "batch":
            p = min_max(p, torch.zeros_like(query))
        case "query":
            p = min_max(p, group_ids(query))
        case "query_turn":
            p = min_max(p, group_ids(query, turn))
    r = turns.outcome[memory].to(p)
    result = turns.outcome.to(p).clone()
    result[memory] = p * r if settings.combine == "product" else p + r
    return result


def advantages(turns: Turns, rewards: torch.Tensor, settings: CreditSettings) -> torch.Tensor:
    """Eq. 7: (R - mean) / std over all turns and rollouts of the query (``query_turn``: over the rollouts of the same
    query and turn). Returns (rows,)."""
    keys = [turns.query] if settings.advantage_set == "query" else [turns.query, turns.turn, turns.is_answer]
    return standardise(rewards, group_ids(*keys), settings.std)
