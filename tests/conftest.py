"""Shared pieces: a copy of the repository, a word-level tokenizer and reader of the toy task, and made-up HotpotQA records."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
CLUSTER = REPOSITORY / "tests" / "slurm" / "cluster.sh"


@pytest.fixture(autouse=True)
def no_ray_variables(monkeypatch):
    """verl and Ray set some when they are imported; a command would say that it ignores them."""
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def in_the_checkout(monkeypatch):
    """Configurations name files from here."""
    monkeypatch.chdir(REPOSITORY)


@pytest.fixture(scope="session")
def toy_tokenizer():
    from tamtrl.models.course import toy_texts
    from tamtrl.models.tokenizers import word_tokenizer

    return word_tokenizer(toy_texts())


@pytest.fixture(scope="session")
def bpe_tokenizer():
    from tamtrl.models.tokenizers import bpe_tokenizer

    return bpe_tokenizer(["A small text about a city, its river and 1,000 bridges.\n\nDocument 1:\n"] * 3, 300)


def toy_budgets(**changes):
    from tamtrl.reading.budgets import Budgets

    values = dict(query_tokens=16, chunk_tokens=28, memory_tokens=20, output_tokens=8, window_tokens=128, max_chunks=12)
    return Budgets(**values | changes)


def hotpot_record(number: int, paragraphs: int = 10, **changes) -> dict:
    """A made-up record in the official layout; paragraphs 0 and 1 are supporting."""
    context = [
        [f"Title {number}-{k}", [f"Sentence one of {number}-{k}.", f" It has value v{number}{k}."]] for k in range(paragraphs)
    ]
    record = {
        "_id": f"q{number}",
        "question": f"What is the value of {number}-1?",
        "answer": f"v{number}1",
        "supporting_facts": [[f"Title {number}-0", 0], [f"Title {number}-1", 1]],
        "context": context,
        "type": "bridge",
        "level": "hard",
    }
    return record | changes


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Real public records, where a folder of them is given (they are not part of this repository)."""
    folder = os.environ.get("TAMTRL_REAL_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("TAMTRL_REAL_DATA names no folder of real HotpotQA records")
    return Path(folder)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A copy of what is tracked, so that nothing of the working tree's own results is touched or relied on."""
    folder = tmp_path_factory.mktemp("checkout") / "repository"
    names = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    for name in filter(None, names.decode().split("\0")):
        source, target = REPOSITORY / name, folder / name
        if source.is_symlink() or source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    return folder


@pytest.fixture(scope="session")
def cluster(tmp_path_factory) -> Path:
    """One node that says it has eight A100s; yields the folder of its logs."""
    if not os.environ.get("TAMTRL_TEST_SLURM"):
        pytest.skip("TAMTRL_TEST_SLURM=1 lets these tests install SLURM's Debian packages and write /etc/slurm, as root")
    from jobs import stop_started  # beside the tests that use this

    folder = tmp_path_factory.mktemp("slurm")
    started = subprocess.run(["bash", CLUSTER, "up", folder], capture_output=True, text=True)
    try:
        assert started.returncode == 0, started.stdout + started.stderr
        yield folder
    finally:
        stop_started()
        subprocess.run(["bash", CLUSTER, "down", folder], check=True)
