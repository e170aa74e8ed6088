"""What a job may use of the machine by its control groups, and what it must not take over: a long TMPDIR, another Ray, another
run's sockets."""

import importlib.util
import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tamtrl.errors import UserError
from tamtrl.jobs import control_groups, machine, own_sockets, surroundings
from tamtrl.jobs.environment import environment
from tamtrl.settings import Resources

# -- control groups ----------------------------------------------------------------------------------------------------

GIB = 2**30


def lay_out(root: Path, groups: str, **files: str) -> Path:
    """A pretend /proc and /sys/fs/cgroup; ``/`` is written ``__``."""
    for name, content in {"proc__self__cgroup": groups, **files}.items():
        path = root / name.replace("__", "/") if name.startswith("proc") else root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    return root


def test_limits_of_control_groups_version_2(tmp_path):
    """A parent's limit holds for what is inside it; a sibling's doesn't."""
    files = {
        "slurm/memory.max": "max", "slurm/cpu.max": "max 100000",
        "slurm/job_7/memory.max": str(6 * GIB), "slurm/job_7/cpu.max": "350000 100000",
        "slurm/job_7/step_0/memory.max": str(9 * GIB), "slurm/job_7/step_0/cpu.max": "max 100000",
        "slurm/job_8/memory.max": str(GIB), "slurm/job_8/cpu.max": "100000 100000",
    }  # fmt: skip
    root = lay_out(tmp_path, "0::/slurm/job_7/step_0", **files)
    assert control_groups.memory(root) == (6 * GIB, tmp_path / "sys/fs/cgroup/slurm/job_7/memory.max")
    assert control_groups.cores(root) == 4  # three and a half
    lay_out(tmp_path, "0::/slurm")
    assert control_groups.memory(root) is None and control_groups.cores(root) is None


def test_limits_of_control_groups_version_1(tmp_path):
    """Also where the kernel's path is the host's, and a container sees only its own group, at the top."""
    groups = "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n2:name=systemd:/docker/abc\n0::/docker/abc"
    files = {
        "memory/memory.limit_in_bytes": str(3 * GIB),
        "cpu,cpuacct/cpu.cfs_quota_us": "200000", "cpu,cpuacct/cpu.cfs_period_us": "100000",
    }  # fmt: skip
    root = lay_out(tmp_path, groups, **files)
    assert control_groups.memory(root) == (3 * GIB, tmp_path / "sys/fs/cgroup/memory/memory.limit_in_bytes")
    assert control_groups.cores(root) == 2
    lay_out(tmp_path, groups, **{"cpu,cpuacct/cpu.cfs_quota_us": "-1"})
    assert control_groups.cores(root) is None


def test_no_control_groups(tmp_path):
    assert control_groups.memory(tmp_path) is None and control_groups.cores(tmp_path) is None


def test_a_job_is_refused_by_the_limit_it_has(monkeypatch):
    monkeypatch.setattr(control_groups, "memory", lambda: (2 * GIB, Path("/sys/fs/cgroup/job_7/memory.max")))
    machine.require(Resources("cpu", 1, 1, 1, 2))
    with pytest.raises(UserError, match=r"needs 2.5 GiB of memory but its control group allows 2.0 GiB \(/sys.*job_7/memory.max"):
        machine.require(Resources("cpu", 1, 1, 1, 2.5))
    # A scheduler is asked for whole mebibytes: 0.7 GiB are 716.8, asked as 716.
    monkeypatch.setattr(control_groups, "memory", lambda: (716 * 2**20, Path("memory.max")))
    machine.require(Resources("cpu", 1, 1, 1, 0.7))
    monkeypatch.setattr(control_groups, "cores", lambda: 1)
    with pytest.raises(UserError, match="configured for 2 CPU cores but 1 are"):
        machine.require(Resources("cpu", 1, 1, 2, 0))


# -- surroundings ------------------------------------------------------------------------------------------------------


def folder_of(length: int) -> Path:
    """A new folder whose path is so many bytes long."""
    folder = Path("/tmp") / uuid.uuid4().hex.ljust(length - 5, "x")[: length - 5]
    folder.mkdir()
    assert len(os.fsencode(folder)) == length
    return folder


