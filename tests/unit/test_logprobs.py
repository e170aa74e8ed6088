import math

import pytest
import torch

from tamtrl.cpu import logprobs


@pytest.mark.parametrize("at_a_time", [1, 4, 1 << 20])
def test_by_hand(at_a_time):
    logits = torch.tensor([[[0.0, math.log(3)], [math.log(7), 0.0]]], requires_grad=True)
    found = logprobs.of_labels(logits, torch.tensor([[1, 1]]), at_a_time)
    assert found.exp().tolist() == [[pytest.approx(3 / 4), pytest.approx(1 / 8)]]
    found.sum().backward()  # of log p_i: 1 - p at i, -p elsewhere
    assert logits.grad.flatten().tolist() == pytest.approx([-1 / 4, 1 / 4, -7 / 8, 7 / 8])


def test_as_verl_does_it():
    """What it replaces takes the same numbers; what isn't float32 is left to verl."""
    from verl.utils import torch_functional as verl

    logits = torch.randn(500, 300, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(500) % 300
    torch.testing.assert_close(
        logprobs.of_labels(logits, labels, 3000), verl.logprobs_from_logits_v2(logits, labels), rtol=0, atol=1e-6
    )
