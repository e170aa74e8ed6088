"""The toy results that the repository keeps (results/measured) are of today's configurations."""

import pytest
from conftest import REPOSITORY
from toy_study import study

from tamtrl.record.archive import load, settings_digest
from tamtrl.workflow.restored import settings_of
from tamtrl.workflow.run_table import run_name

MEASURED = REPOSITORY / "results" / "measured"
CONFIGURATIONS = {"toy": "toy-full", "toy-careless": "toy-careless"}


@pytest.mark.parametrize("world", sorted(path.parent.name for path in MEASURED.glob("*/index.json")))
def test_what_was_measured_would_come_out_of_todays_settings(world):
    """Or a change of the toy configuration would make what is kept useless, and nobody would see it."""
    made = study(f"config/{CONFIGURATIONS[world]}.yaml")
    cases = {run_name(case): case for case in made.rows.cases(made.rows.selected)}
    for name, entry in load(MEASURED / world / "index.json")["runs"].items():
        case = cases[name]
        row, seed = made.rows.row(case), case["seed"]
        assert entry["settings"] == settings_digest(settings_of(made.runs, case)), name
        assert entry["evaluation"] == settings_digest(made.runs.evaluation(row, seed)), name
        for test, digest in entry["tests"].items():
            assert digest == settings_digest(made.runs.evaluation(row, seed, test)), (name, test)
        predicted = {file for file in entry["files"] if file.startswith("predictions/")}
        assert predicted == {f"predictions/{benchmark}.jsonl.gz" for benchmark in made.paper.evaluated}, name
