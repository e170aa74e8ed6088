"""Tokens that an engine computes for the rollouts of a question with the memory before the section and with it after
(``reading.prompts: section_first``): a real vLLM engine with a small random model, and vLLM's own count of what its cache held.

    python benchmarks/prefixes.py
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import RESOURCES
from gpu_first_hour import SIZES, prepare
from response_logits import SHAPES

QUESTIONS, GROUP = 8, 8
BUDGETS = {
    "query_tokens": 32,
    "chunk_tokens": 500,
    "memory_tokens": 50,
    "output_tokens": 50,
    "window_tokens": 1024,
    "max_chunks": 8,
}
STYLES = ("full", "section_first")


def measure(folder: Path, style: str) -> dict:
    """Prompt tokens of all turns, those found in the cache, and the seconds that reading took."""
    from transformers import AutoTokenizer
    from vllm import SamplingParams

    from tamtrl.evaluation.engine import start_engine
    from tamtrl.reading.prompts import Prompts
    from tamtrl.reading.reader import Generation, Reader
    from tamtrl.settings import Reading
    from tamtrl.tasks.example import ExampleFile

    reader = Reader(Prompts(AutoTokenizer.from_pretrained(folder / "model"), style), Reading(**BUDGETS, prompts=style))
    documents = [reader.prepare(example) for example in list(ExampleFile(folder / "train.parquet"))[:QUESTIONS]]
    engine = start_engine(str(folder / "model"), BUDGETS["window_tokens"], 0, RESOURCES, "float32")
    counted = {"prompt": 0, "cached": 0}

    async def rollout(question: int, rollout: int) -> None:
        async def generate(prompt_ids: list[int], max_tokens: int, turn: int) -> Generation:
            parameters = SamplingParams(max_tokens=max_tokens, seed=rollout * 100 + turn, detokenize=False)
            async for output in engine.generate({"prompt_token_ids": prompt_ids}, parameters, f"{question}-{rollout}-{turn}"):
                final = output
            counted["prompt"] += len(prompt_ids)
            counted["cached"] += final.num_cached_tokens
            return Generation(list(final.outputs[0].token_ids))

        await reader.read(documents[question], generate)

    async def everything() -> None:
        await asyncio.gather(*(rollout(question, number) for question in range(QUESTIONS) for number in range(GROUP)))

    begun = time.perf_counter()
    asyncio.run(everything())
    counted["seconds"] = time.perf_counter() - begun
    engine.shutdown()
    return counted


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, "tiny", SIZES["tiny"] | {"document": 1400, "questions": QUESTIONS})
        computed = {}
        for style in STYLES:
            done = subprocess.run([sys.executable, __file__, name, style], capture_output=True, text=True)
            if done.returncode:
                sys.exit(done.stderr[-3000:])
            found = json.loads(done.stdout.splitlines()[-1])
            computed[style] = found["prompt"] - found["cached"]
            print(
                f"{style}: {found['prompt']:,} prompt tokens, {computed[style]:,} computed, {found['seconds']:.1f} s", flush=True
            )
        print(f"section_first / full: {computed['section_first'] / computed['full']:.3f}")
        print(f"a model of {SHAPES['tiny'].parameters:,} parameters; {QUESTIONS} questions x {GROUP} rollouts on one engine")


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), sys.argv[2]))) if len(sys.argv) > 2 else main()
