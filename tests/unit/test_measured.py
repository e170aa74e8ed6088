"""The toy results that the repository keeps (results/measured) stand for runs of today's configurations and models."""

import pytest
from conftest import REPOSITORY
from toy_study import study

from tamtrl.record.archive import load

MEASURED = REPOSITORY / "results" / "measured"
WORLDS = sorted(path.parent.name for path in MEASURED.glob("*/index.json"))
CONFIGURATIONS = {"toy": "toy-full", "toy-careless": "toy-careless", "toy-hard": "toy-hard"}


@pytest.mark.parametrize("world", WORLDS)
def test_what_was_measured_is_restored(world):
    entries = load(MEASURED / world / "index.json")["runs"]
    made = study(f"config/{CONFIGURATIONS[world]}.yaml", archive=str(MEASURED / world))
    assert sorted(made.restored.records) == sorted(entries)
    assert {run: set(entry["tests"]) for run, entry in entries.items() if entry["tests"]} == {
        run: {inside.split("/")[1] for one, inside in made.restored.tests if one == run} for run, _ in made.restored.tests
    }
