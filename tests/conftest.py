"""Shared pieces: a word-level tokenizer and reader of the toy task, and made-up HotpotQA records."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def toy_tokenizer():
    from tamtrl.training.backbone import toy_texts
    from tamtrl.training.tokenizers import word_tokenizer

    return word_tokenizer(toy_texts())


@pytest.fixture(scope="session")
def bpe_tokenizer():
    from tamtrl.training.tokenizers import bpe_tokenizer

    return bpe_tokenizer(["A small text about a city, its river and 1,000 bridges.\n\nDocument 1:\n"] * 3, 300)


def toy_budgets(**changes):
    from tamtrl.reading.budgets import Budgets

    values = dict(query_tokens=16, chunk_tokens=28, memory_tokens=20, output_tokens=8, window_tokens=128, max_chunks=12)
    return Budgets(**values | changes)


def hotpot_record(number: int, paragraphs: int = 10, **changes) -> dict:
    """A made-up record in the official layout; paragraphs 0 and 1 are supporting."""
    context = [
        [f"Title {number}-{k}", [f"Sentence one of {number}-{k}.", f" It has value v{number}{k}."]] for k in range(paragraphs)
    ]
    record = {
        "_id": f"q{number}",
        "question": f"What is the value of {number}-1?",
        "answer": f"v{number}1",
        "supporting_facts": [[f"Title {number}-0", 0], [f"Title {number}-1", 1]],
        "context": context,
        "type": "bridge",
        "level": "hard",
    }
    return record | changes


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Real public records, where a folder of them is given (they are not part of this repository)."""
    folder = os.environ.get("TAMTRL_REAL_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("TAMTRL_REAL_DATA names no folder of real HotpotQA records")
    return Path(folder)
