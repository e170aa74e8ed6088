"""vLLM with settings for the device it runs on."""

import os
from typing import Any

from tamtrl.cpu import memory
from tamtrl.errors import UserError
from tamtrl.jobs.environment import architecture
from tamtrl.settings import Resources
from tamtrl.system import die_with_parent

OWNER = "TAMTRL_ENGINE_OWNER"
SEQUENCES = 256  # at once, on a CPU


def follow_owner() -> None:
    """A vLLM plugin, loaded in every process of an engine: those that :func:`start_engine` began die with the process that began
    them, even when it is killed. vLLM alone would leave them, their memory and their GPU behind."""
    owner = os.environ.get(OWNER)
    if owner and int(owner) != os.getpid():
        die_with_parent()


def start_engine(model: str, window_tokens: int, seed: int, resources: Resources, dtype: str) -> Any:
    """An asynchronous engine; prompts with their responses may be ``window_tokens`` long."""
    os.environ[OWNER] = str(os.getpid())
    if resources.device == "cpu":
        from tamtrl import cpu

        cache = memory.cache_gib(architecture(model), dtype, window_tokens, SEQUENCES, resources.memory_gib)
        os.environ.update(cpu.vllm_environment(cache) | {"OMP_NUM_THREADS": str(resources.cores)} | os.environ)
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    # vLLM rewinds a seeded request after a partial prefill, which CPU generators can't: no partial prefills there.
    on_cpu: dict[str, Any] = {"enforce_eager": True, "max_num_seqs": SEQUENCES, "enable_chunked_prefill": False}
    on_cpu["max_num_batched_tokens"] = max(4096, window_tokens)
    on_gpu: dict[str, Any] = {"gpu_memory_utilization": 0.9, "data_parallel_size": resources.devices}
    arguments = AsyncEngineArgs(
        model=model,
        dtype=dtype,
        max_model_len=window_tokens,
        enable_prefix_caching=True,
        disable_log_stats=True,
        seed=seed,
        **(on_cpu if resources.device == "cpu" else on_gpu),
    )
    if resources.device == "cpu":
        from tamtrl.cpu import spare

        spare.keep("vllm.v1.engine.core", "vllm.v1.worker.cpu_worker", "vllm.model_executor.models.qwen3")
    return AsyncLLM.from_engine_args(arguments)


class Failed(Exception):
    """One request failed; the engine lives."""


async def sample(
    engine: Any, prompt_ids: list[int], max_tokens: int, temperature: float, top_p: float, seed: int, request: str
) -> list[int]:
    """The sampled ids. Raises :class:`Failed` where vLLM refuses or loses this request, UserError where the engine died."""
    from vllm import SamplingParams
    from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

    parameters = SamplingParams(temperature=temperature, top_p=top_p, max_tokens=max_tokens, seed=seed % 2**31, detokenize=False)
    final = None
    try:
        async for output in engine.generate({"prompt_token_ids": prompt_ids}, parameters, request):
            final = output
    except EngineDeadError as error:
        raise UserError(f"The vLLM engine died at request {request}; its last words are above.") from error
    except (ValueError, EngineGenerateError) as error:
        # vLLM's own exception is empty and names its cause.
        raise Failed(str(error.__cause__ or error) or type(error).__name__) from error
    if final is None:
        raise Failed("vLLM ended the request without an answer")
    return list(final.outputs[0].token_ids)
