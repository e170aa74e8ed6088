"""Everything verl 0.9 and vLLM need to run without a GPU. Nothing here is loaded in a GPU run (see ``environment``), each
piece refuses to act where a GPU is present, and each fails loudly when an update moves what it touches."""


def environment(cores: int, cache_gib: int) -> dict[str, str]:
    """Variables of a CPU run: they select this platform in verl and the live-weight rollout in vLLM."""
    return {
        "VERL_USE_EXTERNAL_MODULES": "tamtrl.cpu.platform,tamtrl.jobs.own_sockets",
        "VERL_PLATFORM": "cpu",
        "VERL_ENGINE_DEVICE": "cuda",  # verl registers its FSDP engine under this name only
        "RAY_prestart_worker_first_driver": "0",  # every idle worker costs an import of torch
        "RAY_enable_worker_prestart": "0",
        "OMP_NUM_THREADS": str(max(1, cores)),
    } | vllm_environment(cache_gib)


def vllm_environment(cache_gib: int) -> dict[str, str]:
    """Variables of every vLLM on a CPU, in training or not. ``cache_gib``: of keys and values, see memory.py."""
    return {
        "VLLM_CPU_KVCACHE_SPACE": str(cache_gib),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # a model in its engine's process: vLLM's reason against it is binding threads,
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # which is off: processes share the few cores there are,
        "OMP_WAIT_POLICY": "PASSIVE",  # and idle threads sleep: spinning, they make two jobs on two cores three times as slow
    }
