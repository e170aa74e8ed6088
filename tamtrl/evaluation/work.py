"""Many documents in flight over one engine, each kept as soon as it is done, so that interrupted work continues."""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TextIO

from tamtrl import files
from tamtrl.errors import UserError


@dataclass(frozen=True)
class Work:
    """``samples`` records of each document in ``indices``. ``kept`` is the growing file, ``output`` the complete one.

    Records have ``document`` and ``sample``. ``kept`` should be named by all that the records depend on: what another model or
    setting left is then not continued.
    """

    name: str
    indices: Sequence[int]
    samples: int
    kept: Path
    output: Path

    @property
    def documents(self) -> int:
        return len(self.indices)

    @cached_property
    def finished(self) -> dict[int, list[dict]]:
        """Documents whose samples are all there when the work starts; a line cut by a kill, and its document, are done again."""
        return self._read()

    def _read(self) -> dict[int, list[dict]]:
        documents: dict[int, dict[int, dict]] = {}
        if self.kept.exists():
            for line in self.kept.read_text(errors="replace", encoding="utf-8").split("\n"):
                try:
                    record = json.loads(line)
                except json.JSONDecodeError:
                    continue
                documents.setdefault(record["document"], {})[record["sample"]] = record
        return {
            index: [samples[sample] for sample in sorted(samples)]
            for index, samples in documents.items()
            if len(samples) == self.samples
        }

    def pack(self) -> None:
        """Write ``output`` (compressed JSON lines in document order) from what was kept; ``kept`` stays."""
        finished = self._read()
        if missing := self.documents - len(finished):
            raise UserError(f"{missing} of {self.documents} documents of {self.name} are missing; run the same command again.")
        with files.whole(self.output) as temporary, gzip.GzipFile(temporary, "wb", mtime=0) as stream:
            for _, records in sorted(finished.items()):
                stream.writelines(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


Read = Callable[[Work, int], Awaitable[list[dict]]]
"""The records of one document."""


async def run(works: list[Work], read: Read, in_flight: int, say: Callable[[str], None]) -> None:
    """Read every document that isn't finished, ``in_flight`` at once, the works in order."""
    slots = asyncio.Semaphore(in_flight)
    done = {work.name: len(work.finished) for work in works}
    with ExitStack() as stack:

        async def one(work: Work, index: int, stream: TextIO) -> None:
            async with slots:
                records = await read(work, index)
                stream.write("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
                stream.flush()
                done[work.name] += 1
                if done[work.name] % max(1, work.documents // 10) == 0 or done[work.name] == work.documents:
                    say(f"{work.name}: {done[work.name]}/{work.documents} documents")

        async with asyncio.TaskGroup() as group:
            for work in works:
                if work.finished:
                    say(f"Continuing {work.name}: {len(work.finished)} of {work.documents} documents are done.")
                work.kept.parent.mkdir(parents=True, exist_ok=True)
                stream = stack.enter_context(work.kept.open("a", encoding="utf-8"))
                # A kill may have cut the last line off: end it, or the next record would be lost with it.
                stream.write("\n" if work.kept.stat().st_size else "")
                for index in work.indices:
                    if index not in work.finished:
                        group.create_task(one(work, index, stream))
