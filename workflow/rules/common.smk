# The configuration and the run table, as all rules ask them. Kept cheap: it is parsed again in every job.
import os
import sys
from contextlib import ContextDecorator
from pathlib import Path

import pandas as pd
import yaml
from snakemake.exceptions import WorkflowError
from snakemake.pathvars import Pathvars

# Everything of ours is found from here, wherever Snakemake was started, and also when this workflow is a module of another.
ROOT = Path(str(workflow.current_basedir)).parents[1].resolve()
if not (ROOT / "tamtrl").is_dir():  # a file fetched from a hosting service
    raise WorkflowError("This workflow runs from a clone, with the package beside it; say snakefile: CLONE/Snakefile.")
sys.path.insert(0, str(ROOT))
from tamtrl import frames
from tamtrl.errors import UserError
from tamtrl.planning import plan
from tamtrl.record import code_digest
from tamtrl.workflow import checkout, configuration, handed_on, slurm
from tamtrl.workflow.data_sets import option
from tamtrl.workflow.patterns import PRM, ROUND, RUN, RUN_LOGS, TEST, TRAJECTORIES, alternatives, data_set, sums
from tamtrl.workflow.resources import of_job
from tamtrl.workflow.study import Study
from tamtrl.workflow.times import PROJECTED


class told(ContextDecorator):
    """What the package refuses in one sentence is an error of Snakemake's own, which it shows without a traceback."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if isinstance(error, UserError):
            raise WorkflowError(str(error)) from None


class Asked:
    """An object of the package, as rules ask it while they are read and while jobs are planned."""

    def __init__(self, answering):
        self._answering = answering

    def __getattr__(self, name):
        with told():
            answer = getattr(self._answering, name)
        return told()(answer) if callable(answer) else answer


with told():
    checkout.use(ROOT, submitted=workflow.remote_exec)
slurm.be_patient()
workflow.config_settings.config_args = handed_on.arguments(workflow.config_settings.config)

# A module of another workflow is given a configuration in place of config.yaml, which may say only what differs.
GIVEN = config if workflow.modifier.skip_configfile else workflow.config_settings.overwrite_config
with told():
    config.update(configuration.complete(GIVEN, ROOT))
workflow.pathvars.update(Pathvars.from_config(config))
PATHVARS = workflow.pathvars


def concrete(path):
    """Snakemake puts pathvars into inputs, outputs and logs, but not into params."""
    return PATHVARS.apply(path)


with told():
    study = Study.load(config, ROOT, fetched_index=Path(concrete("<results>/archive")))
paper, rows, runs, models, sets, trajectories, scorers, restored, times, sweeps, downloads = map(Asked, study)


wildcard_constraints:
    model=alternatives(paper.models),
    method=alternatives(row.method for row in rows.every),
    variant=alternatives(row.variant for row in rows.every),
    benchmark=alternatives(paper.datasets),
    source=alternatives(paper.sources),
    seed=r"\d+",


# Pieces of rules.

SCORES = ["csv", "documents.csv"]  # of a benchmark, and of each of its documents


def ours(path):
    return checkout.ours(ROOT, path)


def code(*modules, without=()):
    """A parameter of every rule: the digest of the code behind its command. Snakemake sees only the command, and would keep, or take from
    its cache, what other code made."""
    return code_digest.digest(*(f"tamtrl.{module}" for module in modules), without=without)


def cores(stage):
    return config["resources"][stage]["cores"]


def stage(name):
    return of_job(config["resources"], name, os.environ.get("TAMTRL_SLURM_GPU_CONSTRAINT"))


def scratch(wildcards):
    return concrete("<scratch>/{model}/{method}/{variant}/seed{seed}".format(**wildcards))


def parent(name):
    """A parameter: the folder of an output."""
    return lambda wc, output: os.path.dirname(output[name])


def folder_of(name):
    """A parameter: the folder that an input stands for."""
    return lambda wc, input: input[name].removesuffix(".sha256")


def optional(name, key):
    """A parameter: the option of an input that a rule may have."""
    return lambda wc, input: option(name, input.get(key))


def figure_files(name, caption, category="Figures of the paper"):
    """The outputs of a figure; the picture is in the report."""
    picture = report(f"<results>/figures/{name}.png", caption=caption, category=category, labels={"figure": name})
    return {"csv": f"<results>/figures/{name}.csv", "svg": f"<results>/figures/{name}.svg", "png": picture}


def place_of(pathvar):
    """Where it really is: Snakemake may work elsewhere than it was started."""
    return Path(concrete(f"<{pathvar}>")).absolute()


onstart:
    print(
        f"Configuration {config['label']}: {len(rows.selected)} runs, {len(rows.cases(rows.selected))} with all seeds "
        f"({', '.join(dict.fromkeys(row.method for row in rows.selected))}) on "
        f"{', '.join(dict.fromkeys(row.model for row in rows.selected))}; "
        f"results in {place_of('results')}, logs in {place_of('logs')}.",
        file=sys.stderr,
    )


# What was asked for may be anything between one table of published numbers and all; the last lines name what is there.
onsuccess:
    made = {job.rule.name for job in workflow.dag.jobs}
    if made <= {"paper_tables", "paper_table"}:
        done = f"Done. The published numbers are in {Path('results/published').absolute()}."
    else:
        done = f"Done. Results are in {place_of('results')}. {config['note']}".rstrip()
        if "table" in made and (place_of("results") / "tables" / "table1.md").exists():
            done += f"\nNext: open {place_of('results')}/tables/table1.md; {ours('README.md')} says how to add a method."
    print(done, file=sys.stderr)


onerror:
    print(
        f"Stopped with an error; the log of the failed job is under {place_of('logs')}. The same command continues where it "
        "stopped.",
        file=sys.stderr,
    )
