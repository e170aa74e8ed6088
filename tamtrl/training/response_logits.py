"""verl's FSDP engine with logits of responses only.

Stock verl makes the logits of every token of a packed micro-batch: 151,936 numbers each, of which a row of 5,000 prompt tokens
and 500 of response uses one in eleven. Here the model is told which positions predict a response's tokens
(``logits_to_keep``), and what verl makes of their logits is put in its place among zeros. Losses and gradients are the same to
rounding: a prompt's tokens carry no loss. Loaded through verl's ``model.external_lib`` where ``response_logits`` is set.
"""

import inspect
from typing import Any

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_vendor
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from tamtrl.errors import UserError


def predicting(rows: TensorDict) -> torch.Tensor:
    """Places in the packed micro-batch whose next token belongs to a response: (kept,), ascending.

    ``rows`` holds jagged ``input_ids`` and either ``responses`` (their last tokens) or a ``loss_mask`` as long as the ids.
    """
    ends = rows["input_ids"].offsets()[1:]
    if "responses" in rows:
        lengths = rows["responses"].offsets().diff()
        return torch.cat([torch.arange(e - n - 1, e - 1) for e, n in zip(ends.tolist(), lengths.tolist(), strict=True)]).to(ends)
    return torch.roll(rows["loss_mask"].values(), shifts=-1, dims=0).nonzero().squeeze(-1)


class ResponseLogitsEngine(FSDPEngineWithLMHead):
    def prepare_model_inputs(self, micro_batch: TensorDict) -> tuple[dict, dict]:
        inputs, output_args = super().prepare_model_inputs(micro_batch)
        packed = tu.get_non_tensor_data(data=micro_batch, key="use_remove_padding", default=True)
        fused = tu.get_non_tensor_data(data=micro_batch, key="use_fused_kernels", default=False)
        if not packed or fused or self.use_ulysses_sp:
            raise UserError(
                "response_logits needs packed rows (use_remove_padding) without fused kernels and sequence parallelism; "
                "set training.response_logits and distillation.response_logits to false."
            )
        kept = predicting(micro_batch)
        inputs["logits_to_keep"] = kept
        for name in ("input_ids_rmpad_rolled", "temperature_rmpad"):
            output_args[name] = output_args[name][kept]
        self._kept, self._tokens = kept, int(micro_batch["input_ids"].offsets()[-1])
        return inputs, output_args

    def _gather_and_unpad_packed(self, tensor: torch.Tensor, pad_size: int) -> torch.Tensor:
        """verl gives every value of a token to this before it cuts rows; (kept,) becomes (tokens,)."""
        return tensor.new_zeros(self._tokens, *tensor.shape[1:]).index_copy(0, self._kept, tensor)

    def _build_module(self) -> Any:
        module = super()._build_module()
        if "logits_to_keep" not in inspect.signature(module.forward).parameters:
            raise UserError(
                f"{type(module).__name__} can't make the logits of some tokens only (no logits_to_keep); "
                "set training.response_logits and distillation.response_logits to false."
            )
        return module


# verl looks for a vendor's own engine before the common one. "cuda": under this name on a CPU too (tamtrl/cpu).
EngineRegistry.register(model_type="language_model", backend="fsdp2", device="cuda", vendor=get_vendor())(ResponseLogitsEngine)