@pytest.fixture
def folders():
    """Of 23, 24 and 60 bytes: of a socket's 107, Ray's longest path takes 84."""
    made = [folder_of(length) for length in (23, 24, 60)]
    yield made
    for folder in made:
        shutil.rmtree(folder)


def test_the_first_folder_in_which_sockets_can_be_opened(folders):
    fits, one_too_long, long = folders
    assert surroundings.temporary_folder([fits, "/tmp"]) == str(fits)
    assert surroundings.temporary_folder([one_too_long, "/tmp"]) == "/tmp"
    assert surroundings.temporary_folder([long, "/nowhere", "/proc", fits]) == str(fits)
    assert not list(fits.iterdir())
    with pytest.raises(UserError, match=r"can't open sockets in any of .*, /proc: set TMPDIR .* longer than 23 bytes"):
        surroundings.temporary_folder([one_too_long, "/proc"])


RAY = """
import os, sys
from pathlib import Path
import ray, tempfile
from multiprocessing.connection import Listener
address = ray.init(_temp_dir=os.environ["RAY_TMPDIR"], num_cpus=1, include_dashboard=True).address_info["session_dir"]
Listener(family="AF_UNIX").close()
longest = max((str(path) for path in Path(address, "sockets").iterdir()), key=len)
# as they are with a process id of seven digits
print("BELOW", len(longest) - len(tempfile.gettempdir()) + 7 - len(str(os.getpid())), file=sys.stderr)
print("FOREIGN", [name for name in os.environ if name in ("RAY_ADDRESS", "RAY_NAMESPACE")], file=sys.stderr)
"""


@pytest.mark.slow
def test_a_ray_of_its_own_whatever_the_environment(folders, tmp_path):
    """Ray for real, started as training is: a long TMPDIR, and another Ray's variables."""
    code = f"""
import sys
from pathlib import Path
from tamtrl.jobs import surroundings
from tamtrl.jobs import processes
surroundings.settle(print)
folder = Path({str(tmp_path)!r})
code = processes.supervise([sys.executable, "-c", {RAY!r}], {{}}, folder / "log", folder / "register", lambda: 0.0, 120)
sys.exit(code)
"""
    variables = {"TMPDIR": str(folders[2]), "RAY_ADDRESS": "auto", "RAY_NAMESPACE": "x"}
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | variables, capture_output=True, text=True)
    log = (tmp_path / "log").read_text()
    assert done.returncode == 0, log + done.stderr
    assert "Ignored RAY_ADDRESS, RAY_NAMESPACE: " in done.stdout and "Temporary files go to /tmp: " in done.stdout
    assert "FOREIGN []" in log and f"BELOW {surroundings.BELOW}\n" in log and surroundings.BELOW == 84
    assert not list(folders[2].iterdir())


WEIGHTS = """
import sys
from pathlib import Path
from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import BucketedWeightReceiver, BucketedWeightSender
folder, name = sys.argv[1:]
# verl's own address, as the adapter and the engine's worker make it
address = "ipc:///tmp/rl-colocate-zmq-" + name
sender, receiver = BucketedWeightSender(address, use_shm=True), BucketedWeightReceiver(address, device="cpu", use_shm=True)
sender._init_socket()
receiver._init_socket()
sender.socket.send_string("weights")
assert receiver.socket.poll(10_000) and receiver.socket.recv_string() == "weights"
print([str(path) for place in ("/tmp", folder) for path in Path(place).glob("rl-colocate-zmq-" + name)])
"""


@pytest.mark.slow
def test_weights_of_two_runs_on_one_machine_keep_apart(tmp_path):
    """verl's own sockets, and where its code names them: the job's number is the same in every run."""
    variables = environment("m", Resources("cpu", 1, 1, 1, 0), tmp_path / "log") | {"RAY_TMPDIR": str(tmp_path)}
    name = uuid.uuid4().hex[:8]
    command = [sys.executable, "-c", WEIGHTS, str(tmp_path), name]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == f"['{tmp_path}/rl-colocate-zmq-{name}']", done.stderr
    rollout = Path(importlib.util.find_spec("verl").origin).parent / "workers" / "rollout" / "vllm_rollout"
    for module in ("vllm_rollout.py", "utils.py"):
        assert own_sockets.SHARED + "{job_id}-replica-" in (rollout / module).read_text(encoding="utf-8")
