"""What snakemake-executor-plugin-slurm 2.8.0 lacks to get past a SLURM controller that is away for a while.

Where every status query of a round fails it forgets its jobs and waits for ever; a job that ended while nobody could ask, and
that SLURM has forgotten since, it waits for as well; and a submission that meets no controller counts as a failure of the job.
It has no setting for any of these, so three functions of it are wrapped, in the process that runs Snakemake and nowhere else.
"""

import subprocess
import sys
import time
from collections import Counter

PLUGIN = "snakemake_executor_plugin_slurm"
ABSENT = 3  # answers in a row without a job that was in one before; the plugin asks every 40 to 180 seconds
WAIT_SECONDS = 10


def be_patient() -> None:
    """Wrap the plugin, where Snakemake has loaded it and it is not wrapped yet."""
    plugin = sys.modules.get(PLUGIN)
    if plugin and not getattr(plugin.Executor, "patient", False):
        _wrap(plugin)


def _wrap(plugin) -> None:
    ask, check, submit = plugin.query_job_status, plugin.Executor.check_active_jobs, plugin.Executor.run_job
    answers: list[dict[str, str]] = []
    absent: Counter[str] = Counter()
    seen: set[str] = set()

    async def query_job_status(command, logger):
        states, seconds = await ask(command, logger)
        if states is not None:
            answers.append(states)
        return states, seconds

    async def check_active_jobs(self, active_jobs):
        answers.clear()
        running = [job async for job in check(self, active_jobs)]
        if not answers:
            running = active_jobs
        for job in running:
            number = job.external_jobid
            known = answers and any(name in answers[-1] for name in plugin._status_lookup_ids(number))
            if known:
                seen.add(number)
                absent.pop(number, None)
            elif answers and number in seen:
                absent[number] += 1
            if absent[number] >= ABSENT:
                self.logger.warning(f"SLURM has forgotten job {number}; whether it ended well, its outputs say.")
                self.report_job_success(job)
            else:
                yield job

    def run_job(self, job):
        told = False
        while not controller_answers():
            if not told:
                self.logger.warning("SLURM's controller does not answer; jobs are submitted as soon as it does.")
            told = True
            time.sleep(WAIT_SECONDS)
        submit(self, job)

    plugin.query_job_status = query_job_status
    plugin.Executor.check_active_jobs = check_active_jobs
    plugin.Executor.run_job = run_job
    plugin.Executor.patient = True


def controller_answers() -> bool:
    """Also where there is no `scontrol` to ask: then sbatch says what is wrong."""
    try:
        return subprocess.run(["scontrol", "ping"], capture_output=True, timeout=60).returncode == 0
    except FileNotFoundError:
        return True
    except subprocess.TimeoutExpired:
        return False
