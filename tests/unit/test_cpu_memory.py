"""What a CPU's memory is set aside for, and attention row by row, by hand."""

import json

import pytest
import torch
from conftest import REPOSITORY

from tamtrl.cpu import memory
from tamtrl.errors import UserError
from tamtrl.jobs.environment import architecture

QWEN3 = {  # 0.6B's
    "hidden_size": 1024, "vocab_size": 151936, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 128,
}  # fmt: skip


def test_the_bucket_holds_the_embedding_in_float32():
    """151,936 x 1,024 x 4 bytes are 593.5 MiB; a toy's fit what is the least; a hub id's are not known."""
    assert memory.bucket_mib(QWEN3) == 594
    assert memory.bucket_mib(architecture(str(REPOSITORY / "models" / "toy"))) == memory.LEAST_BUCKET
    assert architecture("Qwen/Qwen3-0.6B") == {} and memory.bucket_mib({}) == memory.UNKNOWN_BUCKET


@pytest.mark.parametrize(
    ("dtype", "sequences", "gib", "expected"),
    [
        # a token: 2 x 28 layers x 8 heads x 128 x 2 bytes = 112 KiB; a window of 8,192: 896 MiB
        ("bfloat16", 8, 64, 7),
        ("bfloat16", 64, 32, 8),  # a quarter of the memory, in place of 56
        ("float32", 8, 4, 2),  # a window of 1.75 GiB, though a quarter is 1
        ("bfloat16", 1, 64, 1),
    ],
)
def test_the_cache_by_hand(dtype, sequences, gib, expected):
    assert memory.cache_gib(QWEN3, dtype, 8192, sequences, gib) == expected


def test_a_toys_cache_is_the_least_and_an_unknown_models_a_quarter():
    toy = architecture(str(REPOSITORY / "models" / "toy"))
    assert memory.cache_gib(toy, "float32", 128, 256, 4) == memory.LEAST_CACHE
    assert memory.cache_gib({}, "bfloat16", 8192, 8, 64) == 16


def test_attention_by_row_by_hand():
    """Two rows of 2 and 1 tokens, queries of nothing: each token's value is the mean of its row's so far. Two heads share one."""
    from tamtrl.cpu.attention import by_row

    query, key = torch.zeros(1, 2, 3, 4), torch.ones(1, 1, 3, 4)
    value = torch.tensor([2.0, 4.0, 9.0]).view(1, 1, 3, 1).expand(1, 1, 3, 4)
    out, _ = by_row(torch.nn.Module(), query, key, value, None, position_ids=torch.tensor([[0, 1, 0]]))
    assert out.shape == (1, 3, 2, 4)
    assert out[0, :, 0, 0].tolist() == out[0, :, 1, 3].tolist() == [2.0, 3.0, 9.0]


def test_what_is_not_packed_is_refused():
    from tamtrl.cpu.attention import by_row

    two = torch.zeros(2, 1, 3, 4)
    with pytest.raises(UserError, match="attention_by_row is for packed rows"):
        by_row(torch.nn.Module(), two, two, two, None, position_ids=torch.tensor([[0, 1, 2], [0, 1, 2]]))


def test_log_probabilities_of_bfloat16_are_float32():
    """Of 3 logits 0, 0 and ln 2 in bfloat16: 1/4, 1/4, 1/2."""
    from tamtrl.cpu.logprobs import of_labels

    logits = torch.tensor([[0.0, 0.0, 0.6931]], dtype=torch.bfloat16)
    found = of_labels(logits.expand(2, 3), torch.tensor([0, 2]))
    assert found.dtype == torch.float32 and found.exp().tolist() == pytest.approx([0.25, 0.5], abs=1e-3)


def test_a_models_architecture_is_its_config(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(QWEN3), encoding="utf-8")
    assert architecture(str(tmp_path)) == QWEN3
