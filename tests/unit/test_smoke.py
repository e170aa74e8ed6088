"""A first run's list of checks: what holds, and what it says where something does not."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from test_training import paper_run

from tamtrl.errors import UserError
from tamtrl.planning import smoke

METRICS = {
    "step": [1, 2, 3], "outcome": [0.25, 0.5, 0.5], "reward": [0.2, 0.4, 0.4], "response_length": [90.0, 80, 70],
    "grad_norm": [0.5, 0.0, 0.7], "log_prob_difference": [0.3, 0.2, 0.3],
    "log_prob_difference_mean": [0.01, 0.012, 0.011], "kl": [0.0, 1e-4, 2e-4], "rows": [64.0, 64, 64],
    "seconds_step": [70.0, 40, 41], "seconds_gen": [20.0, 20, 21],
}  # fmt: skip


@pytest.fixture
def first_run(tmp_path) -> Path:
    """The files of a good first run on one GPU."""
    run = replace(paper_run(), training=replace(paper_run().training, steps=3, rollout_batch=4, group=4))
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(asdict(run) | {"scorer": None}))
    hardware = {"visible_devices": "3", "gpus": ["A100, 580.1, 81920 MiB"] * 8}
    card = {"resources": {"device": "gpu", "devices": 1, "cores": 8}, "hardware": hardware}
    (tmp_path / "card.json").write_text(json.dumps(card))
    (tmp_path / "resumed").mkdir()
    pd.DataFrame(METRICS).to_csv(tmp_path / "metrics.csv", index=False)
    pd.DataFrame(METRICS).to_csv(tmp_path / "resumed" / "metrics.csv", index=False)
    (tmp_path / "resumed" / "attempts.json").write_text("[[1, 2], [2, 3]]")  # killed in step 3, or before step 2 was saved
    pd.DataFrame({"model": ["0.6B"] * 2, "reproduced": [10.0, 20.0]}).to_csv(tmp_path / "table1.csv", index=False)
    return tmp_path


def report(folder: Path, say=lambda line: None) -> str:
    smoke.report(folder / "run.yaml", folder, folder / "resumed", folder / "table1.csv", folder / "smoke.md", say)
    return (folder / "smoke.md").read_text()


def test_a_good_run(first_run):
    told = report(first_run)
    assert told.count("| yes |") == 7 and "NO" not in told and "3 of A100" in told
    # 64 rows are 4 x 4 trajectories of 4 turns; the longest part of the last step is named
    assert "a step took 70, 40, 41 s" in told and "gen 21.0" in told and "arithmetic for A100s has" in told


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        ({"log_prob_difference_mean": [0.01, 0.3, 0.01]}, "rollouts and trainer agree"),
        ({"kl": [0.2, 0.2, 0.2]}, "no distance from the reference"),
        ({"grad_norm": [0.5, float("inf"), 0.7]}, "are numbers"),
        ({"step": [1, 2, 4]}, "every step of 3 was done"),
    ],
)
def test_metrics_that_cannot_be(first_run, change, failed):
    pd.DataFrame(METRICS | change).to_csv(first_run / "metrics.csv", index=False)
    with pytest.raises(UserError, match=f"1 of 7 checks failed: .*{failed}"):
        report(first_run)
    assert not (first_run / "smoke.md").exists()


def test_devices_resuming_and_tables_that_are_not_there(first_run):
    card = json.loads((first_run / "card.json").read_text())
    card["hardware"]["visible_devices"] = "0,1,2,3,4,5,6,7"  # all, where one was asked for
    (first_run / "card.json").write_text(json.dumps(card))
    (first_run / "resumed" / "attempts.json").write_text("[[1], [1, 2, 3]]")  # from the beginning
    pd.DataFrame({"model": ["0.6B"], "reproduced": [None]}).to_csv(first_run / "table1.csv", index=False)
    told = []
    with pytest.raises(
        UserError, match=r"3 of 7 checks failed: training saw 1 GPU.*killed after its first checkpoint.*tables have numbers"
    ):
        report(first_run, told.append)
    assert sum(": NO, " in line for line in told) == 3  # all is said before it ends
