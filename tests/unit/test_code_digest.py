"""What a result depends on of this package's code, and what it doesn't."""

import ast
import os
import shutil
import subprocess
import sys

import pytest
from conftest import REPOSITORY

from tamtrl.record import code_digest


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package to edit."""
    shutil.copytree(REPOSITORY / "tamtrl", tmp_path / "tamtrl", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code_digest, "ROOT", tmp_path)

    def fresh():
        for function in (code_digest._tree, code_digest._imports, code_digest._code):
            function.cache_clear()

    def edit(name: str, old: str, new: str) -> None:
        path = tmp_path / "tamtrl" / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
        fresh()

    fresh()
    yield edit
    fresh()


def test_blind_to_comments_docstrings_and_formatting(package):
    before = code_digest.digest("tamtrl.answers.scoring")
    package("answers/scoring.py", '"""', '"""Another word here. ')
    package("answers/scoring.py", "import ", "# a comment\n\n\nimport ")
    assert code_digest.digest("tamtrl.answers.scoring") == before


def test_a_changed_line_changes_exactly_its_users(package):
    score, table = code_digest.digest("tamtrl.evaluation.score"), code_digest.digest("tamtrl.tasks.toy")
    package("answers/verifier.py", "300", "301")
    assert code_digest.digest("tamtrl.evaluation.score") != score and code_digest.digest("tamtrl.tasks.toy") == table


def test_metrics_of_evaluation_do_not_touch_trained_runs(package):
    """The verifier does, but it is a module of its own."""
    score, run = code_digest.digest("tamtrl.evaluation.score"), code_digest.of_training("judge", True)
    package("answers/scoring.py", "a|an|the", "a|an")
    package("answers/latex.py", "emph|", "")
    assert code_digest.digest("tamtrl.evaluation.score") != score and code_digest.of_training("judge", True) == run
    package("answers/verifier.py", "300", "301")
    assert code_digest.of_training("judge", True) != run


def test_a_credit_method_changes_its_own_runs(package):
    def of(method: str) -> str:
        return code_digest.of_training(method, method in ("judge", "prm"))

    before = {method: of(method) for method in ("outcome", "teacher", "judge", "prm")}
    package("credit/outcome.py", "return turns.outcome", "return 2 * turns.outcome")
    assert {method for method in before if of(method) != before[method]} == {"outcome"}
    package("credit/scored.py", "p * r", "p * r * 1")
    assert of("teacher") != before["teacher"] and of("judge") != before["judge"]
    before = {method: of(method) for method in before}
    package("turn_scores/grades.py", "BEST = 10", "BEST = 5")
    assert {method for method in before if of(method) != before[method]} == {"judge", "prm"}  # one client serves both


def test_settings_for_verl_count_and_their_comments_do_not(package):
    before = code_digest.digest("tamtrl.training.launch")
    package("training/config/base.yaml", "entropy_coeff: 0", "entropy_coeff: 0 # a comment")
    assert code_digest.digest("tamtrl.training.launch") == before
    package("training/config/base.yaml", "entropy_coeff: 0", "entropy_coeff: 0.1")
    assert code_digest.digest("tamtrl.training.launch") != before


def test_what_only_carries_a_run_out_does_not_count(package):
    before = code_digest.digest("tamtrl.training.launch", "tamtrl.training.trainer")
    package("jobs/processes.py", "REGISTER_SECONDS = 5", "REGISTER_SECONDS = 6")
    assert code_digest.digest("tamtrl.training.launch", "tamtrl.training.trainer") == before


def test_the_command_line_does_not_count():
    """Nor any module of its package."""
    modules = ["tamtrl.cli", "tamtrl.commands", "tamtrl.commands.training", "tamtrl.evaluation.score"]
    assert code_digest.digest(*modules) == code_digest.digest("tamtrl.evaluation.score")
    assert "tamtrl.commands.data" not in code_digest.closure(modules, code_digest.OPERATIONAL)


def test_modules_that_are_named_exist():
    assert all(code_digest._path(module) for module in code_digest.OPERATIONAL)
    with pytest.raises(ValueError, match="there is no module"):
        code_digest.digest("tamtrl.nothing")
    without = code_digest.closure(["tamtrl.training.agent_loop"], {"tamtrl.turn_scores.client"})
    assert "tamtrl.turn_scores.judge" not in without and "tamtrl.reading.reader" in without


def test_code_is_written_alike_by_every_python():
    """By hand: no empty field, which versions have more or fewer of; neighbouring text of an f-string as one; only ASCII."""
    tree = ast.parse("def f(x=None):\n    return f'é{x!r:>3}' 'b'\n")
    assert code_digest.canonical(tree) == (
        "Module(body=[FunctionDef(args=arguments(args=[arg(arg='x')], defaults=[Constant()]), "
        "body=[Return(value=JoinedStr(values=["
        "Constant(value='\\xe9'), "
        "FormattedValue(conversion=114, format_spec=JoinedStr(values=[Constant(value='>3')]), value=Name(id='x')), "
        "Constant(value='b')]))], name='f')])"
    )
    tree.body[0].type_params = []  # as Python 3.12 has it
    tree.body[0]._fields = (*tree.body[0]._fields, "type_params")
    assert "type_params" not in code_digest.canonical(tree)
    cut = ast.JoinedStr([ast.Constant("a"), ast.Constant("b")])
    assert code_digest.canonical(cut) == "JoinedStr(values=[Constant(value='ab')])"


def test_digests_do_not_depend_on_the_locale():
    script = "from tamtrl.record import code_digest as c; print(c.digest('tamtrl.paper.tables'), c.of_training('teacher', True))"
    told = {
        subprocess.run(
            [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True, env=os.environ | variables
        ).stdout
        for variables in ({"PYTHONUTF8": "1"}, {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"})
    }
    assert len(told) == 1
