"""What a job takes of the machine: devices of its own, memory and cores within its control groups, a folder fit for sockets.

The machine's GPUs are pretended by an nvidia-smi on PATH; jobs are real processes of the command line, held where they have
claimed devices by a configuration that is a named pipe.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import psutil
import pytest
import yaml
from conftest import REPOSITORY
from test_cli import refused, tamtrl
from test_training import paper_run

from tamtrl import control_groups, devices, machine, surroundings
from tamtrl.errors import UserError
from tamtrl.settings import Resources
from tamtrl.training import own_sockets
from tamtrl.training.environment import environment


def wait_for(condition, seconds: float = 90):
    deadline = time.time() + seconds
    while not (found := condition()) and time.time() < deadline:
        time.sleep(0.1)
    assert found
    return found


# -- devices -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def gpus(monkeypatch):
    """A function that makes this a machine with so many GPUs, whose locks nobody else has."""
    folder, name = Path(tempfile.mkdtemp(prefix="gpus-")), uuid.uuid4().hex
    folder.chmod(0o755)  # another user's job asks as well

    def pretend(count: int) -> None:
        lines = "".join(f"echo '{number}, GPU-{name}-{number}'\n" for number in range(count))
        (folder / "nvidia-smi").write_text(f'#!/bin/sh\n[ "$1" = --query-gpu=index,uuid ] || exit 1\n{lines}')
        (folder / "nvidia-smi").chmod(0o755)

    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    for variable in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "SLURM_JOB_ID"):
        monkeypatch.delenv(variable, raising=False)
    yield pretend
    shutil.rmtree(folder)
    for lock in devices.LOCKS.glob(f"GPU-{name}-*"):
        lock.unlink()


class Job:
    """`tamtrl predict`, which ends when its pipe is let go."""

    def __init__(self, folder: Path, count: int, variables: dict[str, str]):
        folder.mkdir()
        self.pipe, self.log = folder / "run.yaml", folder / "log"
        os.mkfifo(self.pipe)
        arguments = ["predict", self.pipe, "--model", "m", "--data", "d", "--output", folder, "--scratch", folder]
        arguments += ["--device", "gpu", "--devices", count]
        command = [sys.executable, "-m", "tamtrl.cli", *map(str, arguments)]
        self.process = subprocess.Popen(command, stderr=self.log.open("w"), env=os.environ | variables)

    def says(self, text: str) -> str:
        wait_for(lambda: text in self.log.read_text() or self.process.poll() is not None)
        assert text in self.log.read_text()
        return self.log.read_text()

    def claimed(self) -> set[str]:
        return set(self.says(")").rpartition("(CUDA_VISIBLE_DEVICES=")[2].split(")")[0].split(","))

    def end(self) -> str:
        """Let it read its configuration, which is empty."""
        wait_for(lambda: let_go(self.pipe))
        assert self.process.wait(timeout=60) == 2
        return self.log.read_text()


def let_go(pipe: Path) -> bool:
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:  # nobody has come to read it yet
        return False
    return True


@pytest.fixture
def start(tmp_path):
    jobs = []

    def one(count: int, **variables: str) -> Job:
        jobs.append(Job(tmp_path / f"job{len(jobs)}", count, variables))
        return jobs[-1]

    yield one
    for job in jobs:
        job.process.kill()
        job.process.wait()


def test_jobs_get_devices_of_their_own_and_free_them_whatever_their_end(gpus, start):
    gpus(4)
    first, second = start(2), start(1)
    pair, single = first.claimed(), second.claimed()
    assert len(pair) == 2 and len(single) == 1 and not pair & single
    third = start(2)
    third.says("Waiting for 2 of this machine's 4 GPUs: 1 are free")
    # What a waiting job can't use is free for others.
    assert start(1).claimed() == {"0", "1", "2", "3"} - pair - single
    first.process.send_signal(signal.SIGKILL)
    assert third.claimed() == pair
    second.end()
    assert start(1).claimed() == single


def test_what_a_job_was_given_it_keeps(gpus, start):
    gpus(2)
    assert start(2).claimed() == {"0", "1"}
    for given in (start(1, CUDA_VISIBLE_DEVICES="1"), start(2, SLURM_JOB_ID="7")):
        said = given.end()
        assert "Claimed" not in said and "Waiting" not in said


def test_more_devices_than_there_are_are_refused(gpus):
    gpus(2)
    rest = ["predict", "run.yaml", "--model", "m", "--data", "d", "--output", "o", "--scratch", "s", "--device", "gpu"]
    refused(tamtrl(*rest, "--devices", "3"), "needs 3 GPUs but 2 are visible")
    gpus(0)
    refused(tamtrl(*rest), "needs 1 GPUs but 0 are visible")


def test_children_see_the_claimed_devices(gpus, start, tmp_path):
    """The process that would train is started with them, and dies with the one that holds the lock."""
    gpus(2)
    other = start(1).claimed()
    for name in ("train", "validation"):
        (tmp_path / f"{name}.parquet").touch()
    files = {f"{name}_data": str(tmp_path / f"{name}.parquet") for name in ("train", "validation")}
    paper_run(**files).save(tmp_path / "run.yaml")
    run = yaml.safe_load((tmp_path / "run.yaml").read_text())
    run["reading"] |= yaml.safe_load((REPOSITORY / "config" / "toy.yaml").read_text())["reading"]
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(run))
    command = ["train", tmp_path / "run.yaml", "--output", tmp_path / "out", "--scratch", tmp_path / "scratch"]
    command = [sys.executable, "-m", "tamtrl.cli", *map(str, command), "--device", "gpu", "--devices", "1"]
    with subprocess.Popen(command) as job:
        try:
            inside = psutil.Process(job.pid)
            (child,) = wait_for(lambda: [c for c in inside.children() if "tamtrl.training.launch" in c.cmdline()])
            variables = child.environ()
        finally:
            job.kill()
    assert {variables["CUDA_VISIBLE_DEVICES"]} == {"0", "1"} - other and variables["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def claimer(code: str, **options) -> subprocess.Popen:
    script = f"import os, subprocess, time; from pathlib import Path; from tamtrl import devices\n{code}"
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, **options)


def test_children_that_outlive_a_job_do_not_hold_its_devices(gpus, start):
    gpus(1)
    job = claimer("""
