"""TAMTRL: the policy itself, shown only the chunk's relevant paragraphs, scores every memory update (Eq. 4). Eq. 5 to 7, which
make rewards and advantages of the scores, are in scored.py."""

from collections.abc import Sequence

import torch

from tamtrl.credit.scored import advantages, rewards
from tamtrl.credit.settings import CreditSettings

__all__ = ["NEEDS", "advantages", "rewards", "score"]
NEEDS = ("teacher",)


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
