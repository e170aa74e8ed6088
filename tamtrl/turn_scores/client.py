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

from tamtrl.reading.texts import Texts, break_up_anything
from tamtrl.settings import Scorer
from tamtrl.turn_scores import judge, prm
from tamtrl.turn_scores.updates import Update

ATTEMPTS = 2
LONGEST = 2**20  # bytes of an answer; thoughts of many thousand tokens fit
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
    process (a test holds it to that), so a repetition within a question is found, and has the very same score. ``ranks``: engines
    of the job's own server; a question's turns go to one, which has read its sections."""

    def __init__(self, scorer: Scorer, url: str, ranks: int = 1) -> None:
        self.scorer, self.url, self.ranks = scorer, url.rstrip("/"), ranks
        self.kind = KINDS[scorer.kind]
        self.slots = asyncio.Semaphore(scorer.in_flight)
        self.asked: dict[str, asyncio.Task] = {}

    @cached_property
    def texts(self) -> Texts:
        from transformers import AutoTokenizer

        return Texts(AutoTokenizer.from_pretrained(self.scorer.path))

    @cached_property
    def http(self) -> httpx.AsyncClient:
        # The key goes into this header and nowhere else: not into run.yaml, verl's configuration or a message.
        key = os.environ.get(KEY) if self.scorer.endpoint else None
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=self.scorer.in_flight, max_keepalive_connections=self.scorer.in_flight)
        return httpx.AsyncClient(headers=headers, limits=limits, timeout=None, trust_env=False)

    def body(self, update: Update) -> dict:
        if self.scorer.kind == "judge":
            return judge.body(update, self.scorer, self.texts.broken_up if self.scorer.path else break_up_anything)
        return prm.body(prm.encode(self.texts, update, self.scorer.window_tokens).ids, self.scorer)

    async def score(self, update: Update, question: int = 0) -> Scored:
        begin = time.time()
        body = self.body(update)
        content = hashlib.sha256(json.dumps(body).encode()).hexdigest()
        known = self.asked.get(content)
        task = known or asyncio.create_task(self._ask(body, question % self.ranks))
        self.asked[content] = task
        score, error, requests = await task
        if score is None:
            self.asked.pop(content, None)  # a failure is not remembered
        return Scored(score, error, 0 if known else requests, begin, time.time())

    async def _ask(self, body: dict, rank: int) -> tuple[float | None, str, int]:
        error = ""
        async with self.slots:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    async with asyncio.timeout(self.scorer.timeout_seconds):
                        status, content = await self._post(body, rank)
                except TimeoutError:
                    error = f"no answer within {self.scorer.timeout_seconds:g} s"
                    continue
                except (httpx.HTTPError, httpx.InvalidURL) as problem:
                    error = f"{type(problem).__name__}: {problem}"
                    continue
                shown = " ".join(content[:2000].decode(errors="replace").split())[:200]
                if not httpx.codes.is_success(status):
                    error = f"status {status}: {shown}"
                    continue
                try:
                    return self.kind.score(_parsed(content)), "", attempt
                except ValueError as problem:
                    error = f"not a score: {shown!r} ({problem})"
        return None, error, ATTEMPTS

    async def _post(self, body: dict, rank: int) -> tuple[int, bytes]:
        """Status and content, which is read no further than just past the longest answer that can be one."""
        content = b""
        headers = {"X-data-parallel-rank": str(rank)} if self.ranks > 1 else {}  # vLLM's own
        async with self.http.stream("POST", self.url + self.kind.ROUTE, json=body, headers=headers) as reply:
            async for part in reply.aiter_bytes():
                content += part
                if len(content) > LONGEST:
                    break
        return reply.status_code, content

    async def close(self) -> None:
        await self.http.aclose()


def _parsed(content: bytes) -> object:
    """Raises ValueError, which says what it is, for what is no JSON."""
    if len(content) > LONGEST:
        raise ValueError(f"longer than {LONGEST} bytes")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None


def probe(scorer: Scorer, url: str) -> str:
    """Score one made-up turn; what is wrong, or nothing. A scorer that can't do this can do nothing."""

    async def ask() -> Scored:
        client = Client(scorer, url)
        try:
            return await client.score(Update("Who?", "Ann did it.", "Ann did it.", "Nothing.", "Ann did it."))
        finally:
            await client.close()

    return asyncio.run(ask()).error
