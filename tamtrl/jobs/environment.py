"""What every kind of training process is given: paths that mean the same elsewhere, and environment variables."""

import json
import os
import secrets
from pathlib import Path

from tamtrl.cpu import memory
from tamtrl.jobs.time_limit import stop_at
from tamtrl.settings import Distillation, Resources, Training

ROOT = Path(__file__).parents[2]
VERL_DTYPES = {"float32": "fp32", "bfloat16": "bf16"}


def model_path(path: str) -> str:
    """Folders become absolute (Ray workers start elsewhere); a hub id stays as it is."""
    return str(Path(path).absolute()) if Path(path).exists() else path


def verl_model(path: str, settings: Training | Distillation, resources: Resources) -> dict:
    """verl's ``model`` section. With ``response_logits`` every worker loads the engine that makes no others."""
    return {
        "path": model_path(path),
        "external_lib": "tamtrl.training.response_logits" if settings.response_logits else None,
        "enable_gradient_checkpointing": settings.gradient_checkpointing,
        "override_config": {"attn_implementation": attention(resources, settings.dtype, settings.attention_by_row)},
    }


def attention(resources: Resources, dtype: str, by_row: bool) -> str:
    """transformers' name of an implementation; ours is tamtrl/cpu/attention.py."""
    if resources.device == "cpu":
        return "by_row" if by_row else "sdpa"
    return "flash_attention_2" if dtype == "bfloat16" else "sdpa"  # which has no float32


def architecture(path: str) -> dict:
    """config.json of a model's folder; nothing of a hub id, which nobody has fetched yet."""
    config = Path(path) / "config.json"
    return json.loads(config.read_text(encoding="utf-8")) if config.exists() else {}


def checkpoint_dtype(path: str) -> str:
    """fp32 or bf16: what the weights are stored in; fp32 where that can't be told (a hub id)."""
    values = architecture(path)
    return "bf16" if values.get("dtype", values.get("torch_dtype")) == "bfloat16" else "fp32"


def environment(model_path: str, resources: Resources, attempt_log: Path, cache_gib: int = memory.LEAST_CACHE) -> dict[str, str]:
    """Variables of the training process and of every process it starts. ``cache_gib``: of a CPU's rollouts."""
    variables = {
        "VERL_FILE_LOGGER_PATH": str(attempt_log.absolute()),
        "HYDRA_FULL_ERROR": "1",
        "RAY_DEDUP_LOGS": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "TOKENIZERS_PARALLELISM": "false",
        "WANDB_MODE": "disabled",
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",
        # The code of the process that starts it, and not of the folder that it works in, which may be another checkout.
        "PYTHONSAFEPATH": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "VERL_USE_EXTERNAL_MODULES": "tamtrl.jobs.own_sockets",
    } | stop_at()
    if Path(model_path).exists():
        variables["HF_HUB_OFFLINE"] = "1"  # compute nodes often have no network, and a query that hangs costs minutes
    if resources.nodes > 1:
        # Only who knows this job's token may join its Ray. Here, since Ray looks at it when it is imported.
        variables |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    if resources.device == "cpu":
        from tamtrl import cpu

        variables |= cpu.environment(resources.cores // resources.devices, cache_gib)
    return variables
