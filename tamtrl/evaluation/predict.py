"""Read every document of some benchmarks with vLLM and store each turn's memory and the answer.

One compressed JSON line per sample. One engine serves all benchmarks: starting it takes longer than reading a small one. Finished
documents are kept in scratch under the digest of all they depend on, so interrupted work continues, and another benchmark added
later costs nothing but itself. Each sample's tokens come from a seed of their own, so what is in flight together does not change
which numbers are drawn (the engine's arithmetic may still differ with the batch in the last digits).
"""

import asyncio
import dataclasses
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tamtrl import seeds
from tamtrl.errors import UserError
from tamtrl.evaluation import engine as vllm_engine
from tamtrl.evaluation import work
from tamtrl.evaluation.work import Work
from tamtrl.jobs.machine import require
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Document, Generation, Reader
from tamtrl.record import code_digest
from tamtrl.record.provenance import digest
from tamtrl.settings import EvaluationRun, Resources
from tamtrl.tasks.example import Example, ExampleFile


def predict(
    run: EvaluationRun,
    resources: Resources,
    model: str,
    data: list[Path],
    output: Path,
    scratch: Path,
    say: Callable[[str], None],
) -> None:
    """``output``/NAME.jsonl.gz for each NAME.parquet of ``data``."""
    require(resources)
    examples = {path.stem: ExampleFile(path) for path in data}
    if len(examples) < len(data):
        raise UserError("Two of the data files have the same name; their predictions would overwrite each other.")
    settings = dataclasses.asdict(run)
    del settings["evaluation"]["in_flight"]
    code = code_digest.digest("tamtrl.evaluation.predict")
    works = []
    for path in data:
        kept = scratch / f"{path.stem}.{digest([settings, code], model, path)}.jsonl"
        # What another model or setting left of this benchmark.
        for stale in scratch.glob(f"{path.stem}.*.jsonl"):
            if stale != kept:
                stale.unlink()
        result = output / f"{path.stem}.jsonl.gz"
        works.append(Work(path.stem, range(len(examples[path.stem])), run.evaluation.samples, kept, result))
    unfinished = [one for one in works if len(one.finished) < one.documents]
    if unfinished:
        asyncio.run(_predict(run, resources, model, examples, unfinished, say))
    for one in works:
        one.pack()


async def _predict(
    run: EvaluationRun,
    resources: Resources,
    model: str,
    examples: dict[str, ExampleFile],
    works: list[Work],
    say: Callable[[str], None],
) -> None:
    from transformers import AutoTokenizer

    engine = vllm_engine.start_engine(model, run.reading.window_tokens, run.seed, resources, run.evaluation.dtype)
    try:
        reader = Reader(Prompts(AutoTokenizer.from_pretrained(model), run.reading.prompts), run.reading)

        async def read(one: Work, index: int) -> list[dict]:
            example = examples[one.name][index]
            document = reader.prepare(example)
            samples = (
                read_sample(run, engine, reader, example, document, one.name, index, sample) for sample in range(one.samples)
            )
            return await asyncio.gather(*samples)

        await work.run(works, read, run.evaluation.in_flight, say)
    finally:
        engine.shutdown()
        gc.freeze()  # or Python, on its way out, looks for what could be freed in all that vLLM imported


async def read_sample(
    run: EvaluationRun, engine: Any, reader: Reader, example: Example, document: Document, benchmark: str, index: int, sample: int
) -> dict:
    """One trajectory as a record. An engine failure is recorded with an empty answer: wrong, not missing."""

    async def generate(prompt_ids: list[int], max_tokens: int, turn: int) -> Generation:
        seed = seeds.derive(run.seed, "evaluation", example.benchmark, example.id, sample, turn)
        request = f"{benchmark}-{index}-{sample}-{turn}"
        temperature, top_p = run.evaluation.temperature, run.evaluation.top_p
        return Generation(await vllm_engine.sample(engine, prompt_ids, max_tokens, temperature, top_p, seed, request))

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
    except vllm_engine.Failed as error:
        return record | {"memories": [], "response": "", "error": str(error), "tokens": []}
    texts = [reader.prompts.tokenizer.decode(reader.strip_end(turn.generation.ids)) for turn in turns]
    return record | {
        "memories": texts[:-1],
        "response": texts[-1],
        "error": None,
        "tokens": [len(turn.generation.ids) for turn in turns],
    }
