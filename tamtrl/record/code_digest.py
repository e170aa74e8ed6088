"""A digest of the code that a result depends on: modules, all that they import of this package, and their YAML files.
Blind to comments, docstrings and formatting, so that only what may change a result makes it be made again."""

import ast
import hashlib
import json
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
# They carry a run out, watch it, write it down, or read its settings, which count by their values. What comes out doesn't depend
# on them. Of a package, all modules.
OPERATIONAL = frozenset(
    f"tamtrl.{name}"
    for name in (
        "cli", "commands", "cpu", "credit.settings", "errors", "evaluation.work", "files", "jobs.checkpoints",
        "jobs.control_groups", "jobs.devices", "jobs.environment", "jobs.job", "jobs.machine", "jobs.processes",
        "jobs.ray_cluster", "jobs.step_log", "jobs.surroundings", "jobs.time_limit", "record.code_digest",
        "record.provenance", "settings", "stored", "system", "training.metrics", "turn_scores.server",
    )
)  # fmt: skip


def digest(*modules: str, without: Collection[str] = ()) -> str:
    """Twelve hex digits. ``without``: modules that are imported but not used for this."""
    parts = []
    for module in sorted(closure(modules, OPERATIONAL | set(without))):
        parts += [module, _code(module)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def of_training(credit_method: str, scored: bool) -> str:
    """Of a reinforcement-learning run: of credit methods and scorers, only those that it uses count."""
    modules = [f"tamtrl.training.{name}" for name in ("launch", "trainer", "agent_loop", "dataset")]
    unused = () if scored else ("tamtrl.turn_scores.client", "tamtrl.turn_scores.updates")
    return digest(*modules, f"tamtrl.credit.{credit_method}", without=unused)


def of_distillation() -> str:
    return digest(*(f"tamtrl.distillation.{name}" for name in ("launch", "trainer", "samples")))


def closure(modules: Iterable[str], without: Collection[str] = ()) -> set[str]:
    """The modules and what they import of this package, directly or not; those in ``without``, of a package all, are neither
    counted nor followed."""

    def counts(module: str) -> bool:
        return not any(module == name or module.startswith(f"{name}.") for name in without)

    found: set[str] = set()
    waiting = list(filter(counts, modules))
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += filter(counts, _imports(module))
    return found


def _path(module: str) -> Path | None:
    base = ROOT.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.exists():
            return path
    return None


@cache
def _tree(module: str) -> ast.Module:
    path = _path(module)
    if path is None:
        raise ValueError(f"there is no module {module}")
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _imports(module: str) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            # ``from package import name``: a module of the package, or a name in it
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(name for name in names if name.startswith("tamtrl.") and _path(name))


@cache
def _code(module: str) -> str:
    tree = _tree(module)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
            first = node.body[0]
            assert isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            first.value.value = ""
    path = _path(module)
    assert path  # as there is a tree
    folder = path.parent / "config"
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.yaml"))]
    return "\n".join([canonical(tree), *(json.dumps(yaml.safe_load(text), sort_keys=True) for text in texts)])


def canonical(node: object) -> str:
    """A syntax tree as text that every version of Python writes alike: ``ast.dump`` gains and drops empty fields from one to the
    next, may cut the text of an f-string elsewhere, and ``repr`` of a string follows the version's Unicode tables."""
    if isinstance(node, list):
        return f"[{', '.join(map(canonical, node))}]"
    if not isinstance(node, ast.AST):
        return ascii(node)
    fields = dict(ast.iter_fields(node))
    if isinstance(node, ast.JoinedStr):
        fields["values"] = _joined(node.values)
    told = [f"{name}={canonical(value)}" for name, value in sorted(fields.items()) if value not in (None, []) and name != "ctx"]
    return f"{type(node).__name__}({', '.join(told)})"


def _joined(values: list[ast.expr]) -> list[ast.expr]:
    """Neighbouring pieces of text as one."""
    joined: list[ast.expr] = []
    for value in values:
        if isinstance(value, ast.Constant) and joined and isinstance(before := joined[-1], ast.Constant):
            joined[-1] = ast.Constant(str(before.value) + str(value.value))
        else:
            joined.append(value)
    return joined
