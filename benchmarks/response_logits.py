"""verl's engine, with the logits of every token, against ours with those of responses only
(tamtrl/training/response_logits.py) and with attention row by row too (tamtrl/cpu/attention.py): a forward pass
(log-probabilities) and one forwards and backwards (update) over the same rows, and how far their numbers are apart.

    python benchmarks/response_logits.py --shape 0.6B --prompt 5000 --response 500 --layers 1 3 28
    python benchmarks/response_logits.py --shape 135M --prompt 1200 --response 200 --rows 8 --packed 8 --layers 2 4 30

Random weights of a Qwen3's shape. A whole model is slow on a CPU: the first two ``--layers`` are run, the third is projected: a
layer costs what one more cost ours, and the head's logits what verl took longer.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from common import RESOURCES, toy_run

from tamtrl.jobs.environment import environment
from tamtrl.planning.costs import MODELS, Transformer
from tamtrl.settings import Run

SHAPES = MODELS | {"tiny": Transformer(64, 2, 2, 1, 32, 128, 500), "135M": Transformer(576, 30, 9, 3, 64, 1536, 49152)}


def write_model(folder: Path, shape: Transformer, layers: int) -> None:
    import torch
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        hidden_size=shape.hidden, num_hidden_layers=layers, num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim, intermediate_size=shape.feed_forward, vocab_size=shape.vocabulary, tie_word_embeddings=True,
        max_position_embeddings=16384,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(Path(__file__).parents[1] / "models" / "toy").save_pretrained(folder)


def rows(number: int, prompt: int, response: int, vocabulary: int) -> Any:
    """As the trainer's batches are: jagged, each row a little shorter than the one before."""
    import torch
    from tensordict import TensorDict

    generator = torch.Generator().manual_seed(0)

    def draw(length: int) -> torch.Tensor:
        return torch.randint(vocabulary, (length,), generator=generator)

    prompts = [draw(prompt - i) for i in range(number)]
    responses = [draw(response - i) for i in range(number)]
    ones = [torch.ones(len(r), dtype=torch.int64) for r in responses]
    fields = {
        "prompts": prompts,
        "responses": responses,
        "input_ids": [torch.cat(pair) for pair in zip(prompts, responses, strict=True)],
        "position_ids": [torch.arange(len(p) + len(r)) for p, r in zip(prompts, responses, strict=True)],
        "response_mask": ones,
        "loss_mask": ones,
        "old_log_probs": [torch.full((len(r),), -6.0) for r in responses],
        "ref_log_prob": [torch.full((len(r),), -6.0) for r in responses],
        "advantages": [torch.randn(len(r), generator=generator) for r in responses],
    }
    jagged = {name: torch.nested.as_nested_tensor(value, layout=torch.jagged) for name, value in fields.items()}
    return TensorDict(jagged, batch_size=[number])


