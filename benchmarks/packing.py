"""SFT on packed rows against the same samples padded to the longest of their micro-batch: tokens a second, as a ratio.

Samples are the turns of trajectories of mixed length (documents of 2 to 24 paragraphs), trained by verl's SFT trainer on one
rank.

    python benchmarks/packing.py
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from common import REPOSITORY, RESOURCES, toy_config

from tamtrl.settings import DistillationRun
from tamtrl.stored import build

STEPS, BATCH = 8, 64
MICRO_BATCHES = (256, 1024)  # tokens


def prepare(folder: Path) -> Path:
    """Trajectories that need no engine: each memory repeats part of its document, so that lengths differ as documents do."""
    from transformers import AutoTokenizer

    from tamtrl.distillation.trajectories import SCHEMA
    from tamtrl.reading.prompts import Prompts
    from tamtrl.tasks import toy
    from tamtrl.tasks.example import ExampleFile, write_examples

    config, model = toy_config(), REPOSITORY / "models" / "toy"
    lengths = (2, 4, 8, 16, 24)
    examples = [e for n in lengths for e in toy.generate("train", 40, n, seed=0, stream=f"toy_{n}")]
    write_examples(folder / "train.parquet", examples)
    prompts = Prompts(AutoTokenizer.from_pretrained(model), "brief")
    end = [prompts.tokenizer.eos_token_id]
    rows = []
    for document, example in enumerate(ExampleFile(folder / "train.parquet")):
        chunks = -(-len(prompts.encode(example.context)) // config["reading"]["chunk_tokens"])
        memories = [prompts.encode(example.context)[: 4 + turn] + end for turn in range(chunks)]
        answer = prompts.encode(f"\\boxed{{ {example.answers[0]} }}") + end
        rows.append({"document": document, "sample": 0, "turns": [*memories, answer]})
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), folder / "trajectories.parquet")
    run = {
        "model": "toy", "method": "sft", "variant": "main", "seed": 0, "model_path": str(model), "loss": "sft",
        "train_data": str(folder / "train.parquet"), "trajectories": str(folder / "trajectories.parquet"),
        "teacher_path": "", "teacher_probabilities": "", "reading": config["reading"],
        "distillation": config["distillation"] | {"batch": BATCH, "epochs": 1, "save_every": 1000},
    }  # fmt: skip
    build(DistillationRun, run, "benchmark").save(folder / "run.yaml")
    return folder / "run.yaml"


def measure(run_file: Path, packed: bool, micro_batch: int) -> tuple[float, int]:
    """In a process of its own: median seconds of a step after the first two, and the tokens of a step."""
    from verl.utils.distributed import initialize_global_process_group

    from tamtrl.distillation.launch import verl_config
    from tamtrl.distillation.trainer import DistillationTrainer

    config = verl_config(DistillationRun.load(run_file), RESOURCES, run_file.parent / f"checkpoints-{packed}-{micro_batch}", 1000)
    config.model.use_remove_padding = packed
    config.data.max_token_len_per_gpu = micro_batch
    config.trainer.total_training_steps = STEPS
    initialize_global_process_group()
    trainer = DistillationTrainer(config=config)
    train_batch, seconds, tokens = trainer.training_client.train_batch, [], []

    def timed(data):
        started = time.perf_counter()
        output = train_batch(data=data)
        seconds.append(time.perf_counter() - started)
        tokens.append(int(data["input_ids"].values().numel()))
        return output

    trainer.training_client.train_batch = timed
    trainer.fit()
    return sorted(seconds[2:])[len(seconds[2:]) // 2], sum(tokens[2:]) // len(tokens[2:])


def main() -> None:
    if len(sys.argv) > 1:
        print("RESULT", json.dumps(measure(Path(sys.argv[1]), sys.argv[2] == "packed", int(sys.argv[3]))))
        return
    from tamtrl.jobs.environment import environment

    with tempfile.TemporaryDirectory() as name:
        run_file = prepare(Path(name))
        results = {}
        for kind, micro_batch in itertools.product(("packed", "padded"), MICRO_BATCHES):
            rank = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
            variables = os.environ | environment("models/toy", RESOURCES, Path(name) / f"{kind}-{micro_batch}.jsonl") | rank
            command = [sys.executable, __file__, str(run_file), kind, str(micro_batch)]
            done = subprocess.run(command, env=variables, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(done.stderr[-3000:])
            line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
            seconds, tokens = results[kind, micro_batch] = json.loads(line.removeprefix("RESULT "))
            print(f"{kind}, micro-batch {micro_batch:5}: {seconds:5.2f} s a step, {tokens / seconds:7,.0f} tokens/s", flush=True)
        for micro_batch in MICRO_BATCHES:
            ratio = results["padded", micro_batch][0] / results["packed", micro_batch][0]
            print(f"padded / packed, micro-batch {micro_batch}: {ratio:.2f}")


if __name__ == "__main__":
    main()
