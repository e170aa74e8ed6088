"""Log-probabilities of given tokens. Without flash-attention verl takes them one token at a time, to spare the memory that a
large vocabulary costs; that was over a third of a toy step."""

import torch

AT_A_TIME = 1 << 20  # logits; 4 MB: as quick as all at once


def of_labels(logits: torch.Tensor, labels: torch.Tensor, at_a_time: int = AT_A_TIME) -> torch.Tensor:
    """``logits``: [..., vocabulary], ``labels``: [...], both of any shape in front; returns nats, as ``labels``, in float32
    at least, as flash-attention does. log softmax(x)_i is x_i - logsumexp(x)."""
    precision = torch.promote_types(logits.dtype, torch.float32)
    rows = logits.flatten(0, -2).split(max(1, at_a_time // logits.shape[-1]))
    total = torch.cat([torch.logsumexp(part.to(precision), dim=-1) for part in rows]).view(labels.shape)
    return torch.gather(logits, -1, labels.unsqueeze(-1)).squeeze(-1).to(precision) - total
