"""The switches of credit assignment; free of torch, so that the workflow can check a configuration quickly."""

from dataclasses import dataclass

from tamtrl.errors import UserError

CHOICES = {
    "score": ("mean_prob", "mean_logprob", "geometric_mean"),
    "minmax": ("batch", "query", "query_turn", "off"),
    "combine": ("product", "sum"),
    "view": ("chunk", "global"),
    "advantage_set": ("query", "query_turn"),
    "teacher": ("policy", "reference"),
}


@dataclass(frozen=True)
class CreditSettings:
    """The switches of the paper's section on reward and of its ablations; ``method`` is a module of this package."""

    method: str
    score: str = "mean_prob"  # form of Eq. 4
    length_norm: bool = True  # the 1/|M| of Eq. 4
    minmax: str = "batch"  # the set P of Eq. 5
    combine: str = "product"  # Eq. 6
    view: str = "chunk"  # what of the relevant text the teacher sees
    advantage_set: str = "query"  # the set of Eq. 7
    std: bool = True  # the division of Eq. 7
    teacher: str = "policy"  # whose weights score: the current policy's or the frozen reference's

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise UserError(f"credit.{name} is {value!r}; it must be one of {', '.join(allowed)}.")
