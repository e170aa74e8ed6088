"""The RL data set: verl gets a file and a row number for each question, and the agent loop reads the example itself, so
that documents of 14,000 tokens are not copied into every turn's row."""

from collections.abc import Sequence
from functools import cache

from torch.utils.data import Dataset

from tamtrl.tasks.example import ExampleFile


@cache
def example_file(path: str) -> ExampleFile:
    """One open table a process."""
    return ExampleFile(path)


class ExampleDataset(Dataset):
    """Built by verl with these arguments (``data.custom_cls``)."""

    def __init__(
        self, data_files: str | Sequence[str], tokenizer: object, config: object, processor: object = None, max_samples: int = -1
    ) -> None:
        self.path = data_files if isinstance(data_files, str) else data_files[0]
        count = len(example_file(self.path))
        self.count = count if max_samples < 0 else min(count, max_samples)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict:
        example = example_file(self.path)[index]
        return {
            # verl requires these four; only the last is ours.
            "raw_prompt": [{"role": "user", "content": example.question}],
            "index": index,
            "data_source": example.benchmark,
            "reward_model": {"style": "rule", "ground_truth": list(example.answers)},
            "example": {"path": self.path, "row": index},
        }
