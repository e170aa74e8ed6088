"""Read every document of a benchmark with vLLM and store each turn's memory and the answer.

One compressed JSON line per sample. Interrupted work continues: finished documents are kept beside the output until it is
complete. Each sample's tokens come from a seed of their own, so what is in flight together does not change which numbers
are drawn (the engine's arithmetic may still differ with the batch in the last digits).
"""

import asyncio
import dataclasses
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

from tamtrl import files, seeds
from tamtrl.errors import UserError
from tamtrl.machine import require
from tamtrl.provenance import digest
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Document, Generation, Reader
from tamtrl.settings import EvaluationRun, Resources
from tamtrl.tasks.example import Example, ExampleFile


def predict(run: EvaluationRun, resources: Resources, model: str, data: Path, output: Path, say: Callable[[str], None]) -> None:
    require(resources)
    examples = ExampleFile(data)
    # Named by all that predictions depend on: what another model or setting left is not continued.
    settings = dataclasses.asdict(run)
    del settings["evaluation"]["in_flight"]
    partial = output.with_name(f".partial.{digest(settings, model, data)}.{output.name}")
    output.parent.mkdir(parents=True, exist_ok=True)
    for stale in output.parent.glob(f".partial.*.{output.name}"):
        if stale != partial:
            stale.unlink()
    finished = _finished(partial, run.evaluation.samples)
    if finished:
        say(f"Continuing: {len(finished)} of {len(examples)} documents are done.")
    if len(finished) < len(examples):
        asyncio.run(_predict_all(run, resources, model, examples, finished, partial, say))
    finished = _finished(partial, run.evaluation.samples)
    if missing := len(examples) - len(finished):
        raise UserError(f"{missing} of {len(examples)} documents are missing in {partial}; run the same command again.")
    with files.whole(output) as temporary, gzip.GzipFile(temporary, "wb", mtime=0) as stream:
        for _, records in sorted(finished.items()):
            stream.writelines(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)
    partial.unlink()


def _finished(partial: Path, samples: int) -> dict[int, list[dict]]:
    """Documents whose samples are all there; a line cut by a kill, and its document, are done again."""
    documents: dict[int, list[dict]] = {}
    if partial.exists():
        for line in partial.read_text(errors="replace").split("\n"):
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            documents.setdefault(record["document"], []).append(record)
    complete = {}
    for index, records in documents.items():
        by_sample = {record["sample"]: record for record in records}
        if len(by_sample) == samples:
            complete[index] = [by_sample[sample] for sample in sorted(by_sample)]
    return complete


async def _predict_all(
    run: EvaluationRun, resources: Resources, model: str, examples: ExampleFile, finished, partial: Path, say
) -> None:
    engine, tokenizer = start_engine(run, resources, model)
    try:
        await _read_documents(run, engine, tokenizer, examples, finished, partial, say)
    finally:
        engine.shutdown()


async def _read_documents(run, engine, tokenizer, examples, finished, partial: Path, say) -> None:
    reader = Reader(Prompts(tokenizer, run.reading.prompts), run.reading)
    slots = asyncio.Semaphore(run.evaluation.in_flight)
    done = len(finished)
    with partial.open("a") as stream:
        # A kill may have cut the last line off: end it, or the next record would be lost with it.
        stream.write("\n" if partial.stat().st_size else "")

        async def one(index: int) -> None:
            nonlocal done
            async with slots:
                example = examples[index]
                document = reader.prepare(example)
                samples = range(run.evaluation.samples)
                records = await asyncio.gather(
                    *(read_sample(run, engine, reader, example, document, index, sample) for sample in samples)
                )
                stream.write("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
                stream.flush()
                done += 1
                if done % max(1, len(examples) // 10) == 0 or done == len(examples):
                    say(f"{done}/{len(examples)} documents")

        async with asyncio.TaskGroup() as group:
            for index in range(len(examples)):
                if index not in finished:
                    group.create_task(one(index))


async def read_sample(
    run: EvaluationRun, engine, reader: Reader, example: Example, document: Document, index: int, sample: int
) -> dict:
    """One trajectory as a record. An engine failure is recorded with an empty answer: wrong, not missing."""
    from vllm import SamplingParams
    from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

    async def generate(prompt_ids: list[int], max_tokens: int, turn: int) -> Generation:
        parameters = SamplingParams(
            temperature=run.evaluation.temperature,
            top_p=run.evaluation.top_p,
            max_tokens=max_tokens,
            seed=seeds.derive(run.seed, "evaluation", example.benchmark, example.id, sample, turn) % 2**31,
            detokenize=False,
        )
        request = f"{index}-{sample}-{turn}"
        final = None
        async for output in engine.generate({"prompt_token_ids": prompt_ids}, parameters, request):
            final = output
        return Generation(list(final.outputs[0].token_ids))

    def decode(ids: list[int]) -> str:
        return reader.prompts.tokenizer.decode(reader.strip_end(ids))

    record = {
        "document": index,
        "id": example.id,
        "sample": sample,
        "question": example.question,
        "answers": list(example.answers),
        "answer_mode": example.answer_mode,
        "dropped_tokens": document.dropped_tokens,
    }
    try:
        turns = await reader.read(document, generate)
    except EngineDeadError as error:
        raise UserError(f"The vLLM engine died while reading document {example.id}; its last words are above.") from error
    except (ValueError, EngineGenerateError) as error:
        # vLLM's own exception is empty and names its cause.
        reason = str(error.__cause__ or error) or type(error).__name__
        return record | {"memories": [], "response": "", "error": reason, "tokens": []}
    texts = [decode(turn.generation.ids) for turn in turns]
    return record | {
        "memories": texts[:-1],
        "response": texts[-1],
        "error": None,
        "tokens": [len(turn.generation.ids) for turn in turns],
    }


def start_engine(run: EvaluationRun, resources: Resources, model: str):
    """vLLM with settings for the device of the run; returns the engine and the model's tokenizer."""
    if resources.device == "cpu":
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        os.environ.setdefault("OMP_NUM_THREADS", str(resources.cores))
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    from transformers import AutoTokenizer
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    # vLLM rewinds a seeded request after a partial prefill, which CPU generators can't: no partial prefills there.
    on_cpu = {"dtype": "float32", "enforce_eager": True, "max_num_seqs": 256, "enable_chunked_prefill": False}
    on_cpu["max_num_batched_tokens"] = max(4096, run.reading.window_tokens)
    on_gpu = {"dtype": "bfloat16", "gpu_memory_utilization": 0.9, "data_parallel_size": resources.devices}
    arguments = AsyncEngineArgs(
        model=model,
        max_model_len=run.reading.window_tokens,
        enable_prefix_caching=True,
        disable_log_stats=True,
        seed=run.seed,
        **(on_cpu if resources.device == "cpu" else on_gpu),
    )
    return AsyncLLM.from_engine_args(arguments), AutoTokenizer.from_pretrained(model)
