"""Documents in flight against lock-step turns, on one vLLM engine: 64 documents of 2 to 24 paragraphs (1 to 12 chunks).
In lock-step every document waits at each turn until all have taken it.

    python benchmarks/in_flight.py
"""

import asyncio
import time

from common import REPOSITORY, RESOURCES, config_model, toy_evaluation
from transformers import AutoTokenizer

from tamtrl.evaluation.engine import start_engine
from tamtrl.evaluation.predict import read_sample
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Reader
from tamtrl.tasks import toy


async def main() -> None:
    run = toy_evaluation()
    model = str(REPOSITORY / config_model())
    engine = start_engine(model, run.reading.window_tokens, run.seed, RESOURCES, run.evaluation.dtype)
    reader = Reader(Prompts(AutoTokenizer.from_pretrained(model), run.reading.prompts), run.reading)
    examples = [next(toy.generate("heldout", 1, 2 + n % 23, seed=0, stream=str(n))) for n in range(64)]
    documents = [reader.prepare(example) for example in examples]
    turns = sum(len(document.chunks) + 1 for document in documents)

    async def in_flight() -> None:
        samples = zip(examples, documents, strict=True)
        await asyncio.gather(*(read_sample(run, engine, reader, e, d, "toy", i, 0) for i, (e, d) in enumerate(samples)))

    async def lock_step() -> None:
        class Gate:
            """Lets a turn start when every document still reading has ended the one before."""

            def __init__(self):
                self.waiting, self.reading, self.condition = 0, len(documents), asyncio.Condition()
                self.turn = 0

            async def arrive(self, leaving: bool = False):
                async with self.condition:
                    turn = self.turn
                    self.reading -= leaving
                    self.waiting += not leaving
                    if self.waiting >= self.reading:
                        self.turn, self.waiting = turn + 1, 0
                        self.condition.notify_all()
                    elif not leaving:
                        await self.condition.wait_for(lambda: self.turn > turn)

        gate = Gate()

        class Gated:
            async def generate(self, *arguments):
                await gate.arrive()
                async for output in engine.generate(*arguments):
                    yield output

        async def one(index: int) -> None:
            await read_sample(run, Gated(), reader, examples[index], documents[index], "toy", index, 0)
            await gate.arrive(leaving=True)

        await asyncio.gather(*(one(index) for index in range(len(documents))))

    await in_flight()  # warm-up
    seconds = {"in flight": [], "lock-step": []}
    for _ in range(3):
        for name, function in (("in flight", in_flight), ("lock-step", lock_step)):
            await engine.reset_prefix_cache()
            started = time.perf_counter()
            await function()
            seconds[name].append(time.perf_counter() - started)
    for name, values in seconds.items():
        print(f"{name}: {sorted(values)[1]:.2f} s for {turns} turns of {len(documents)} documents (runs: {values})")
    print(f"lock-step / in flight: {sorted(seconds['lock-step'])[1] / sorted(seconds['in flight'])[1]:.2f}")
    engine.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
