"""The test cluster: a real SLURM of two nodes on this machine."""

import os
import subprocess
from pathlib import Path

import pytest
from jobs import stop_started

SCRIPT = Path(__file__).parent / "cluster.sh"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory) -> Path:
    """One node that says it has eight A100s; yields the folder of its logs."""
    if not os.environ.get("TAMTRL_TEST_SLURM"):
        pytest.skip("TAMTRL_TEST_SLURM=1 lets these tests install SLURM's Debian packages and write /etc/slurm, as root")
    folder = tmp_path_factory.mktemp("slurm")
    started = subprocess.run(["bash", SCRIPT, "up", folder], capture_output=True, text=True)
    try:
        assert started.returncode == 0, started.stdout + started.stderr
        yield folder
    finally:
        stop_started()
        subprocess.run(["bash", SCRIPT, "down", folder], check=True)
