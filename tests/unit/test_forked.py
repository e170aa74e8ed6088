"""Processes forked in place of new ones, without verl and vLLM: those are in tests/workflow."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tamtrl.cpu import handed_over

SPAWNING = """
import multiprocessing, os, sys, time
from tamtrl.cpu import spare

def child(queue, code):
    queue.put((os.getpid(), os.getppid(), os.environ.get("GIVEN"), sys.argv[1:]))
    time.sleep(60 if code < 0 else 0)
    sys.exit(code)

if __name__ == "__main__":
    spare.keep()
    os.environ["GIVEN"] = "late"
    context = multiprocessing.get_context("spawn")
    for code in map(int, sys.argv[1:]):
        queue = context.Queue()
        process = context.Process(target=child, args=(queue, code))
        process.start()
        pid, parent, given, arguments = queue.get(timeout=30)
        assert (pid, parent, given, arguments) == (process.pid, os.getpid(), "late", sys.argv[1:])
        if code < 0:
            os.kill(process.pid, -code)
        process.join(30)
        assert process.exitcode == code, process.exitcode
        print("ended", process.exitcode)
"""


def script(tmp_path: Path, text: str) -> str:
    (tmp_path / "script.py").write_text(text)
    return str(tmp_path / "script.py")


@pytest.mark.parametrize("codes", [["7"], ["-9", "0"], ["-15", "3"]])
def test_a_spare_is_the_first_process_that_is_spawned_and_ends_as_one(tmp_path, codes):
    done = subprocess.run([sys.executable, script(tmp_path, SPAWNING), *codes], capture_output=True, text=True, timeout=120)
    assert done.stdout == "".join(f"ended {code}\n" for code in codes), done.stderr


def test_the_spawned_process_was_forked(tmp_path):
    """It knows a module that only its parent imported."""
    text = SPAWNING.replace("spare.keep()", "sys.modules['only_here'] = sys; spare.keep()").replace(
        "    queue.put(", "    assert 'only_here' in sys.modules\n    queue.put("
    )
    done = subprocess.run([sys.executable, script(tmp_path, text), "0"], capture_output=True, text=True, timeout=120)
    assert done.stdout == "ended 0\n", done.stderr


def test_a_spare_dies_with_its_parent(tmp_path):
    text = "from tamtrl.cpu import spare; import time\nspare.keep(); print(1, flush=True); time.sleep(60)"
    parent = subprocess.Popen([sys.executable, script(tmp_path, text)], stdout=subprocess.PIPE)
    parent.stdout.readline()
    (spare,) = psutil.Process(parent.pid).children()
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.time() + 10
    while spare.is_running() and spare.status() != psutil.STATUS_ZOMBIE and time.time() < deadline:
        time.sleep(0.05)
    assert not spare.is_running() or spare.status() == psutil.STATUS_ZOMBIE


def test_without_a_template_a_worker_is_python_itself(tmp_path):
    worker = Path(handed_over.__file__).with_name("worker.py")
    command = [sys.executable, "-S", "-E", str(worker), str(tmp_path / "none"), "-c", "import psutil; print('whole')"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "whole\n"
