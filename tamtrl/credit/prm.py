"""PRM: a BERT classifier says how probably each memory update leads to a correct answer (tamtrl/turn_scores/prm.py); R = P * r.

The paper states no min-max for this method: its rows of runs.tsv say ``credit.minmax=off``.
"""

from tamtrl.credit.scored import advantages, rewards

__all__ = ["NEEDS", "advantages", "rewards"]
NEEDS = ("prm",)
