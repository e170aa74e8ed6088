"""Every trap of TRAPS.md has a test that carries its number."""

import ast
import re

from conftest import REPOSITORY

TESTS = REPOSITORY / "tests"


def marked(source: str) -> set[int]:
    """The numbers in ``@pytest.mark.trap(...)`` of the test functions of a file."""
    numbers = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.trap":
                    numbers |= {argument.value for argument in decorator.args}
    return numbers


def test_every_listed_trap_is_guarded_and_every_guard_listed():
    listed = {int(number) for number in re.findall(r"^\| (\d+) \|", (TESTS / "TRAPS.md").read_text(), re.MULTILINE)}
    guarded = set().union(*(marked(path.read_text()) for path in TESTS.rglob("test_*.py")))
    assert listed == guarded and len(listed) == 22
