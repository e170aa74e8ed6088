"""Memory that must be fixed before a model is loaded, from its architecture (config.json); of an unknown one, enough for most."""

import math
from collections.abc import Mapping

LEAST_BUCKET, LEAST_CACHE = 16, 1  # MiB, GiB; what toys need
UNKNOWN_BUCKET = 2048  # MiB; verl's own
BYTES = {"float32": 4, "bfloat16": 2}


def bucket_mib(architecture: Mapping) -> int:
    """Of the buffer in which weights go to the rollout engine, in float32: a tensor must fit it whole. MiB."""
    if not architecture:
        return UNKNOWN_BUCKET
    hidden = architecture["hidden_size"]
    largest = hidden * max(architecture["vocab_size"], architecture.get("intermediate_size", 0))
    return max(LEAST_BUCKET, math.ceil(4 * largest / 2**20))


def cache_gib(architecture: Mapping, dtype: str, window_tokens: int, sequences: int, memory_gib: float) -> int:
    """Of vLLM's keys and values: for so many sequences as long as the window, but no more than a quarter of the job's memory, and
    never less than for one. GiB."""
    quarter = memory_gib / 4
    if not architecture:
        return max(LEAST_CACHE, int(quarter))
    heads = architecture["num_attention_heads"]
    size = architecture.get("head_dim") or architecture["hidden_size"] // heads
    token = 2 * architecture["num_hidden_layers"] * (architecture.get("num_key_value_heads") or heads) * size * BYTES[dtype]
    one = token * window_tokens / 2**30
    return max(LEAST_CACHE, math.ceil(one), int(min(one * sequences, quarter)))
