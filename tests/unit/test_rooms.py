"""The rooms of the package: each imports only what stands below it, and no module, directly or not, itself."""

import pytest
from rooms import TREES, imports, room

# From the foundation up; what shares a line knows nothing of each other. A module of the package itself is a room of its own.
FLOORS = [
    "errors seeds system",
    "files statistics",
    "frames stored",
    "credit tasks answers",
    "reading",
    "settings",
    "record cpu",
    "jobs",
    "evaluation",
    "turn_scores",
    "training distillation models paper",
    "planning",
    "workflow",
    "commands",
    "cli",
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms.split()}


def test_every_module_has_its_floor():
    assert {room(module) for module in TREES if module != "tamtrl"} == set(FLOOR)


@pytest.mark.parametrize("module", sorted(TREES.keys() - {"tamtrl"}))
def test_imports_run_down(module):
    above = {other for other in imports(module) if room(other) != room(module) and FLOOR[room(other)] >= FLOOR[room(module)]}
    assert not above, f"{module} imports {', '.join(sorted(above))}, which stand no lower"


def test_no_circle_within_a_room():
    """Between rooms there can be none where imports run down."""
    ended: set[str] = set()

    def walk(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"a circle of imports: {' -> '.join((*path, module))}"
        if module not in ended:
            for other in imports(module):
                walk(other, (*path, module))
            ended.add(module)

    for module in TREES:
        walk(module, ())
