"""Metrics of a rollout batch by turn, and which of verl's become columns of metrics.csv."""

from collections.abc import Iterable, Sequence

import torch

from tamtrl.credit.base import Turns

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

# Columns of metrics.csv: our name, verl's name. What is absent at a step stays empty; per-turn columns follow.
COLUMNS = {
    "outcome": "tamtrl/outcome",
    "reward": "tamtrl/reward",
    "validation_outcome": "tamtrl/validation_outcome",
    "response_length": "tamtrl/response_length",
    "kl": "actor/kl_loss",
    "entropy": "actor/entropy",
    "grad_norm": "actor/grad_norm",
    "clip_fraction": "actor/pg_clipfrac",
    "lr": "actor/lr",
    "log_prob_difference": "training/rollout_probs_diff_max",  # of probabilities, in spite of the name
    "log_prob_difference_mean": "training/rollout_probs_diff_mean",
    "rows": "tamtrl/rows",
    "padding_rows": "tamtrl/padding_rows",
    "truncated_rows": "tamtrl/truncated_rows",
    "question_engines": "tamtrl/question_engines",  # pairs of the two: as many as questions if groups stay together
    "imbalance": "tamtrl/imbalance",  # share by which the slowest ranks make the update longer, by verl's estimate of work
}
PREFIXES = ("tamtrl/reward_turn_", "tamtrl/length_turn_", "tamtrl/score", "timing_s/")


def turn_metrics(turns: Turns, rewards: torch.Tensor, lengths: torch.Tensor, relevant: torch.Tensor) -> dict:
    """Means over a batch, overall and by turn; rewards of memory turns also by whether the chunk held relevant text
    (``relevant``, bool). Lengths in tokens; the answer turn is called ``answer``."""
    final = turns.is_answer
    out = {
        "tamtrl/rows": len(lengths),
        "tamtrl/outcome": turns.outcome[final].mean().item(),
        "tamtrl/reward": rewards.nanmean().item(),
        "tamtrl/response_length": lengths.float().mean().item(),
    }
    groups = {str(t): (turns.turn == t) & ~final for t in sorted(set(turns.turn[~final].tolist()))} | {"answer": final}
    for name, rows in groups.items():
        out[f"tamtrl/reward_turn_{name}"] = rewards[rows].nanmean().item()
        out[f"tamtrl/length_turn_{name}"] = lengths[rows].float().mean().item()
        for kind, chosen in {"relevant": rows & ~final & relevant, "other": rows & ~final & ~relevant}.items():
            if chosen.any():
                out[f"tamtrl/reward_turn_{name}_{kind}"] = rewards[chosen].nanmean().item()
    scores = turns.score[~turns.score.isnan()] if turns.score is not None else torch.empty(0)
    if len(scores):
        for quantile in QUANTILES:
            out[f"tamtrl/score_q{int(100 * quantile):02d}"] = scores.quantile(quantile).item()
        out["tamtrl/score_min"], out["tamtrl/score_max"] = scores.min().item(), scores.max().item()
    return out


def scoring_metrics(scored: Sequence[dict | None], read_at: Sequence[float], timing: dict[str, float]) -> dict:
    """What a judge or process reward model did in a step: how many of its answers were known before, asked for twice, or never
    came. ``scored``: each row's `Scored` as a mapping, None on answer turns; ``read_at``: when its trajectory was read.

    Seconds go to ``timing``: ``scoring``, in which some turn waited for its score, and of these ``scoring_tail``, after the last
    trajectory was read. Only the tail is sure to make a step longer; the rest does so as far as the two share a machine.
    """
    turns = [one for one in scored if one]
    timing["scoring"] = covered([(one["begin"], one["end"]) for one in turns])
    timing["scoring_tail"] = max(0.0, max(one["end"] for one in turns) - max(read_at))
    return {
        "tamtrl/scores_known": sum(one["requests"] == 0 for one in turns),
        "tamtrl/scores_asked_twice": sum(one["requests"] > 1 for one in turns),
        "tamtrl/scores_missing": sum(one["score"] is None for one in turns),
    }


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """The length of the union of intervals."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total
