"""verl's synchronous PPO trainer with turn-level credit: the teacher pass, the advantages, and a fixed number of
optimizer steps a rollout batch."""

import time
from dataclasses import replace
from functools import partial
from typing import Any

import ray
import torch
import transfer_queue as tq
from omegaconf import DictConfig, OmegaConf
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.debug import marked_timer
from verl.utils.metric import reduce_metrics
from verl.utils.py_functional import rename_dict
from verl.utils.tensordict_utils import assign_non_tensor_stack, list_of_dict_to_tensordict
from verl.workers.utils.padding import response_from_nested

from tamtrl import credit
from tamtrl.credit import rounding
from tamtrl.credit.base import Turns
from tamtrl.credit.settings import CreditSettings
from tamtrl.errors import UserError
from tamtrl.jobs.time_limit import Clock, OutOfTimeError
from tamtrl.stored import build
from tamtrl.training import balance
from tamtrl.training.metrics import scoring_metrics, turn_metrics

TEACHER_PARTITION = "teacher"
POLL_SECONDS = 0.1  # between looks for finished rollouts, each of 1 ms; verl's own 2 s would cost one of every step


class TurnCreditTrainer(PPOTrainerSync):
    def __init__(self, config: DictConfig) -> None:
        settings: Any = OmegaConf.to_container(config.tamtrl)
        self.credit_settings = build(CreditSettings, settings["credit"], "credit")
        self.credit = credit.load(self.credit_settings.method)
        self.optimizer_steps = settings["optimizer_steps"]
        correction = config.algorithm.rollout_correction
        if correction and (correction.rollout_is or correction.rollout_rs or correction.bypass_mode):
            raise UserError(
                "algorithm.rollout_correction is set, which this trainer's advantages don't honour: leave its rollout_is and "
                "rollout_rs null and its bypass_mode false."
            )
        super().__init__(config)
        self.clock = Clock()
        self.step_metrics: dict = {}
        self.replay_buffer.poll_interval = POLL_SECONDS

    def _load_checkpoint(self) -> None:
        """verl validates whenever it starts. A run that is resumed needs that only where its last attempt may have ended between
        the checkpoint and the validation of the same step."""
        super()._load_checkpoint()
        every, last = self.config.trainer.test_freq, self.total_training_steps
        self.config.trainer.val_before_train = self.global_steps % every == 0 or self.global_steps == last

    def on_step_begin(self) -> None:
        self.step_metrics = {}
        if not self.clock.another_step_fits(time.time()):
            self.global_steps -= 1  # the step that is done
            if self.global_steps % self.config.trainer.save_freq:
                self._save_checkpoint()
            raise OutOfTimeError(f"no other step fits before the time limit; step {self.global_steps} is saved")
        self.step_begun = time.time()
        super().on_step_begin()

    def step(self, metrics: dict, timing_raw: dict) -> KVBatchMeta:
        self.step_metrics = metrics
        return super().step(metrics, timing_raw)

    def _save_checkpoint(self) -> None:
        """verl logs a step after its checkpoint, so a job killed between the two would never tell of it. What is known by now is
        logged before; the record that follows completes it."""
        if self.step_metrics:
            taken = self.timing_raw | {"step": time.time() - self.step_begun}
            timing = {f"timing_s/{name}": seconds for name, seconds in taken.items()}
            self.logger.log(data=timing | self.step_metrics, step=self.global_steps)
        super()._save_checkpoint()

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _next_train_batch(self, num_prompts: int | None = None) -> TensorDict:
        """verl names questions at random. Here by step and place, so that rows can be put in order."""
        batch = super()._next_train_batch(num_prompts)
        assign_non_tensor_stack(batch, "uid", [f"{self.global_steps}-{place}" for place in range(len(batch))])
        return batch

    def _balance_batch(self, batch: KVBatchMeta, metrics: dict, **options: Any) -> KVBatchMeta:
        """Rows come in the order in which rollouts ended. Which of them make an optimizer step must not depend on that, nor on
        how verl deals them to ranks; verl pads the batch here."""
        self._in_order(batch)
        batch = super()._balance_batch(batch, metrics, **options)
        self._in_order(batch)
        tokens = [tag["seq_len"] for tag in batch.tags]
        ranks = balance.by_rank(tokens, self.optimizer_steps, self._ranks())
        metrics["tamtrl/imbalance"] = balance.imbalance(tokens, ranks, self.optimizer_steps)
        batch.reorder([row for rank in ranks for row in rank])
        return batch

    @staticmethod
    def _in_order(batch: KVBatchMeta) -> None:
        batch.reorder(sorted(range(len(batch)), key=lambda row: balance.place(batch.keys[row])))

    def _ranks(self) -> int:
        return max(self.actor_rollout_wg._dispatch_info["actor"]) + 1

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        """Rows are padded so that they divide evenly into the optimizer steps. Stock verl pads to its mini-batch size,
        and the number of optimizer steps grows with the number of turns."""
        return dp_size * self.optimizer_steps

    def _update_actor(self, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        actor = self.config.actor_rollout_ref.actor
        mini_batch = len(batch) // self.optimizer_steps
        batch.extra_info.update(
            calculate_entropy=actor.calculate_entropy,
            distillation_use_topk=False,
            distillation_only=False,
            global_batch_size=mini_batch,
            mini_batch_size=mini_batch,
            epochs=actor.ppo_epochs,
            seed=actor.data_loader_seed,
            dataloader_kwargs={"shuffle": actor.shuffle},
            temperature=self.config.actor_rollout_ref.rollout.temperature,
        )
        output = rename_dict(self.actor_rollout_wg.update_actor(batch)["metrics"], "actor/")
        output["perf/mfu/actor"] = output.pop("actor/mfu")
        metrics.update(reduce_metrics(output))
        return batch

    # -- credit --------------------------------------------------------------------------------------------------------

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        fields = ["responses", "response_mask", "extra_fields", "rm_scores"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
        responses, masks = list(data["responses"].unbind()), list(data["response_mask"].unbind())
        extras = [getattr(item, "data", item) for item in list(data["extra_fields"])]
        real = [row for row, tag in enumerate(batch.tags) if not tag.get("is_padding")]

        turns = self._turns(batch, real, extras, data["rm_scores"])
        # verl drops a trajectory whose agent loop raised and goes on with fewer rows; a short batch is not the method.
        asked = self.config.data.train_batch_size * self.config.actor_rollout_ref.rollout.n
        if (missing := asked - int(turns.is_answer.sum())) > 0:
            raise RuntimeError(f"{missing} of {asked} rollouts failed; 'Error in _run_prompt' in the log says why.")
        if "teacher" in self.credit.NEEDS:
            with marked_timer("teacher", self.timing_raw):
                turns = self._with_teacher_scores(turns, real, responses, extras, metrics)
        if self.config.tamtrl.scorer:
            scored = [extras[row]["scored"] for row in real]
            score = torch.tensor([_score(one) for one in scored], dtype=torch.float64)
            # A judge's grades are whole tenths; a process reward model is served in float32.
            is_prm = self.config.tamtrl.scorer.kind == "prm"
            off = rounding.of_probability(score, rounding.LOG_ODDS["fp32"]) if is_prm else None
            turns = replace(turns, score=score, resolution=off)
            metrics.update(scoring_metrics(scored, [extras[row]["read_at"] for row in real], self.timing_raw))
            self._require_scores([one for one in scored if one])
        rewards = self.credit.rewards(turns, self.credit_settings)
        advantages = self.credit.advantages(turns, rewards, self.credit_settings)
        if not torch.isfinite(advantages).all():
            raise RuntimeError(f"Credit method {self.credit_settings.method} gave an advantage that is not finite.")

        # Padding rows keep zeros: they must not move the policy.
        row_advantages, row_rewards = torch.zeros(len(batch)), torch.zeros(len(batch))
        row_advantages[real], row_rewards[real] = advantages.float(), rewards.nan_to_num(0.0).float()
        token_advantages = _nested([a * mask.float() for a, mask in zip(row_advantages, masks, strict=True)])
        token_rewards = _nested([_on_last(r, mask) for r, mask in zip(row_rewards, masks, strict=True)])
        values = {"advantages": token_advantages, "returns": token_advantages, "rm_scores": token_rewards}
        batch = tq.kv_batch_put(
            keys=batch.keys, partition_id=batch.partition_id, fields=TensorDict(values, batch_size=len(batch))
        )
        lengths = torch.tensor([len(responses[row]) for row in real])
        metrics.update(turn_metrics(turns, rewards, lengths, torch.tensor([extras[row]["relevant"] for row in real])))
        # Before the next step's questions, and after this one's last.
        metrics["tamtrl/question_engines"] = ray.get(self.llm_server_manager.global_load_balancer.pairs.remote(self.global_steps))
        metrics["tamtrl/padding_rows"] = len(batch) - len(real)
        metrics["tamtrl/truncated_rows"] = sum(extras[row]["dropped_tokens"] > 0 for row in real)
        return batch

    def _turns(self, batch: KVBatchMeta, real: list[int], extras: list[dict], scores: torch.Tensor) -> Turns:
        """Keys are ``{step}-{question}_{rollout}_{turn}``."""
        parts = [batch.keys[row].rsplit("_", 2) for row in real]
        questions = {uid: number for number, uid in enumerate(dict.fromkeys(uid for uid, _, _ in parts))}
        row_scores = list(scores.unbind())
        return Turns(
            query=torch.tensor([questions[uid] for uid, _, _ in parts]),
            rollout=torch.tensor([int(rollout) for _, rollout, _ in parts]),
            turn=torch.tensor([extras[row]["turn"] for row in real]),
            is_answer=torch.tensor([extras[row]["is_answer"] for row in real]),
            outcome=torch.stack([row_scores[row].sum() for row in real]).double(),
        )

    def _with_teacher_scores(self, turns: Turns, real: list[int], responses: list, extras: list[dict], metrics: dict) -> Turns:
        """Turns with equal teacher's prompt and equal response are one text: it is scored once."""
        memory = [i for i in range(len(real)) if not turns.is_answer[i]]
        rows = [(extras[real[i]]["teacher_prompt_ids"], responses[real[i]]) for i in memory]
        keys = [(tuple(prompt), tuple(response.tolist())) for prompt, response in rows]
        metrics["tamtrl/scores_known"] = len(rows) - len(set(keys))
        log_probs = rounding.each_once(self._teacher_log_probs, rows, keys)
        actors = self.config.actor_rollout_ref
        engine = (actors.ref if self.credit_settings.teacher == "reference" else actors.actor).fsdp_config
        # Logits are divided by the temperature, and so is what they are off by.
        log_odds = rounding.LOG_ODDS[engine.mixed_precision.param_dtype] / actors.rollout.temperature

        score_of = partial(self.credit.score, settings=self.credit_settings)
        score, off = (torch.full((len(real),), float("nan"), dtype=torch.float64) for _ in range(2))
        score[memory], off[memory] = score_of(log_probs), rounding.resolution(score_of, log_probs, log_odds)
        return replace(turns, score=score, resolution=off)

    def _require_scores(self, scored: list[dict]) -> None:
        """A few turns may stay without a score; with many, training would be another method under this one's name."""
        errors = [one["error"] for one in scored if one["score"] is None]
        settings = self.config.tamtrl.scorer
        if len(errors) > settings.failures_allowed * len(scored):
            raise RuntimeError(
                f"The {settings.kind} gave no score for {len(errors)} of {len(scored)} turns, more than failures_allowed "
                f"({settings.failures_allowed:g}); the last time: {errors[-1]}"
            )

    def _teacher_log_probs(self, rows: list[tuple[list[int], torch.Tensor]]) -> list[torch.Tensor]:
        """Log-probabilities of each response after the teacher's prompt: one forward pass, in a partition of its own."""
        padding = -len(rows) % self._ranks()
        padded = rows + rows[:1] * padding
        keys = [f"teacher_{number}" for number in range(len(padded))]
        fields = [_row(torch.tensor(prompt), response) for prompt, response in padded]
        tags = [{"seq_len": len(field["input_ids"])} for field in fields]
        tq.kv_batch_put(keys=keys, partition_id=TEACHER_PARTITION, fields=list_of_dict_to_tensordict(fields), tags=tags)
        temperature = self.config.actor_rollout_ref.rollout.temperature
        extra = {"calculate_entropy": False, "compute_loss": False, "temperature": temperature}
        meta = KVBatchMeta(partition_id=TEACHER_PARTITION, keys=keys, tags=tags, extra_info=extra)
        try:
            if self.credit_settings.teacher == "reference":
                self.ref_policy_wg.compute_ref_log_prob(meta)
            else:
                self.actor_rollout_wg.compute_log_prob(meta)
            data = tq.kv_batch_get(keys=keys, partition_id=TEACHER_PARTITION, select_fields=["log_probs", "response_mask"])
        finally:
            tq.kv_clear(keys=keys, partition_id=TEACHER_PARTITION)
        return list(response_from_nested(data["log_probs"], data["response_mask"]).unbind())[: len(rows)]


def _row(prompt: torch.Tensor, response: torch.Tensor) -> dict[str, torch.Tensor]:
    """The fields verl's log-probability pass reads."""
    ids, mask = torch.cat([prompt, response]), torch.ones_like(response)
    positions = torch.arange(len(ids))
    return {
        "prompts": prompt,
        "responses": response,
        "input_ids": ids,
        "position_ids": positions,
        "response_mask": mask,
        "loss_mask": mask,
    }


def _score(scored: dict | None) -> float:
    """NaN on answer turns, and where there is no score."""
    return float("nan") if scored is None or scored["score"] is None else scored["score"]


def _nested(rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def _on_last(value: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """A row's reward on its last token, zeros before."""
    out = torch.zeros(len(mask))
    out[-1] = value
    return out
