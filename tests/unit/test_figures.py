"""Figures and what is drawn in them, from small CSV files."""

import pandas as pd
import pytest

from tamtrl.errors import UserError
from tamtrl.paper import figures, memories, style, sweeps
from tamtrl.paper.scores import Layout


def test_where_the_answer_enters_and_leaves():
    record = {
        "document": 3,
        "answers": ["Rome"],
        "memories": ["nothing", "It is Rome", "It is rome.", "lost"],
        "tokens": [2, 4, 4, 2, 3],
    }
    table = memories.traces([record])
    assert table["holds"].tolist() == [0, 1, 1, 0] and table["enters"].tolist() == [0, 1, 0, 0]
    assert (
        table["leaves"].tolist() == [0, 0, 0, 1]
        and table["tokens"].tolist() == [2, 4, 4, 2]
        and table["turn"].tolist() == [1, 2, 3, 4]
    )


def test_names_at_the_ends_of_lines_keep_their_distance():
    assert style.spread([0.5, 0.1], 0.2, 0, 1) == [0.5, 0.1]
    # three at one height spread upwards, and are pushed back below the top
    assert style.spread([0.9, 0.9, 0.9], 0.2, 0, 1) == pytest.approx([0.6, 0.8, 1.0])


def test_turn_rewards_by_relevance(tmp_path):
    """Only the last half of the steps counts."""
    by_kind = {"reward_turn_0_relevant": [0, 0, 0.2, 0.4], "reward_turn_0_other": [1, 1, 0.5, 0.7]}
    columns = {"step": [1, 2, 3, 4], "outcome": 1.0, "reward_turn_answer": 1.0, "reward_turn_0": 1.0}
    pd.DataFrame(columns | by_kind).to_csv(tmp_path / "m.csv")
    run = dict(model="toy", method="tamtrl", variant="main", seed=0, metrics=tmp_path / "m.csv")
    pd.DataFrame([run]).to_csv(tmp_path / "runs.csv", index=False)
    figures.turn_rewards(tmp_path / "runs.csv", "", tmp_path / "f.csv")
    drawn = pd.read_csv(tmp_path / "f.csv").set_index("kind")["reward"]
    assert drawn["relevant"] == pytest.approx(0.3) and drawn["other"] == pytest.approx(0.6) and len(drawn) == 2


def test_sweep_points(tmp_path):
    rows = []
    for value, scores in {4: [1, 1], 6: [1, 0]}.items():
        path = tmp_path / f"{value}.csv"
        pd.DataFrame({"document": [0, 1], "id": ["a", "b"], "score": scores}).to_csv(path, index=False)
        rows.append(
            dict(model="toy", method="tamtrl", variant=f"documents_{value}", seed=0, benchmark="a", value=value, documents=path)
        )
    pd.DataFrame(rows).to_csv(tmp_path / "runs.csv", index=False)
    sweeps.draw({"varied": (tmp_path / "runs.csv", "Paragraphs")}, Layout(["a"]), "", tmp_path / "f.csv")
    drawn = pd.read_csv(tmp_path / "f.csv").set_index("value")["reproduced"]
    assert drawn.to_dict() == {4: 100, 6: 50} and (tmp_path / "f.png").stat().st_size > 10_000


def test_figure_and_its_data(tmp_path):
    rows = []
    for method in ("memagent", "tamtrl"):
        path = tmp_path / f"{method}.csv"
        # step 0 holds only a validation and is not drawn
        pd.DataFrame({"step": [0, 1, 2], "outcome": [None, 0.1, 0.2], "response_length": [None, 5, 6]}).to_csv(path)
        rows.append(dict(model="toy", method=method, variant="main", seed=0, metrics=path))
    pd.DataFrame(rows).to_csv(tmp_path / "runs.csv", index=False)
    figures.dynamics(tmp_path / "runs.csv", "A title", tmp_path / "f.csv")
    drawn = pd.read_csv(tmp_path / "f.csv")
    assert len(drawn) == 4 and set(drawn["run"]) == {"memagent", "tamtrl"}
    svg = (tmp_path / "f.svg").read_bytes()
    assert b"<svg" in svg and (tmp_path / "f.png").stat().st_size > 10_000
    figures.dynamics(tmp_path / "runs.csv", "A title", tmp_path / "f.csv")
    assert (tmp_path / "f.svg").read_bytes() == svg


def test_empty_lists_are_refused(tmp_path):
    (tmp_path / "runs.csv").write_text("model,method,variant,seed,metrics\n")
    with pytest.raises(UserError, match="lists no training run"):
        figures.dynamics(tmp_path / "runs.csv", "", tmp_path / "f.csv")
