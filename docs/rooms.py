"""The package's modules and rooms as its code has them: who imports whom, and what each says of itself. For the figure of
docs/architecture.md and for tests/unit/test_rooms.py."""

import ast
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def module_of(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_of(path): path for path in sorted((REPOSITORY / "tamtrl").rglob("*.py"))}
TREES = {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in FILES.items()}


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
            named |= inside & TREES.keys() or {str(node.module)}
    return (named & TREES.keys()) - {"tamtrl", module}


def room(module: str) -> str:
    """A folder of the package; a module of the package itself is a room of its own."""
    return module.split(".")[1]


def graph() -> dict[str, set[str]]:
    """The rooms that each room imports."""
    found: dict[str, set[str]] = {room(module): set() for module in TREES if module != "tamtrl"}
    for module in TREES.keys() - {"tamtrl"}:
        found[room(module)] |= {room(other) for other in imports(module)} - {room(module)}
    return found


def below(name: str, edges: Mapping[str, set[str]]) -> set[str]:
    """All that it leads to, in one step or more. There must be no circles."""
    return edges[name].union(*(below(other, edges) for other in edges[name]))


def reduced(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Without the edges that others imply: a to c where there are a to b and b to c."""
    return {name: others - set().union(*(below(other, edges) for other in others)) for name, others in edges.items()}


def from_below(edges: Mapping[str, set[str]]) -> list[str]:
    """What leads to less comes first, so each after all that it leads to."""
    return sorted(edges, key=lambda name: (len(below(name, edges)), name))


def purpose(name: str) -> str:
    """The first paragraph of a room's own docstring, as one line."""
    return " ".join((ast.get_docstring(TREES[f"tamtrl.{name}"]) or "").split("\n\n")[0].split())
