"""A short run of tests/fuzz; a longer one by hand (docs/data.md says what it found)."""

import subprocess
import sys

import pytest
from conftest import REPOSITORY


@pytest.mark.slow
def test_damaged_and_odd_files():
    done = subprocess.run([sys.executable, "tests/fuzz", "--cases", "4000"], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4,000 cases, 0 wrong" in done.stdout
