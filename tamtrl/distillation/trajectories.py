"""Trajectories to learn from: a model reads the training questions, and what the strict verifier accepts is kept.

Generation is cut into shards (one GPU job each) and continues after a kill; keeping needs no GPU. A kept trajectory is stored as
the ids that were sampled, turn by turn; samples.py makes one training sample of each turn.
"""

import asyncio
import dataclasses
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tamtrl import files, seeds
from tamtrl.answers import verifier
from tamtrl.errors import UserError
from tamtrl.evaluation import engine as vllm_engine
from tamtrl.evaluation import work
from tamtrl.evaluation.predictions import read_predictions
from tamtrl.evaluation.work import Work
from tamtrl.jobs.machine import require
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Generation, Reader
from tamtrl.record import code_digest
from tamtrl.record.provenance import digest
from tamtrl.settings import GenerationRun, Resources
from tamtrl.tasks.example import ExampleFile

SCHEMA = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("sample", pa.int64(), nullable=False),
        pa.field("turns", pa.list_(pa.list_(pa.int32())), nullable=False),
    ]
)


def generate(
    run: GenerationRun,
    resources: Resources,
    model: str,
    data: Path,
    shard: tuple[int, int],
    output: Path,
    say: Callable[[str], None],
) -> None:
    """``run.samples`` trajectories of every question of shard (number, of how many): one record a trajectory."""
    require(resources)
    number, shards = shard
    examples = ExampleFile(data)
    indices = range(number, len(examples), shards)
    settings = dataclasses.asdict(run)
    del settings["in_flight"]
    code = code_digest.digest("tamtrl.distillation.trajectories")
    kept = output.with_name(f".{output.name}.{digest([settings, shard, code], model, data)}.jsonl")
    one = Work(f"shard {number} of {shards}", indices, run.samples, kept, output)
    if len(one.finished) < len(indices):
        asyncio.run(_generate(run, resources, model, examples, one, say))
    one.pack()
    kept.unlink(missing_ok=True)


async def _generate(
    run: GenerationRun, resources: Resources, model: str, examples: ExampleFile, one: Work, say: Callable[[str], None]
) -> None:
    from transformers import AutoTokenizer

    prompts = Prompts(AutoTokenizer.from_pretrained(model), run.reading.prompts)
    reader = Reader(prompts, run.reading)
    room = run.thinking_tokens if run.thinking else 0
    engine = vllm_engine.start_engine(model, run.reading.window_tokens + room, run.seed, resources, run.dtype)

    async def read(_: Work, index: int) -> list[dict]:
        return await asyncio.gather(*(trajectory(index, sample) for sample in range(run.samples)))

    async def trajectory(index: int, sample: int) -> dict:
        example = examples[index]

        async def sampled(prompt_ids: list[int], max_tokens: int, turn: int) -> Generation:
            seed = seeds.derive(run.seed, "trajectories", example.benchmark, example.id, sample, turn)
            ask = prompts.with_thinking(prompt_ids) if run.thinking else prompt_ids
            sampling = (max_tokens + room, run.temperature, run.top_p, seed, f"{index}-{sample}-{turn}")
            ids = await vllm_engine.sample(engine, ask, *sampling)
            return Generation(after_thinking(prompts, ids, max_tokens) if run.thinking else ids)

        record = {"document": index, "sample": sample}
        try:
            turns = await reader.read(reader.prepare(example), sampled)
        except vllm_engine.Failed as error:
            return record | {"turns": [], "error": str(error)}
        return record | {"turns": [turn.generation.ids for turn in turns], "error": None}

    try:
        await work.run([one], read, run.in_flight, say)
    finally:
        engine.shutdown()


def after_thinking(prompts: Prompts, ids: list[int], max_tokens: int) -> list[int]:
    """What follows the thoughts, as a model that doesn't think would have sampled it; an unended thought is a failed request."""
    end = prompts.end_of_thinking
    if end not in ids:
        raise vllm_engine.Failed("the thought did not end within distillation.thinking_tokens")
    rest = ids[len(ids) - ids[::-1].index(end) :]
    while rest and not prompts.tokenizer.decode(rest[:1]).strip():
        rest = rest[1:]
    return rest[:max_tokens]


def keep_correct(
    model: str, tokenizer_path: str, data: Path, shards: list[Path], output: Path, report: Path, say: Callable[[str], None]
) -> None:
    """``output``: trajectories whose answer the verifier accepts, each distinct one once, in document order. ``report``: what
    became of the others; a question without a correct trajectory is counted there, never silently dropped."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_path)
    examples = ExampleFile(data)
    kept, seen, failed, correct = [], set(), 0, 0
    read: Counter[int] = Counter()
    # One shard in memory at a time; all trajectories of a question lie in one.
    for record in (record for path in shards for record in read_predictions(path)):
        read[record["document"]] += 1
        if record["error"]:
            failed += 1
            continue
        response = tokenizer.decode(record["turns"][-1], skip_special_tokens=True)
        if not verifier.outcome(response, examples[record["document"]].answers):
            continue
        correct += 1
        key = (record["document"], json.dumps(record["turns"]))
        if key not in seen:
            seen.add(key)
            kept.append({name: record[name] for name in SCHEMA.names})
    if len(read) != len(examples):
        raise UserError(f"The shards of {output} do not hold every question of {data}; generate them again.")
    kept.sort(key=lambda trajectory: (trajectory["document"], trajectory["sample"]))
    solved = len({trajectory["document"] for trajectory in kept})
    summary = {
        "model": model,
        "questions": len(examples),
        "questions_with_a_correct_trajectory": solved,
        "trajectories": read.total(),
        "failed": failed,
        "correct": correct,
        "kept": len(kept),
        "turns": sum(len(trajectory["turns"]) for trajectory in kept),
    }
    say(
        f"{summary['kept']} distinct of {correct} correct trajectories, of {read.total()} sampled ({failed} failed); "
        f"{solved} of {len(examples)} questions have one"
    )
    if not kept:
        raise UserError(
            f"No trajectory of {model} passes the verifier (the last \\boxed{{}} equal to an answer) over {len(examples)} "
            f"questions with {read.total() // len(examples)} samples each; there is nothing to learn from."
        )
    with files.whole(output) as temporary:
        pq.write_table(pa.Table.from_pylist(kept, schema=SCHEMA), temporary, compression="zstd")
    files.write_text(report, json.dumps(summary, indent=2) + "\n")
