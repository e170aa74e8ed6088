"""Asks a judge or a process reward model for the scores of memory turns, many at once, while rollouts go on.

What can go wrong with a request (no answer, an error status, an answer that is no score) is one thing here: it is asked
once more, and then the turn has no score. tamtrl/credit/scored.py says what that means for its credit; the trainer stops
when there are too many.
"""

import asyncio
import hashlib
import json
import os
import time
from dataclasses import dataclass
from functools import cached_property

import httpx

from tamtrl.settings import Scorer
from tamtrl.turn_scores import judge, prm
from tamtrl.turn_scores.updates import Update

ATTEMPTS = 2
KEY = "TAMTRL_JUDGE_KEY"
KINDS = {"judge": judge, "prm": prm}


@dataclass(frozen=True)
class Scored:
    """``score`` in [0, 1], or None with the last ``error``. ``requests``: 0 where the answer was known. Times in seconds
    since the epoch, from the wish to the answer."""

    score: float | None
    error: str
    requests: int
    begin: float
    end: float


class Client:
    """One a process and event loop. Answers are kept by the content of the request; verl runs all rollouts of a question in one
    process (a test holds it to that), so a repetition within a question is found, and has the very same score."""

    def __init__(self, scorer: Scorer, url: str):
        self.scorer, self.url = scorer, url.rstrip("/")
        self.kind = KINDS[scorer.kind]
        self.slots = asyncio.Semaphore(scorer.in_flight)
        self.asked: dict[str, asyncio.Task] = {}

    @cached_property
    def tokenizer(self):
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.scorer.path)

    @cached_property
    def http(self) -> httpx.AsyncClient:
        # The key goes into this header and nowhere else: not into run.yaml, verl's configuration or a message.
        key = os.environ.get(KEY) if self.scorer.endpoint else None
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=self.scorer.in_flight, max_keepalive_connections=self.scorer.in_flight)
        return httpx.AsyncClient(headers=headers, limits=limits, timeout=None, trust_env=False)

    def body(self, update: Update) -> dict:
        if self.scorer.kind == "judge":
            return judge.body(update, self.scorer)
        return prm.body(prm.encode(self.tokenizer, update, self.scorer.window_tokens).ids, self.scorer)

    async def score(self, update: Update) -> Scored:
        begin = time.time()
        body = self.body(update)
        content = hashlib.sha256(json.dumps(body).encode()).hexdigest()
        known = self.asked.get(content)
        task = known or asyncio.create_task(self._ask(body))
        self.asked[content] = task
        score, error, requests = await task
        if score is None:
            self.asked.pop(content, None)  # a failure is not remembered
        return Scored(score, error, 0 if known else requests, begin, time.time())

    async def _ask(self, body: dict) -> tuple[float | None, str, int]:
        error = ""
        async with self.slots:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    async with asyncio.timeout(self.scorer.timeout_seconds):
                        reply = await self.http.post(self.url + self.kind.ROUTE, json=body)
                    if reply.is_error:
                        error = f"status {reply.status_code}: {' '.join(reply.text.split())[:200]}"
                        continue
                    return self.kind.score(reply.json()), "", attempt
                except TimeoutError:
                    error = f"no answer within {self.scorer.timeout_seconds:g} s"
                except httpx.HTTPError as problem:
                    error = f"{type(problem).__name__}: {problem}"
                except (ValueError, KeyError, TypeError, IndexError):
                    error = f"not a score: {' '.join(reply.text.split())[:200]!r}"
        return None, error, ATTEMPTS

    async def close(self) -> None:
        await self.http.aclose()


def probe(scorer: Scorer, url: str) -> str:
    """Score one made-up turn; what is wrong, or nothing. A scorer that can't do this can do nothing."""

    async def ask() -> Scored:
        client = Client(scorer, url)
        try:
            return await client.score(Update("Who?", "Ann did it.", "Ann did it.", "Nothing.", "Ann did it."))
        finally:
            await client.close()

    return asyncio.run(ask()).error
