"""Forward KL from a teacher's next-token distributions to the student's. Pure functions of tensors."""

import torch
from torch import Tensor


def forward_kl(teacher_logits: Tensor, student_logits: Tensor, temperature: float = 1.0) -> Tensor:
    """KL(teacher || student) at ``temperature`` T for each row, times T^2 so that gradients keep their size (Hinton et al. 2015).

    Both (tokens, vocabulary); returns (tokens,), in nats, at least 0.
    """
    teacher = torch.log_softmax(teacher_logits.float() / temperature, dim=-1)
    student = torch.log_softmax(student_logits.float() / temperature, dim=-1)
    return temperature**2 * (teacher.exp() * (teacher - student)).sum(dim=-1)


def top_k(teacher_logits: Tensor, k: int, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """The ``k`` likeliest tokens of each row and their log-probabilities at ``temperature``: ids and values, (tokens, k)."""
    values, ids = torch.log_softmax(teacher_logits.float() / temperature, dim=-1).topk(k, dim=-1)
    return ids, values


def forward_kl_top_k(ids: Tensor, teacher_log_probs: Tensor, student_logits: Tensor, temperature: float = 1.0) -> Tensor:
    """:func:`forward_kl` over k + 1 outcomes: the teacher's k likeliest tokens, and "any other", with the rest of the mass on
    both sides. A lower bound of the full one, exact when the k tokens hold all of the teacher's mass.

    ``ids`` and ``teacher_log_probs`` (tokens, k) as :func:`top_k` gives them; ``student_logits`` (tokens, vocabulary).
    """
    student = torch.log_softmax(student_logits.float() / temperature, dim=-1).gather(-1, ids)
    listed = (teacher_log_probs.exp() * (teacher_log_probs - student)).sum(dim=-1)
    teacher_rest, student_rest = _rest(teacher_log_probs), _rest(student)
    return temperature**2 * (listed + teacher_rest * (teacher_rest.log() - student_rest.log()))


def _rest(log_probs: Tensor) -> Tensor:
    """The mass beside the listed tokens, no less than what rounding leaves of it, so that the logarithm stays finite."""
    return (1 - log_probs.exp().sum(dim=-1)).clamp_min(torch.finfo(torch.float32).eps)
