"""From run.yaml to verl's SFT trainer: the Hydra configuration of a distillation run and the process of one rank."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tamtrl.errors import UserError
from tamtrl.jobs.environment import VERL_DTYPES, model_path, verl_model
from tamtrl.settings import DistillationRun, Resources

if TYPE_CHECKING:
    from omegaconf import DictConfig

CONFIG = Path(__file__).parent / "config"


def verl_values(run: DistillationRun, resources: Resources, checkpoints: Path, steps_per_epoch: int) -> dict:
    """What of a run verl must know, as a nested mapping over config/{cpu,gpu}.yaml."""
    settings, reading = run.distillation, run.reading
    if settings.micro_batch_tokens < reading.window_tokens:
        raise UserError(
            f"distillation.micro_batch_tokens ({settings.micro_batch_tokens}) is less than reading.window_tokens "
            f"({reading.window_tokens}): the longest sample would not fit a micro-batch."
        )
    model = verl_model(run.model_path, settings, resources)
    return {
        "data": {
            "train_files": str(Path(run.trajectories).absolute()),
            "train_batch_size": settings.batch,
            "max_token_len_per_gpu": settings.micro_batch_tokens,
            "max_length": reading.window_tokens,
            "tamtrl": {
                "data": str(Path(run.train_data).absolute()),
                "reading": vars(reading),
                "seed": run.seed,
                "loss": run.loss,
                "teacher_path": "" if settings.precompute else model_path(run.teacher_path),
                "teacher_probabilities": str(Path(run.teacher_probabilities).absolute()) if settings.precompute else "",
                "kl_temperature": settings.kl_temperature,
                "kl_top_k": settings.kl_top_k,
                "response_logits": settings.response_logits,
                "dtype": settings.dtype,
                "attention": model["override_config"]["attn_implementation"],
            },
        },
        "model": model,
        "engine": {"seed": run.seed, "mixed_precision": {"param_dtype": VERL_DTYPES[settings.dtype]}},
        "optim": {
            "lr": settings.lr,
            "lr_warmup_steps": settings.warmup_steps,
            "betas": settings.betas,
            "weight_decay": settings.weight_decay,
            "clip_grad": settings.grad_clip,
        },
        "trainer": {
            "experiment_name": f"{run.model}-{run.method}-{run.variant}-seed{run.seed}",
            "total_epochs": settings.epochs,
            "save_freq": settings.save_every or steps_per_epoch,
            "max_ckpt_to_keep": 2,  # verl removes the oldest before it writes the next
            "default_local_dir": str(checkpoints.absolute()),
            "seed": run.seed,
            "n_gpus_per_node": resources.devices,
            "nnodes": resources.nodes,
        },
    }


def verl_config(run: DistillationRun, resources: Resources, checkpoints: Path, steps_per_epoch: int) -> "DictConfig":
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf, open_dict

    with initialize_config_dir(str(CONFIG), version_base=None):
        config = compose(resources.device, overrides=["hydra.searchpath=[pkg://verl.trainer.config]"])
    OmegaConf.set_struct(config, True)
    with open_dict(config.data.tamtrl):
        config.merge_with(verl_values(run, resources, checkpoints, steps_per_epoch))
    return config


def main(run_file: str, checkpoints: str, resources: str, steps_per_epoch: str) -> None:
    """One rank; ``tamtrl distil`` starts them all under torchrun and watches them."""
    from verl.utils.distributed import destroy_global_process_group, initialize_global_process_group

    from tamtrl.distillation.trainer import DistillationTrainer

    config = verl_config(
        DistillationRun.load(run_file), Resources(**json.loads(resources)), Path(checkpoints), int(steps_per_epoch)
    )
    initialize_global_process_group()
    DistillationTrainer(config=config).fit()
    destroy_global_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
