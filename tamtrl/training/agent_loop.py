"""The reader as a verl agent loop: one trajectory in, one output (row) per turn out. Where the credit method needs a judge or a
process reward model, each memory turn is sent to it as soon as it is written, while this and other trajectories go on."""

import asyncio
import dataclasses
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from tamtrl import seeds
from tamtrl.answers import verifier
from tamtrl.credit.settings import CreditSettings
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Document, Generation, Reader
from tamtrl.settings import Reading, Scorer
from tamtrl.stored import build
from tamtrl.training.dataset import example_file
from tamtrl.turn_scores.client import Client
from tamtrl.turn_scores.updates import UpdateWriter

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


class MemoryAgentLoop(AgentLoopBase):
    """verl makes one for every trajectory, so what is costly to make is kept per process."""

    async def run(self, sampling_params: dict, **sample: Any) -> list[AgentLoopOutput]:
        settings = self.config.tamtrl
        reader = _reader(self.tokenizer, OmegaConf.to_yaml(settings))
        path, row = sample["example"]["path"], sample["example"]["row"]
        example, document = _document(reader, path, row)
        # Validation has no credit to assign.
        client = _client(OmegaConf.to_yaml(settings.scorer)) if settings.scorer and path == self.config.data.train_files else None
        writer = _writer(reader, path, row) if client else None
        written: list[list[int]] = []
        question = int(sample["uid"].split("-")[1]) if client else 0
        scoring_tasks: list[asyncio.Task] = []
        seed_names = ("rollout", int(sample["global_steps"]), example.id, int(sample["session_id"]))

        async def generate(prompt_ids: list[int], max_tokens: int, turn: int) -> Generation:
            seed = seeds.derive(settings.seed, *seed_names, turn) % 2**31
            output = await self.server_manager.generate(
                request_id=sample["uid"],  # who gets it: routing.py
                prompt_ids=prompt_ids,
                sampling_params={**sampling_params, "max_tokens": max_tokens, "seed": seed},
            )
            ids = list(output.token_ids)
            if client and writer and turn < len(document.chunks):
                update = writer.write(turn, written[-1] if written else None, ids)
                scoring_tasks.append(asyncio.create_task(client.score(update, question)))
                written.append(ids)
            return Generation(ids, list(output.log_probs), dict(output.extra_fields))

        turns = await reader.read(document, generate)
        read_at = time.time()
        scored = [dataclasses.asdict(one) for one in await asyncio.gather(*scoring_tasks)]
        answer = self.tokenizer.decode(reader.strip_end(turns[-1].generation.ids))
        outcome = verifier.outcome(answer, example.answers)
        return [
            AgentLoopOutput(
                prompt_ids=turn.prompt_ids,
                response_ids=turn.generation.ids,
                response_mask=[1] * len(turn.generation.ids),
                response_logprobs=turn.generation.log_probs,
                num_turns=len(turns),
                metrics=AgentLoopMetrics(),
                # verl gives every row of a trajectory the last row's score; what differs by turn goes to extra_fields.
                reward_score=outcome,
                extra_fields={
                    **turn.generation.extra,
                    "turn": turn.index,
                    "is_answer": turn.is_answer,
                    "relevant": turn.relevant,
                    "teacher_prompt_ids": turn.teacher_prompt_ids or [],
                    "dropped_tokens": document.dropped_tokens,
                    "read_at": read_at,
                    "scored": scored[turn.index] if turn.index < len(scored) else None,
                    "reward_extra_info": {"acc": outcome},
                },
            )
            for turn in turns
        ]


@lru_cache(maxsize=1)
def _reader(tokenizer: "PreTrainedTokenizerFast", settings: str) -> Reader:
    tamtrl: Any = OmegaConf.to_container(OmegaConf.create(settings))
    reading = build(Reading, tamtrl["reading"], "reading")
    credit = build(CreditSettings, tamtrl["credit"], "credit")
    return Reader(Prompts(tokenizer, reading.prompts), reading, credit.view)


@lru_cache(maxsize=1)
def _client(settings: str) -> Client:
    scorer: Any = OmegaConf.to_container(OmegaConf.create(settings))
    url, ranks = scorer.pop("url"), scorer.pop("ranks")
    return Client(build(Scorer, scorer, "scorer"), url, ranks)


@lru_cache(maxsize=64)
def _writer(reader: Reader, path: str, row: int) -> UpdateWriter:
    return UpdateWriter(reader, _document(reader, path, row)[1])


@lru_cache(maxsize=64)
def _document(reader: Reader, path: str, row: int) -> tuple:
    """A group's rollouts share one tokenization."""
    example = example_file(path)[row]
    document: Document = reader.prepare(example)
    return example, document
