"""LLM-judge: a larger model grades every memory update from 0 to 1 (tamtrl/turn_scores/judge.py); R = grade * r.

The paper states no min-max for this method: its rows of runs.tsv say ``credit.minmax=off``.
"""

from tamtrl.credit.scored import advantages, rewards

__all__ = ["NEEDS", "advantages", "rewards"]
NEEDS = ("judge",)
