"""A vLLM general plugin (see pyproject.toml): keep linear weights live, so that training can replace them.

Stock vLLM on a CPU packs every linear weight at load time and drops the original, and weight sync then fails. Active only
in CPU training runs; evaluation keeps vLLM's packed kernels.
"""

import os
from typing import Any


def register() -> None:
    if os.environ.get("VERL_PLATFORM") != "cpu":
        return
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    import torch
    from vllm.model_executor.layers import utils

    if not hasattr(utils, "dispatch_cpu_unquantized_gemm"):
        raise RuntimeError("This vLLM has no dispatch_cpu_unquantized_gemm; adapt tamtrl/cpu/vllm_plugin.py.")

    def keep_weight(layer: Any, remove_weight: bool = False) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    utils.dispatch_cpu_unquantized_gemm = keep_weight
