"""Attention over packed rows, one row at a time. transformers' sdpa takes a packed micro-batch as one sequence under a mask of
tokens x tokens, of which rows of equal length use one part in their number; flash-attention, on GPUs, does as this does."""

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from tamtrl.errors import UserError

NAME = "by_row"


def by_row(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    dropout: float = 0.0,
    scaling: float | None = None,
    position_ids: torch.Tensor | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """``query``: [1, heads, tokens, size]; ``key`` and ``value`` may have fewer heads; ``position_ids``: [1, tokens], each row
    counted on by 1. Returns [1, tokens, heads, size]. transformers makes no mask for it, so nothing may be padded."""
    if len(query) != 1 or position_ids is None or attention_mask is not None:
        raise UserError("attention_by_row is for packed rows; set it to false in training and distillation.")
    starts = (position_ids[0].diff() != 1).nonzero().flatten() + 1
    lengths = torch.tensor([0, *starts.tolist(), query.shape[2]]).diff().tolist()
    rows = zip(*(part.split(lengths, dim=2) for part in (query, key, value)), strict=True)
    options: dict[str, Any] = {"dropout_p": dropout, "scale": scaling, "enable_gqa": key.shape[1] != query.shape[1]}
    done = [scaled_dot_product_attention(q, k, v, is_causal=True, **options) for q, k, v in rows]
    return torch.cat(done, dim=2).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, by_row)