def passes(engine: Any, data: Any, loss: Callable, repeats: int) -> tuple[dict, Any, dict]:
    """Seconds (the least of ``repeats``), loss, tokens whose logits were made; log-probabilities of responses; gradients."""
    from verl.workers.utils.padding import response_from_nested

    engine.initialize()
    forward, update, made = [], [], []
    engine.module.lm_head.register_forward_hook(lambda head, given, logits: made.append(logits.shape[1]))
    for _ in range(repeats):
        with engine.eval_mode():
            started = time.perf_counter()
            log_probs = engine.infer_batch(data)["model_output"]["log_probs"]
            forward.append(time.perf_counter() - started)
        with engine.train_mode():
            engine.optimizer_zero_grad()
            started = time.perf_counter()
            losses = engine.forward_backward_batch(data, loss)["loss"]
            update.append(time.perf_counter() - started)
            gradients = {name: weight.grad.full_tensor().clone() for name, weight in engine.module.named_parameters()}
    found = {"forward": min(forward), "update": min(update), "loss": sum(losses), "logits": sum(made) // (2 * repeats)}
    return found, response_from_nested(log_probs, data["response_mask"]).values(), gradients


def measure(run_file: str, arguments: dict) -> dict[str, dict]:
    """One entry an engine, and how far it is from verl's: log-probabilities in nats, gradients in shares of the largest."""
    import torch
    from verl.utils import tensordict_utils as tu
    from verl.utils.config import omega_conf_to_dataclass
    from verl.utils.distributed import initialize_global_process_group
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
    from verl.workers.utils.losses import ppo_loss

    from tamtrl.training import launch
    from tamtrl.training.response_logits import ResponseLogitsEngine

    def configured(by_row: bool) -> Any:
        run = Run.load(run_file)
        training = replace(run.training, dtype=arguments["dtype"], attention_by_row=by_row)
        return launch.verl_config(replace(run, training=training), RESOURCES, Path(run_file).parent / "ck").actor_rollout_ref

    actor = omega_conf_to_dataclass(configured(False).actor)
    initialize_global_process_group()
    data = rows(arguments["rows"], arguments["prompt"], arguments["response"], SHAPES[arguments["shape"]].vocabulary)
    tokens = arguments["packed"] * (arguments["prompt"] + arguments["response"])
    options = dict(use_dynamic_bsz=True, max_token_len_per_gpu=tokens, temperature=1.0, use_remove_padding=True)
    tu.assign_non_tensor(data, **options, use_fused_kernels=False, calculate_entropy=False, global_batch_size=len(data))
    engines = {
        "verl": (FSDPEngineWithLMHead, False),
        "ours": (ResponseLogitsEngine, False),
        "by row": (ResponseLogitsEngine, True),
    }
    found, values, gradients = {}, {}, {}
    for name, (kind, by_row) in engines.items():
        model = omega_conf_to_dataclass(configured(by_row).model)
        engine = kind(model, actor.engine, actor.optim, actor.checkpoint)
        found[name], values[name], gradients[name] = passes(engine, data, partial(ppo_loss, config=actor), arguments["repeats"])
        del engine
    largest = max(g.abs().max() for g in gradients["verl"].values())
    for name in ("ours", "by row"):
        off = max((g - gradients[name][weight]).abs().max() for weight, g in gradients["verl"].items())
        found[name]["log-probabilities apart"] = (values["verl"] - values[name]).abs().max().item()
        found[name]["gradients apart"] = (off / largest).item()
    assert torch.isfinite(largest) and largest > 0
    return found


def compare(folder: Path, layers: int, arguments: dict) -> pd.DataFrame:
    folder.mkdir()
    write_model(folder / "model", SHAPES[arguments["shape"]], layers)
    run_file = toy_run(folder, "outcome")
    replace(Run.load(run_file), model_path=str(folder / "model")).save(run_file)
    rank = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29512"}
    variables = os.environ | environment(str(folder / "model"), RESOURCES, folder / "log.jsonl") | rank
    command = [sys.executable, __file__, "--measure", str(run_file), json.dumps(arguments)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    return pd.DataFrame(json.loads(done.stdout.splitlines()[-1])).T.fillna(0.0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=list(SHAPES), default="0.6B")
    for name, value in {"prompt": 5000, "response": 500, "rows": 1, "repeats": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--packed", type=int, default=2, help="rows of a micro-batch")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--layers", type=int, nargs=3, default=[1, 3, 28])
    arguments = vars(parser.parse_args())
    first, second, whole = arguments.pop("layers")
    with tempfile.TemporaryDirectory() as name:
        few, more = (compare(Path(name) / f"{n}", n, arguments) for n in (first, second))
    for layers, table in ((first, few), (second, more)):
        print(f"{layers} layers\n{table.to_string(float_format='{:.6g}'.format)}", flush=True)
    few, more = few[["forward", "update"]], more[["forward", "update"]]
    each = (more - few) / (second - first)  # a layer
    # A row too long for two layers of its logits: what verl takes longer for them is of both measurements' mean.
    each.loc["verl"] = each.loc["ours"]
    begin = few - each * first
    begin.loc["verl"] = begin.loc["ours"] + ((few + more).loc["verl"] - (few + more).loc["ours"]) / 2
    projected = begin + each * whole
    print(f"{whole} layers, projected\n{projected.round(1).to_string()}")
    print(f"shares of verl's time\n{(projected / projected.loc['verl']).round(3).to_string()}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(sys.argv[2], json.loads(sys.argv[3]))))
    else:
        main()
