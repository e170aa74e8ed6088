"""Trajectories as training samples: one a turn, prompt and response as the reader saw them, loss on the response only."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from torch.utils.data import Dataset

from tamtrl import seeds
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Document, Generation, Reader, Turn
from tamtrl.settings import Reading
from tamtrl.tasks.example import ExampleFile

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

CACHED_DOCUMENTS = 256


def replay(reader: Reader, document: Document, responses: list[list[int]]) -> list[Turn]:
    """The turns of a stored trajectory: the reader runs again over recorded responses, so prompts are made in one place."""

    async def recorded(prompt_ids: list[int], max_tokens: int, turn: int) -> Generation:
        return Generation(responses[turn])

    reading = reader.read(document, recorded)
    try:
        reading.send(None)  # nothing is ever awaited, so one step runs to the end
    except StopIteration as ended:
        return ended.value
    raise RuntimeError("a replayed trajectory waited for something")


def turn_counts(trajectories: pa.Table) -> list[int]:
    """How many turns each trajectory has, and so how many samples it gives."""
    return pc.list_value_length(trajectories["turns"]).to_pylist()


class TurnDataset(Dataset):
    """Built by verl with these arguments (``data.custom_cls``); ``config.tamtrl`` names the examples and the reading budgets.

    Each item: ``input_ids``, ``position_ids`` and ``loss_mask`` of shape (tokens,); the mask is 1 on response tokens.
    """

    def __init__(
        self,
        parquet_files: str | Sequence[str],
        tokenizer: "PreTrainedTokenizerFast",
        config: Mapping[str, Any],
        processor: object = None,
        max_samples: int = -1,
    ) -> None:
        path = parquet_files if isinstance(parquet_files, str) else parquet_files[0]
        own = config["tamtrl"]
        reading = Reading(**own["reading"])
        self.reader = Reader(Prompts(tokenizer, reading.prompts), reading)
        self.examples = ExampleFile(own["data"])
        self.trajectories = pq.read_table(path)
        places = [(row, turn) for row, turns in enumerate(turn_counts(self.trajectories)) for turn in range(turns)]
        # verl's sampler shuffles by a seed of its own that can't be set; this makes the order depend on the run's.
        seeds.generator(own["seed"], "distillation order").shuffle(places)
        self.places = places
        self._document = lru_cache(CACHED_DOCUMENTS)(self._prepare)
        self.k = own.get("kl_top_k", 0)
        probabilities = own.get("teacher_probabilities")
        self.teacher = pq.read_table(probabilities) if probabilities else None

    def __len__(self) -> int:
        return len(self.places)

    def _prepare(self, index: int) -> Document:
        return self.reader.prepare(self.examples[index])

    def turn(self, item: int) -> Turn:
        row, turn = self.places[item]
        trajectory = self.trajectories.slice(row, 1).to_pylist()[0]
        return replay(self.reader, self._document(trajectory["document"]), trajectory["turns"])[turn]

    def __getitem__(self, item: int) -> dict[str, torch.Tensor]:
        turn = self.turn(item)
        prompt, response = turn.prompt_ids, turn.generation.ids
        sample = {
            "input_ids": torch.tensor(prompt + response),
            "position_ids": torch.arange(len(prompt) + len(response)),
            "loss_mask": torch.tensor([0] * len(prompt) + [1] * len(response)),
        }
        if self.teacher is not None:
            # The logits at a token predict the next one: the teacher's rows begin at the prompt's last token.
            place = slice(len(prompt) - 1, len(prompt) + len(response) - 1)
            row = self.teacher.slice(item, 1).to_pylist()[0]
            for name, values, dtype in (("teacher_ids", "ids", torch.int64), ("teacher_log_probs", "log_probs", torch.float32)):
                whole = torch.zeros(len(prompt) + len(response), self.k, dtype=dtype)
                whole[place] = torch.tensor(row[values], dtype=dtype).view(-1, self.k)
                sample[name] = whole.flatten()  # verl's collator joins tensors of one dimension only
        return sample
