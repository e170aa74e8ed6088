"""One process imports torch, transformers, verl and vLLM, and the processes of a CPU run are forked from it.

A training on one device is ten Python processes one after another, each of which imported the same for 6 to 15 s of a core.
Ray starts its workers through worker.py, which asks for a fork here. Forked as long as there is one Python thread.
"""

import gc
import importlib
import os
import runpy
import select
import shlex
import signal
import socket
import sys
import threading
from pathlib import Path

from tamtrl.cpu import handed_over, spare
from tamtrl.system import die_with_parent

FIRST = ("ray", "hydra", "verl.trainer.main_ppo")  # the driver's own
THEN = (
    "verl.trainer.ppo.v1",
    "tamtrl.training.trainer",
    "vllm.entrypoints.openai.api_server",
    "verl.workers.rollout.vllm_rollout.vllm_async_server",
    "vllm.v1.engine.core",
    "vllm.v1.worker.cpu_worker",
    "vllm.model_executor.models.qwen3",
    "transformers.models.qwen3.modeling_qwen3",
    "verl.workers.engine_workers",
    "tamtrl.training.agent_loop",
)


def socket_path() -> Path:
    return Path(os.environ["RAY_TMPDIR"]) / "template"  # of this run alone, and short


def python() -> str:
    """Ray's ``py_executable``: a piece of a shell command."""
    client = Path(__file__).with_name("worker.py")
    return " ".join(map(shlex.quote, [sys.executable, "-S", "-E", str(client), str(socket_path())]))


def stand_by() -> None:
    """Returns in a forked process, the run's driver; this one serves until the driver ends, and ends as it did."""
    if not sys.platform.startswith("linux"):
        return
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(socket_path()))
    listener.listen(128)
    # Ray's library reads these of a worker when it is loaded, which is now: its job, the only one of a Ray of its own, and the
    # process that it lives no longer than.
    os.environ.update(RAY_JOB_ID="01000000", RAY_RAYLET_PID=str(os.getpid()))
    _import(FIRST)
    del os.environ["RAY_JOB_ID"], os.environ["RAY_RAYLET_PID"]
    driver = os.fork()
    if not driver:
        die_with_parent()
        listener.close()
        return
    from verl.trainer.constants_ppo import PPO_RAY_RUNTIME_ENV

    os.environ.update(PPO_RAY_RUNTIME_ENV["env_vars"])  # some are read at import, in Ray's workers too
    _import(THEN)
    gc.collect()
    gc.freeze()
    _serve(listener, driver)


def _import(modules: tuple[str, ...]) -> None:
    for module in modules:
        importlib.import_module(module)
    if threading.active_count() > 1:
        raise RuntimeError(f"Imports started threads ({threading.enumerate()}), and a fork would lose them; see {__file__}.")


def _serve(listener: socket.socket, driver: int) -> None:
    ended = os.pidfd_open(driver)
    watched: list[socket.socket | int] = [listener, ended]
    while True:
        ready, _, _ = select.select(watched, [], [], 0.5)
        if ended in ready:
            code = os.waitstatus_to_exitcode(os.waitpid(driver, 0)[1])
            if code < 0:
                signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
                os.kill(os.getpid(), -code)
            os._exit(code)
        if listener in ready:
            channel, _ = listener.accept()
            with channel:
                handed = handed_over.receive(channel)
                if handed is None:
                    continue
                if not os.fork():
                    os.close(ended)
                    listener.close()
                    channel.close()
                    _work(*handed)
                for file in handed[1]:
                    os.close(file)
                channel.send(b"1")
        while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) and _reap(driver):
            pass


def _reap(driver: int) -> bool:
    """One worker that ended, if any; the driver's end is looked at elsewhere."""
    ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is None or ended.si_pid == driver:
        return False
    os.waitpid(ended.si_pid, 0)
    return True


def _work(values: dict, files: list[int]) -> None:
    die_with_parent()
    arguments = handed_over.take_over(values, files)
    spare.keep()
    import numpy
    from ray._raylet import Config

    Config.initialize("")  # Ray read its variables when it was imported; the driver has set others since
    numpy.random.seed()
    script = next(i for i, argument in enumerate(arguments) if argument.endswith(".py"))
    sys.argv = arguments[script:]
    runpy.run_path(sys.argv[0], run_name="__main__")
    sys.exit()
