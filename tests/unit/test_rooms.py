"""The rooms of the package: each imports only what stands below it, and no module, directly or not, itself."""

import ast
from pathlib import Path

import pytest
from conftest import REPOSITORY

# From the foundation up; what shares a line knows nothing of each other. A module of the package itself is a room of its own.
FLOORS = [
    "errors seeds system",
    "files statistics",
    "frames",
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


def module_of(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {module_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in (REPOSITORY / "tamtrl").rglob("*.py")}


def imports(module: str) -> set[str]:
    """Modules of the package that it imports, wherever in it."""
    named: set[str] = set()
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module} has an import relative to itself"
            # ``from package import name``: a module of the package, or a name in it
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            named |= inside & TREES.keys() or {node.module}
    return (named & TREES.keys()) - {"tamtrl", module}


def room(module: str) -> str:
    return module.split(".")[1]


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
