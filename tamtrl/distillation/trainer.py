"""verl's SFT trainer with a distillation loss: the teacher's distributions on the student's tokens instead of the tokens alone.

The teacher is computed in the training job itself (the paper calls it online), one forward pass over the very packed tokens that
the student sees, or read from disk where it was computed before (teacher.py).
"""

import time
from typing import TYPE_CHECKING, Any

import torch
from verl.trainer.sft_trainer import SFTTrainer
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_device_id
from verl.utils.torch_functional import masked_sum

from tamtrl.distillation.loss import forward_kl, forward_kl_top_k, top_k
from tamtrl.jobs.time_limit import Clock, OutOfTimeError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class KnowledgeDistillation:
    """verl calls this twice for each micro-batch: with the student's logits, for a value a token, and then for the loss.

    ``teacher`` is a causal language model, or None where the data holds ``teacher_ids`` and ``teacher_log_probs``. ``k`` 0 takes
    the whole vocabulary. With ``response_logits`` the student's logits are those that predict a response, and the values are too.
    """

    def __init__(self, teacher: torch.nn.Module | None, temperature: float, k: int, response_logits: bool) -> None:
        self.teacher, self.temperature, self.k, self.response_logits = teacher, temperature, k, response_logits

    def __call__(
        self,
        model_output: Any = None,
        data: Any = None,
        dp_group: object = None,
        student_logits: torch.Tensor | None = None,
        **_: object,
    ) -> Any:
        mask = self._predicting(data)
        if student_logits is not None:
            student = student_logits.squeeze(0)
            losses = self._losses(student if self.response_logits else student[mask], data, mask)
            return {"distillation_losses": (losses if self.response_logits else self._spread(losses, mask)).unsqueeze(0)}
        losses = model_output["distillation_losses"].values()
        return masked_sum(losses, mask) / data["batch_num_tokens"] * data["dp_size"], {}

    @staticmethod
    def _predicting(data: Any) -> torch.Tensor:
        """True where the next token is one of a response: (tokens,). The last token of a row predicts the next row's first,
        which is a prompt's and never carries loss."""
        return torch.roll(data["loss_mask"].values(), shifts=-1, dims=0).bool()

    def _losses(self, student: torch.Tensor, data: Any, mask: torch.Tensor) -> torch.Tensor:
        """KL where a response token is predicted: (predicting,). ``student``: its logits there, (predicting, vocabulary)."""
        if self.teacher is None:
            stored = (data[name].values().view(-1, self.k) for name in ("teacher_ids", "teacher_log_probs"))
            ids, log_probs = (values[mask] for values in stored)
        else:
            with torch.no_grad():
                inputs = {"input_ids": data["input_ids"], "position_ids": data["position_ids"]}
                packed = {name: tensor.values().unsqueeze(0) for name, tensor in inputs.items()}
                kept = {"logits_to_keep": mask.nonzero().squeeze(-1)} if self.response_logits else {}
                teacher = self.teacher(**packed, **kept, attention_mask=None, use_cache=False).logits.squeeze(0)
                teacher = teacher if self.response_logits else teacher[mask]
            if not self.k:
                return forward_kl(teacher, student, self.temperature)
            ids, log_probs = top_k(teacher, self.k, self.temperature)
        return forward_kl_top_k(ids, log_probs, student, self.temperature)

    @staticmethod
    def _spread(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.zeros(mask.shape, dtype=values.dtype, device=values.device).masked_scatter(mask, values)


class DistillationTrainer(SFTTrainer):
    """Cross-entropy on the sampled tokens (``data.tamtrl.loss`` sft), or KL from the teacher (kd)."""

    def _build_engine(self) -> None:
        super()._build_engine()
        own = self.config.data.tamtrl
        if own.loss == "kd":
            teacher = load_teacher(own.teacher_path, get_device_id(), own.dtype, own.attention) if own.teacher_path else None
            loss = KnowledgeDistillation(teacher, own.kl_temperature, own.kl_top_k, own.response_logits)
            self.training_client.set_loss_fn(loss)
        train_batch = self.training_client.train_batch
        clock, stopping = Clock(), False

        def timed(data: Any) -> Any:
            nonlocal stopping
            if stopping:
                raise OutOfTimeError("no other step fits before the time limit; the last one is saved")
            if own.loss == "kd":
                # verl hands logits to the loss under this name; log-probabilities of the sampled tokens aren't needed.
                tu.assign_non_tensor(data, distillation_use_topk=True, distillation_only=True)
            started = time.perf_counter()
            output = train_batch(data=data)
            if output is not None:  # only some ranks have one
                tu.get(output, "metrics")["timing_s/step"] = time.perf_counter() - started
            if not first_rank_says(clock.another_step_fits(time.time())):
                # verl saves this step once it is logged, and before the next batch moves the place in the data that is saved too.
                stopping, self.save_freq = True, 1
            return output

        self.training_client.train_batch = timed

    def fit(self) -> None:
        if self.resume_global_step % self.steps_per_epoch == 0:
            # The place saved at the end of an epoch holds nothing for the next one, which verl would pass over.
            self.train_dataloader.next_iter_state = None
        super().fit()


def first_rank_says(value: bool) -> bool:
    """Clocks differ; all ranks must do the same."""
    told = [value]
    torch.distributed.broadcast_object_list(told, src=0)
    return told[0]


def load_teacher(path: str, device: str | int, dtype: str, attention: str) -> "PreTrainedModel":
    """The frozen teacher on a device."""
    from transformers import AutoModelForCausalLM

    options = {"dtype": getattr(torch, dtype), "attn_implementation": attention}
    return AutoModelForCausalLM.from_pretrained(path, **options).to(device).eval().requires_grad_(False)
