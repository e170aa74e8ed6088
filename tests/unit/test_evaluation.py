"""Scores from stored predictions, and what a failing engine leads to. The whole path with vLLM is in tests/workflow."""

import asyncio
import gzip
import json

import pandas as pd
import pytest
from conftest import toy_budgets
from vllm.v1.engine.async_llm import AsyncLLM

from tamtrl.errors import UserError
from tamtrl.evaluation.engine import OWNER, start_engine
from tamtrl.evaluation.predict import read_sample
from tamtrl.evaluation.score import score
from tamtrl.evaluation.show import show
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Reader
from tamtrl.settings import Evaluation, EvaluationRun, Reading, Resources
from tamtrl.tasks import toy


def record(document: int, sample: int, response: str, **changes) -> dict:
    values = dict(document=document, id=f"d{document}", sample=sample, answers=["Paris"], response=response)
    values |= dict(answer_mode="alternatives")
    return values | dict(error=None, dropped_tokens=0) | changes


def test_score_is_the_mean_over_documents_of_the_mean_over_samples(tmp_path):
    records = [
        record(0, 0, r"\boxed{Paris}"),
        record(0, 1, r"\boxed{Rome}"),
        record(1, 0, r"\boxed{Paris}"),
        record(1, 1, "", error="out of memory"),  # a failed generation is wrong, not missing
        record(2, 0, r"\boxed{the Paris}", dropped_tokens=7),
        record(2, 1, "Paris"),
    ]
    with gzip.open(tmp_path / "p.jsonl.gz", "wt") as stream:
        stream.writelines(json.dumps(r) + "\n" for r in records)
    score(tmp_path / "p.jsonl.gz", "made_up", "hotpotqa", tmp_path, seed=0)
    documents = pd.read_csv(tmp_path / "made_up.documents.csv")
    assert documents["em"].tolist() == [0.5, 0.5, 1.0]
    # the verifier forgives neither the article nor the missing box
    assert documents["strict"].tolist() == [0.5, 0.5, 0.0]
    row = pd.read_csv(tmp_path / "made_up.csv").set_index("metric").loc["em"]
    assert row["mean"] == pytest.approx(2 / 3) and row["low"] <= row["mean"] <= row["high"]
    assert (row["n"], row["samples"], row["errors"], row["truncated"]) == (3, 2, 1, 1)


def test_show(tmp_path):
    with gzip.open(tmp_path / "p.jsonl.gz", "wt") as stream:
        shown = record(0, 0, r"so \boxed{Paris}", question="Where?", memories=["first", "second\nline"], dropped_tokens=7)
        stream.write(json.dumps(shown) + "\n")
    text = show(tmp_path / "p.jsonl.gz", 0, 0)
    expected = [
        "question: Where?",
        "memory after chunk 2:",
        "    line",
        "scored as: 'Paris'",
        "exact match: 1",
        "verifier): 1",
        "7 tokens",
    ]
    assert all(part in text for part in expected)
    with pytest.raises(UserError, match="has documents 0 to 0 with samples 0 to 0"):
        show(tmp_path / "p.jsonl.gz", 1, 0)


class FailingEngine:
    """Stands for faults only; raises what vLLM raises."""

    def __init__(self, dead: bool):
        self.dead = dead

    async def generate(self, *arguments):
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        if self.dead:
            raise EngineDeadError()
        raise EngineGenerateError() from RuntimeError("no room in the cache")
        yield


def read(engine, toy_tokenizer):
    reading = Reading(**vars(toy_budgets()), prompts="brief")
    run = EvaluationRun(0, reading, Evaluation(1, 1.0, 0.7, "float32", 4))
    reader = Reader(Prompts(toy_tokenizer, "brief"), reading)
    example = next(toy.generate("heldout", 1, 6, seed=0))
    return asyncio.run(read_sample(run, engine, reader, example, reader.prepare(example), "made_up", 0, 0))


def test_a_failed_request_is_recorded_with_an_empty_answer(toy_tokenizer):
    got = read(FailingEngine(dead=False), toy_tokenizer)
    assert got["response"] == "" and got["error"] == "no room in the cache"


def test_a_dead_engine_ends_the_job(toy_tokenizer):
    with pytest.raises(UserError, match="engine died at request made_up-0-0-0"):
        read(FailingEngine(dead=True), toy_tokenizer)


def test_the_gpu_engine_is_asked_for_with_names_that_vllm_has(monkeypatch):
    """No GPU here: but vLLM's own arguments are built, and refuse a name that they don't have."""
    monkeypatch.setenv(OWNER, "")  # set by the start, and put back
    monkeypatch.setattr(AsyncLLM, "from_engine_args", staticmethod(lambda arguments: arguments))
    arguments = start_engine("models/toy", 8192, 3, Resources("gpu", 2, 1, 8, 0), "bfloat16")
    assert (arguments.data_parallel_size, arguments.gpu_memory_utilization, arguments.dtype) == (2, 0.9, "bfloat16")
    assert (arguments.max_model_len, arguments.seed, arguments.enable_prefix_caching) == (8192, 3, True)
