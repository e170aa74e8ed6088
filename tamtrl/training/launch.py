"""From run.yaml to verl: the Hydra configuration of a run and the process that trains it."""

import dataclasses
import gc
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamtrl.cpu import memory
from tamtrl.errors import UserError
from tamtrl.jobs.environment import VERL_DTYPES, architecture, checkpoint_dtype, model_path, verl_model
from tamtrl.settings import Resources, Run, Scorer

if TYPE_CHECKING:
    from omegaconf import DictConfig

CONFIG = Path(__file__).parent / "config"


def verl_values(run: Run, resources: Resources, checkpoints: Path, scorer_url: str = "") -> dict:
    """What of a run verl must know, as a nested mapping over tamtrl/training/config/{cpu,gpu}.yaml.

    Every key exists in verl's configuration or in ours; a key that verl renames is an error when they are merged.
    """
    training, reading = run.training, run.reading
    if training.micro_batch_tokens < reading.window_tokens:
        raise UserError(
            f"training.micro_batch_tokens ({training.micro_batch_tokens}) is less than reading.window_tokens "
            f"({reading.window_tokens}): the longest row would not fit a micro-batch."
        )
    engines = resources.devices * resources.nodes
    most = -(-training.rollout_batch // engines) * training.group  # sequences of an engine
    # A CPU's rollouts stay as they are: how sequences are batched shows in the last digits.
    ray_init: dict[str, int] = {"num_cpus": ray_cpus(resources)}
    of_device: dict[str, Any] = {"max_num_seqs": most, "cudagraph_capture_sizes": graph_sizes(most)}
    if resources.device == "cpu":
        ray_init["num_gpus"] = resources.devices  # ranks are counted as GPUs there as well
        of_device = {"checkpoint_engine": {"update_weights_bucket_megabytes": memory.bucket_mib(architecture(run.model_path))}}
    layers = {"param_dtype": VERL_DTYPES[training.dtype]}
    # The frozen reference in the precision it is stored in: half of the traffic where that is bfloat16, and no loss.
    reference = {"model_dtype": checkpoint_dtype(run.model_path), "mixed_precision": layers}
    return {
        "tamtrl": {
            "seed": run.seed,
            "reading": vars(reading),
            "credit": vars(run.credit),
            "scorer": scorer_values(run.scorer, scorer_url, resources) if run.scorer else None,
            "optimizer_steps": training.optimizer_steps,
        },
        "data": {
            "train_files": str(Path(run.train_data).absolute()),
            "val_files": str(Path(run.validation_data).absolute()),
            "train_batch_size": training.rollout_batch,
            "max_prompt_length": reading.prompt_tokens,
            "max_response_length": reading.response_tokens,
            "seed": run.seed,
        },
        "actor_rollout_ref": {
            "model": verl_model(run.model_path, training, resources),
            "actor": {
                "ppo_mini_batch_size": max(1, training.rollout_batch // training.optimizer_steps),
                "ppo_max_token_len_per_gpu": training.micro_batch_tokens,
                "grad_clip": training.grad_clip,
                "clip_ratio": training.clip_low,
                "clip_ratio_low": training.clip_low,
                "clip_ratio_high": training.clip_high,
                "clip_ratio_c": training.dual_clip,
                "kl_loss_coef": training.kl_coef,
                "data_loader_seed": run.seed,
                "optim": {
                    "lr": training.lr,
                    "lr_warmup_steps": training.warmup_steps,
                    "betas": training.betas,
                    "weight_decay": training.weight_decay,
                    "clip_grad": training.grad_clip,
                },
                "fsdp_config": {"seed": run.seed, "mixed_precision": layers},
            },
            "ref": {"log_prob_max_token_len_per_gpu": training.micro_batch_tokens, "fsdp_config": reference},
            "rollout": {
                "n": training.group,
                "temperature": training.temperature,
                "top_p": training.top_p,
                "seed": run.seed,
                "max_model_len": reading.window_tokens,
                "max_num_batched_tokens": max(reading.window_tokens, 4096 if resources.device == "cpu" else 16384),
                "log_prob_max_token_len_per_gpu": training.micro_batch_tokens,
                "dtype": training.dtype,
                **of_device,
                "router_config_path": str(CONFIG / "router.yaml"),
                "agent": {
                    "num_workers": training.rollout_workers,
                    "agent_loop_config_path": str(CONFIG / "agent_loops.yaml"),
                },
                "val_kwargs": {
                    "n": training.validation_samples,
                    "temperature": training.validation_temperature,
                    "top_p": training.validation_top_p,
                    "do_sample": True,
                },
            },
        },
        "trainer": {
            "experiment_name": f"{run.model}-{run.method}-{run.variant}-seed{run.seed}",
            "n_gpus_per_node": resources.devices,
            "nnodes": resources.nodes,
            "total_epochs": 1_000_000,  # steps decide
            "total_training_steps": training.steps,
            "save_freq": training.save_every,
            "test_freq": training.validate_every,
            "max_actor_ckpt_to_keep": training.checkpoints_kept,
            "default_local_dir": str(checkpoints.absolute()),
        },
        "ray_kwargs": {"ray_init": ray_init},
    }


def graph_sizes(most: int) -> list[int]:
    """Numbers of sequences for which an engine keeps a CUDA graph: as vLLM chooses them, but none larger than ``most``."""
    return sorted({size for size in (1, 2, 4, *range(8, most, 8)) if size < most} | {most})


def scorer_values(scorer: Scorer, url: str, resources: Resources) -> dict:
    """Its tokenizer is read by Ray's workers, which work elsewhere."""
    path = scorer.path and model_path(scorer.path)
    return dataclasses.asdict(scorer) | {"url": url, "path": path, "ranks": scorer.ranks(resources)}


def ray_cpus(resources: Resources) -> int:
    """What Ray is told that a node has. It only counts: verl reserves several CPUs for every rank and one for each helper,
    and a placement group that asks for more than there are waits for ever."""
    return max(resources.cores, 8 + 16 * resources.devices)


def verl_config(run: Run, resources: Resources, checkpoints: Path, scorer_url: str = "") -> "DictConfig":
    """verl's complete configuration for a run, checked by verl's own validator."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf, open_dict
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    with initialize_config_dir(str(CONFIG), version_base=None):
        config = compose(resources.device, overrides=["hydra.searchpath=[pkg://verl.trainer.config]"])
    OmegaConf.set_struct(config, True)
    with open_dict(config.tamtrl):
        config.merge_with(verl_values(run, resources, checkpoints, scorer_url))
    if run.scorer and not run.scorer.endpoint and resources.device == "gpu":
        config.actor_rollout_ref.rollout.gpu_memory_utilization -= run.scorer.gpu_memory  # its server is on the same devices
    validate_config(config, need_reference_policy(config), need_critic(config))
    return config


def main(run_file: str, checkpoints: str, resources: str) -> None:
    """The training process itself; ``tamtrl train`` starts and watches it (processes.py)."""
    run, where = Run.load(run_file), Resources(**json.loads(resources))
    forked = where.device == "cpu" and where.nodes == 1 and "RAY_ADDRESS" not in os.environ  # else Ray isn't the run's own
    if forked:
        from tamtrl.cpu import template

        template.stand_by()
    import ray
    from omegaconf import open_dict
    from verl.trainer.main_ppo import TaskRunnerV1, run_ppo

    from tamtrl.jobs.ray_cluster import over_nodes
    from tamtrl.turn_scores.server import reachable

    class TurnCreditRunner(TaskRunnerV1.__ray_metadata__.modified_class):
        def run(self, config: "DictConfig") -> Any:
            from verl.trainer.ppo.v1 import trainer_base

            from tamtrl.training.trainer import TurnCreditTrainer

            # Under the name "sync": verl gives any other name the replay buffer of its asynchronous trainers.
            trainer_base.TRAINER_REGISTRY["sync"] = TurnCreditTrainer
            return super().run(config)

    # SLURM names a job's GPUs for AMD's software too, and verl refuses both.
    os.environ.pop("ROCR_VISIBLE_DEVICES", None)
    with (
        reachable(run.scorer, where, Path(checkpoints).parent / "scorer.log") as url,
        over_nodes(where, ray_cpus(where)) as address,
    ):
        config = verl_config(run, where, Path(checkpoints), url)
        if address:
            config.ray_kwargs.ray_init = {"address": address}  # whose nodes have been counted already
        if forked:
            with open_dict(config.ray_kwargs):
                config.ray_kwargs.ray_init.runtime_env = {"py_executable": template.python()}
        # Ray's workers look for code first where their driver works, which may be another checkout.
        os.chdir(Path(checkpoints).parent)
        run_ppo(config, task_runner_class=ray.remote(TurnCreditRunner))
        gc.freeze()  # or Python, on its way out, looks for what could be freed in all that verl imported


if __name__ == "__main__":
    main(*sys.argv[1:])
