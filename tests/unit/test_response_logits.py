"""verl's engine with logits of responses only, against verl's own."""

import sys

import torch
from conftest import REPOSITORY
from tensordict import TensorDict

sys.path.append(str(REPOSITORY / "benchmarks"))
import response_logits as benchmark


def jagged(*rows: list[int]) -> torch.Tensor:
    return torch.nested.as_nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)


def test_predicting_places_by_hand():
    """Rows of 3 + 2 and 1 + 1 tokens: 4 and 5 are predicted at places 2 and 3, 7 at place 5."""
    from tamtrl.training.response_logits import predicting

    ids = jagged([1, 2, 3, 4, 5], [6, 7])
    training = TensorDict({"input_ids": ids, "responses": jagged([4, 5], [7])}, batch_size=[2])
    distillation = TensorDict({"input_ids": ids, "loss_mask": jagged([0, 0, 0, 1, 1], [0, 1])}, batch_size=[2])
    assert predicting(training).tolist() == predicting(distillation).tolist() == [2, 3, 5]


def test_same_numbers_as_verls_engine(tmp_path):
    """Loss, log-probabilities and gradients of five packed rows in three micro-batches, in float32, to rounding; with attention
    row by row too."""
    arguments = {"shape": "tiny", "prompt": 50, "response": 20, "rows": 5, "packed": 2, "dtype": "float32", "repeats": 1}
    table = benchmark.compare(tmp_path / "two", 2, arguments)
    # 70 + 68 + 66 + 64 + 62, and 20 + 19 + 18 + 17 + 16 of responses
    assert table["logits"].to_dict() == {"verl": 330, "ours": 90, "by row": 90}
    assert table.loc["ours", "loss"] != 0 and (table["loss"] - table.loc["verl", "loss"]).abs().max() < 1e-6
    apart = table.loc[["ours", "by row"], ["gradients apart", "log-probabilities apart"]]
    assert (apart < 1e-5).all(axis=None)
    assert apart.loc["by row", "gradients apart"] != apart.loc["ours", "gradients apart"]  # attention was another
