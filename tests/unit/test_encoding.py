"""Text is UTF-8 under every locale: whoever reads or writes some says so."""

import ast
from collections.abc import Iterator

from conftest import REPOSITORY

MODULES = sorted((REPOSITORY / "tamtrl").rglob("*.py"))


def without_encoding(code: str) -> Iterator[str]:
    """Calls that open, read or write text by the locale's encoding."""
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Call) or any(keyword.arg == "encoding" for keyword in node.keywords):
            continue
        called = ast.unparse(node.func)
        name = called.rpartition(".")[2]
        if name in ("read_text", "write_text") and called != "files.write_text":  # ours, which says so itself
            yield ast.unparse(node)
        elif name == "open" and called not in ("os.open", "tarfile.open", "archive.open"):  # bytes
            first = 0 if "." in called and called != "gzip.open" else 1  # a path's own method has the mode first
            modes = [*node.args[first : first + 1], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
            if not any("b" in ast.unparse(mode) for mode in modes):
                yield ast.unparse(node)


def test_every_text_has_an_encoding():
    found = {path.name: list(without_encoding(path.read_text(encoding="utf-8"))) for path in MODULES}
    assert not {name: calls for name, calls in found.items() if calls}


def test_a_text_without_one_is_found():
    for code in (
        "p.read_text()",
        "p.write_text(t)",
        "open('a')",
        "open('a', 'w')",
        "p.open()",
        "p.open('w')",
        "gzip.open(p, 'rt')",
    ):
        assert list(without_encoding(code)), code
    for code in ("p.read_text(encoding='utf-8')", "open('a', 'rb')", "p.open('wb')", "gzip.open(p, 'rb')", "os.open(p, 0)"):
        assert not list(without_encoding(code)), code
