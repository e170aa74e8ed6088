"""How Ray is started on the nodes of a SLURM job; that it then runs is tested on the test cluster (tests/slurm)."""

from tamtrl.jobs.ray_cluster import start_command, worker_command


def test_a_worker_on_another_node():
    """One task with the whole node's cores, outside the step it is called from; eight GPUs to count; not AMD's variable."""
    step, _, ray = " ".join(worker_command("n2", 64, 136, 8, "10.0.0.1:6379")).partition(" env -u ROCR_VISIBLE_DEVICES ")
    words = step.split()
    assert words[0] == "srun" and {"--nodes=1", "--ntasks=1", "--nodelist=n2", "--cpus-per-task=64"} <= set(words)
    assert {"--overlap", "--cpu-bind=none", "--kill-on-bad-exit=1"} <= set(words)
    assert "--address 10.0.0.1:6379 --num-cpus 136 --num-gpus 8" in ray and "--head" not in ray


def test_the_head(monkeypatch):
    monkeypatch.setenv("RAY_TMPDIR", "/tmp/own")
    told = " ".join(start_command(136, 4, None, 6379))
    assert "--head --port 6379 --include-dashboard false --temp-dir /tmp/own --num-cpus 136 --num-gpus 4" in told