devices.claim(1, lambda line: None)
other = subprocess.Popen(["sleep", "300"], close_fds=False)
if forked := os.fork():
    print(other.pid, forked, flush=True)
time.sleep(300)
""")
    children = [psutil.Process(int(pid)) for pid in job.stdout.readline().split()]
    second = start(1)
    second.says("Waiting for 1 of this machine's 1 GPUs: 0 are free")
    job.kill()
    assert second.claimed() == {"0"} and all(child.is_running() for child in children)
    for child in children:
        child.kill()
    job.communicate()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start another user's job")
def test_another_user_shares_the_folder(gpus):
    gpus(2)
    folder = f"/tmp/tamtrl-test-{uuid.uuid4().hex}"
    code = f"devices.LOCKS = Path('{folder}'); devices.claim(1, lambda line: None)\n"
    code += "print(os.environ[devices.VISIBLE], flush=True); time.sleep(300)\n"
    started = []
    try:
        for user, device in ((0, "0"), (65534, "1")):
            started.append(claimer(f"os.setuid({user}); os.umask(0o077); {code}"))
            assert started[-1].stdout.readline().strip() == device
    finally:
        for job in started:
            job.kill()
            job.communicate()
        shutil.rmtree(folder)


def test_devices_that_are_visible(gpus, monkeypatch):
    gpus(3)
    assert machine.gpus() == 3
    for named, count in {"": 0, "-1": 0, "NoDevFiles": 0, "5": 1, "0,2": 2, "1,-1,2": 1, "GPU-1f, GPU-2f": 2}.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
        assert machine.gpus() == count, named
    with pytest.raises(UserError, match="needs 3 GPUs but 2 are visible"):
        machine.require(Resources("gpu", 3, 1, 1, 0))


SNAKEFILE = """
rule all:
    input: "0.done", "1.done"

rule predict:
    input: "{n}.yaml"
    output: "{n}.done"
    log: "{n}.log"
    resources: gpu=1
    shell:
        "{PYTHON} -m tamtrl.cli predict {input} --model m --data d --output . --scratch . --device gpu --devices 1 2> {log} "
        "|| touch {output}"
"""


def test_two_jobs_of_the_profile_side_by_side(gpus, tmp_path):
    gpus(2)
    (tmp_path / "Snakefile").write_text(SNAKEFILE.replace("{PYTHON}", sys.executable))
    pipes, logs = ([tmp_path / f"{n}.{kind}" for n in range(2)] for kind in ("yaml", "log"))
    for pipe in pipes:
        os.mkfifo(pipe)
    command = ["snakemake", "--profile", str(REPOSITORY / "local-gpu"), "--cores", "2"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as snakemake:
        try:
            wait_for(lambda: all(log.exists() and "Claimed" in log.read_text() for log in logs))
            for pipe in pipes:
                wait_for(lambda pipe=pipe: let_go(pipe))
            assert snakemake.wait(timeout=60) == 0, snakemake.stderr.read()
        finally:
            snakemake.terminate()
    seen = {log.read_text().rpartition("(CUDA_VISIBLE_DEVICES=")[2].split(")")[0] for log in logs}
    assert seen == {"0", "1"}


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


def test_a_ray_of_its_own_whatever_the_environment(folders, tmp_path):
    """Ray for real, started as training is: a long TMPDIR, and another Ray's variables."""
    code = f"""
import sys
from pathlib import Path
from tamtrl import surroundings
from tamtrl.training import processes
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
