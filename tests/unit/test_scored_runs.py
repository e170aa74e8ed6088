"""Runs with a judge or a process reward model: what verl is told, and what makes them other runs."""

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import REPOSITORY
from test_training import CPU, GPU, paper_run

from tamtrl.errors import UserError
from tamtrl.settings import Run, Scorer
from tamtrl.training import launch, metrics
from tamtrl.training.train import identity, train


def judged_run(**changes) -> Run:
    settings = dict(kind="judge", model="grader", path=str(REPOSITORY / "models/toy"), endpoint="", window_tokens=512)
    settings |= dict(
        answer_tokens=16, dtype="bfloat16", request={"a": {"b": 1}}, in_flight=4, timeout_seconds=5.0, failures_allowed=0.1
    )
    credit_settings = replace(paper_run().credit, method="judge", minmax="off")
    return paper_run(scorer=Scorer(**settings | dict(gpu_memory=0.3) | changes), credit=credit_settings)


@pytest.mark.slow
def test_a_judge_shares_the_devices_of_its_run(tmp_path):
    judged_run().save(tmp_path / "run.yaml")
    assert Run.load(tmp_path / "run.yaml") == judged_run()
    config = launch.verl_config(judged_run(), GPU, Path("ck"), "http://127.0.0.1:1/v1")
    assert config.actor_rollout_ref.rollout.gpu_memory_utilization == pytest.approx(0.6 - 0.3)
    assert config.tamtrl.scorer.url == "http://127.0.0.1:1/v1" and config.tamtrl.scorer.request.a.b == 1
    elsewhere = launch.verl_config(judged_run(endpoint="http://elsewhere/v1", path=""), GPU, Path("ck"))
    assert elsewhere.actor_rollout_ref.rollout.gpu_memory_utilization == 0.6


def test_what_a_judge_changes_of_a_runs_identity():
    assert identity(judged_run()) == identity(judged_run(in_flight=9, timeout_seconds=1.0, failures_allowed=0.5, gpu_memory=0.2))
    assert identity(judged_run()) != identity(judged_run(path=str(REPOSITORY / "models/toy_teacher")))
    assert identity(judged_run()) != identity(judged_run(request={})) != identity(paper_run())


@pytest.mark.parametrize(
    ("method", "kind", "message"),
    [("judge", None, "needs judge, but `scorer` is not there"), ("judge", "prm", "needs judge, but `scorer` is prm"),
     ("outcome", "judge", "needs no scorer, but `scorer` is judge")],
)  # fmt: skip
def test_a_scorer_must_fit_the_credit_method(tmp_path, method, kind, message):
    run = replace(judged_run(), credit=replace(paper_run().credit, method=method))
    run = replace(run, scorer=replace(run.scorer, kind=kind) if kind else None)
    run.save(tmp_path / "run.yaml")
    with pytest.raises(UserError, match=message):
        train(tmp_path / "run.yaml", CPU, tmp_path / "out", tmp_path / "scratch", print)


def test_seconds_of_scoring():
    # 0-2 and 1-3 overlap, 5-6 stands alone: 3 + 1
    assert metrics.covered([(5, 6), (0, 2), (1, 3)]) == 4
    assert metrics.covered([]) == 0
    base = {"score": 0.5, "error": "", "requests": 1}
    missing = base | {"score": None, "requests": 2, "begin": 2, "end": 8}
    rows = [base | {"begin": 0, "end": 1}, base | {"begin": 0, "end": 1, "requests": 0}, missing, None]
    timing: dict[str, float] = {}
    counts = metrics.scoring_metrics(rows, [4, 4, 6, 6], timing)
    assert timing == {"scoring": 7, "scoring_tail": 2}  # 0-1 and 2-8; the last trajectory was read at 6
    assert counts == {"tamtrl/scores_known": 1, "tamtrl/scores_asked_twice": 1, "tamtrl/scores_missing": 1}
