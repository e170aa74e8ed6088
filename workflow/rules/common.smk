# Configuration checked, run table read, what jobs ask for. Kept cheap: it is parsed again in every job.
import json
import os
import re
import shlex
import sys
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from snakemake.exceptions import WorkflowError
from snakemake.pathvars import Pathvars
from snakemake.utils import update_config

# Everything of ours is found from here, wherever Snakemake was started, and also when this workflow is a module of another.
ROOT = Path(str(workflow.current_basedir)).parents[1].resolve()
if not (ROOT / "tamtrl").is_dir():  # a file fetched from a hosting service
    raise WorkflowError("This workflow runs from a clone, with the package beside it; say snakefile: CLONE/Snakefile.")
sys.path.insert(0, str(ROOT))
from tamtrl import credit, frames
from tamtrl.workflow import checkout, handed_on, slurm
from tamtrl.record import code_digest
from tamtrl.planning import costs, plan
from tamtrl.errors import UserError
from tamtrl.settings import DistillationRun, EvaluationRun, ProcessRewardModel, Run, build

try:
    checkout.use(ROOT, submitted=workflow.remote_exec)
except UserError as error:
    raise WorkflowError(str(error)) from None
slurm.be_patient()
workflow.config_settings.config_args = handed_on.arguments(workflow.config_settings.config)


def ours(path):
    """A file of this checkout. By its short name from the checkout itself: that is what its results were made from."""
    return path if Path.cwd() == ROOT else str(ROOT / path)


def located(path, of_ours):
    """A path in a configuration: one of ours is in this checkout; one of the user's where Snakemake works, or else in this
    checkout."""
    return ours(path) if of_ours or not Path(path).exists() and (ROOT / path).exists() else path


def read(path):
    try:
        return yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise WorkflowError(f"{path} can't be read: {' '.join(str(error).split())}") from None


def check(document, schema, where):
    """One sentence for the first thing that does not fit the schema."""
    schema = read(ROOT / "workflow" / "schemas" / schema)
    error = best_match(Draft202012Validator(schema).iter_errors(document))
    if error:
        place = ".".join(map(str, error.absolute_path))
        raise WorkflowError(": ".join(filter(None, [str(where), place, error.message])))


def known(values, allowed, what):
    for value in values:
        if value not in allowed:
            raise WorkflowError(f"Unknown {what} {value!r}; there are {', '.join(map(str, allowed))}.")


# A name is part of paths, of lists with commas, and of commands. The text between may be anything else.
NAME = re.compile(r"[^-\s,={}<>]([^,={}<>\n\r\t]*[^\s,={}<>])?")


def named(document, where):
    """Refuses keys that can't be names; YAML reads a bare null, 007 or 1.5 as something else than text."""
    for name in document:
        if not isinstance(name, str):
            raise WorkflowError(f"{where}: the name {name!r} is not text; put it in quotes.")
        if not NAME.fullmatch(name):
            raise WorkflowError(
                f"{where}: {name!r} can't be a name: it is empty, begins with - or a space, ends with a space, or has one of , = {{ }} < >."
            )


def typed(node, schema):
    """Text as JSON would read it, else text: `--config` hands over nested values as text, and so does runs.tsv. What the schema wants as
    text stays text: a model may be called null, or 1e3. Keys are sorted: their order depends on which file was laid over which, and
    Snakemake reruns what has its parameters in another order.
    """
    if isinstance(node, dict):
        others = schema.get("additionalProperties") or {}
        return {key: typed(node[key], schema.get("properties", {}).get(key, others)) for key in sorted(node, key=str)}
    if isinstance(node, list):
        return [typed(value, schema.get("items", {})) for value in node]
    try:
        value = json.loads(node) if isinstance(node, str) else node
    except json.JSONDecodeError:
        return node
    return node if schema.get("type") == "string" and not isinstance(value, str) else value


DEFAULTS = read(ROOT / "config" / "config.yaml")
SCHEMA = read(ROOT / "workflow" / "schemas" / "config.yaml")["properties"]


def complete(given, before=()):
    """What the user gave, laid over the configuration that it extends, and so on down to config.yaml."""
    below, parent = deepcopy(DEFAULTS), given.get("extends")
    if parent in before:
        raise WorkflowError(f"{parent} extends itself, through {' and '.join(before)}.")
    if parent:
        file = ours(parent) if (ROOT / parent).exists() else parent
        extended = read(file)
        if not isinstance(extended, dict):
            raise WorkflowError(f"{file} must hold keys and values: a configuration extends it.")
        below = complete(extended, (*before, parent))
    update_config(below, given)
    return below


# A module of another workflow is given a configuration in place of config.yaml, which may say only what differs.
GIVEN = config if workflow.modifier.skip_configfile else workflow.config_settings.overwrite_config
config.update(complete(GIVEN))
workflow.pathvars.update(Pathvars.from_config(config))
PATHVARS = workflow.pathvars

SECTIONS = (
    "seeds",
    "tests",
    "reading",
    "closed_book",
    "data_seed",
    "training",
    "distillation",
    "credit",
    "judge",
    "prm",
    "evaluation",
    "resources",
)
for section in SECTIONS:
    config[section] = typed(config.get(section), SCHEMA[section])
if config["credit"] and config["credit"].get("minmax") is False:
    config["credit"]["minmax"] = "off"  # YAML reads a bare off as false
RUNS_FILE, MODELS_FILE, DATASETS_FILE, SOURCES_FILE = (
    located(config[name], config[name] == DEFAULTS[name]) for name in ("runs", "models", "datasets", "sources")
)
SOURCES = read(SOURCES_FILE)
check(SOURCES, "sources.yaml", SOURCES_FILE)
named(SOURCES, SOURCES_FILE)
# `--config NAME=FILE` replaces a source by a file of the user's own.
OWN_FILES = {name: config[name] for name in SOURCES if name in config}
check({key: value for key, value in config.items() if key not in OWN_FILES}, "config.yaml", "configuration")
MODELS = read(MODELS_FILE)
check(MODELS, "models.yaml", MODELS_FILE)
named(MODELS, MODELS_FILE)
DATASETS = read(DATASETS_FILE)
check(DATASETS, "datasets.yaml", DATASETS_FILE)
named(DATASETS, DATASETS_FILE)
named(config["means"], "configuration: means")


def read_runs(path):
    """One row a run: model and items are lists in the file, and become a row a model and a list."""
    try:
        table = frames.read(path, separator="\t")
    except UserError as error:
        raise WorkflowError(str(error)) from None
    for number, row in enumerate(table.to_dict("records"), start=2):
        check(row, "runs.yaml", f"{path} line {number}")
    table["model"] = table["model"].str.split(",")
    table["items"] = table["items"].str.split(",")
    table = table.explode("model", ignore_index=True)
    if repeated := table[table.duplicated(["model", "method", "variant"])].to_dict("records"):
        row = repeated[0]
        raise WorkflowError(f"{path}: {row['model']} {row['method']} {row['variant']} stands there twice.")
    known(table["model"], list(MODELS), f"model in {path}:")
    known([name for name in table["credit"] if name], credit.names(), f"credit method in {path}:")
    return table


def select(table):
    """The rows that config's `select` asks for; a value that matches nothing is an error."""
    as_list = lambda value: value if isinstance(value, list) else [value]
    keep = pd.Series(True, index=table.index)
    for column, values in config["select"].items():
        if not values:
            continue  # all
        cells = table[column].map(as_list)
        known(as_list(values), sorted({value for cell in cells for value in cell}), column)
        keep &= cells.map(lambda cell: bool(set(cell) & set(as_list(values))))
    known(config["leave_out"], sorted(set(table["method"])), "method in leave_out:")
    table = table[keep & ~table["method"].isin(config["leave_out"])]
    if table.empty:
        raise WorkflowError(f"`select` ({config['select']}) matches no row of {RUNS_FILE}.")
    return table.reset_index(drop=True)


ALL_RUNS = read_runs(RUNS_FILE)
RUNS = select(ALL_RUNS)
MEANS = config["means"]
known([part for parts in MEANS.values() for part in parts], list(DATASETS), "benchmark in means:")
known([*config["evaluate_on"], *config["average_over"]], [*DATASETS, *MEANS], "benchmark")
EVALUATED = list(dict.fromkeys(part for column in config["evaluate_on"] for part in MEANS.get(column, [column])))
known(config["train_sets"].values(), list(DATASETS), "data set in train_sets:")
known(config["closed_book"]["models"], list(MODELS), "model in closed_book:")
STAND_INS = {name: DATASETS[name]["stands_for"] for name in EVALUATED if "stands_for" in DATASETS[name]}
# Under every table: what it was made at, and that generated sets are no benchmarks of the paper.
NAMED = ", ".join(f"{name} for {paper}" for name, paper in STAND_INS.items())
NOTE = f"{config['note']} Generated stand-ins: {NAMED}." if STAND_INS else config["note"]


def alternatives(names):
    """A wildcard constraint: one of the names, or nothing at all."""
    return "|".join(sorted(map(re.escape, set(names)))) or "(?!)"


wildcard_constraints:
    model=alternatives(MODELS),
    method=alternatives(ALL_RUNS["method"]),
    variant=alternatives(ALL_RUNS["variant"]),
    benchmark=alternatives(DATASETS),
    source=alternatives(SOURCES),
    seed=r"\d+",


def concrete(path):
    """Snakemake puts pathvars into inputs, outputs and logs, but not into params."""
    return PATHVARS.apply(path)


def code(*modules, without=()):
    """A parameter of every rule: the digest of the code behind its command. Snakemake sees only the command, and would keep, or take from
    its cache, what other code made."""
    return code_digest.digest(*(f"tamtrl.{module}" for module in modules), without=without)


def option(name, value):
    """An option and its value as one word each of a shell command; nothing where there is no value."""
    return f"--{name} {shlex.quote(str(value))}" if value else ""


def resource(stage, key):
    return config["resources"][stage][key]


def stage(name):
    """What a job of a stage asks a scheduler for, and ``place``: the options that tell the command where it runs. In the shell command
    through resources, so that moving to another machine reruns nothing. GPUs are asked for only where the configuration has them: a laptop
    schedules by cores alone.
    """
    where, device = config["resources"][name], config["resources"]["device"]
    asked = {"mem_mb": int(1024 * where["memory_gib"]), "runtime": where["minutes"], "nodes": where["nodes"]}
    model = config["resources"]["gpu_model"]
    if device == "gpu" and (config["resources"]["gres"] or where["nodes"] > 1):
        # Of each node. A total over nodes says nothing about one, neither to a partition file nor to a job step.
        named = config["resources"]["gres"] or (f"gpu:{model}" if model else "gpu")
        asked["gres"] = f"{named}:{where['devices']}"
    elif device == "gpu":
        asked |= {"gpu": where["devices"]} | ({"gpu_model": model} if model else {})
    if where["nodes"] > 1:  # a task on each; `tasks` would mean tasks of a GPU where there are some
        asked |= {"slurm_extra": "--ntasks-per-node=1"} if device == "gpu" else {"tasks": where["nodes"]}
    if device == "gpu" and (constraint := os.environ.get("TAMTRL_SLURM_GPU_CONSTRAINT")):
        asked["constraint"] = constraint
    options = f"--device {device} --devices {where['devices']} --nodes {where['nodes']}"
    return asked | {"place": f"{options} --cores {where['cores']} --memory-gib {where['memory_gib']}"}


def folder(pathvar):
    """Where it really is: Snakemake may work elsewhere than it was started."""
    return Path(concrete(f"<{pathvar}>")).absolute()


onstart:
    print(
        f"Configuration {config['label']}: {len(RUNS)} runs x {len(config['seeds'])} seeds "
        f"({', '.join(dict.fromkeys(RUNS['method']))}) on {', '.join(dict.fromkeys(RUNS['model']))}; "
        f"results in {folder('results')}, logs in {folder('logs')}.",
        file=sys.stderr,
    )


# What was asked for may be anything between one table of published numbers and all; the last lines name what is there.
onsuccess:
    made = {job.rule.name for job in workflow.dag.jobs}
    if made <= {"paper_tables", "paper_table"}:
        done = f"Done. The published numbers are in {Path('results/published').absolute()}."
    else:
        done = f"Done. Results are in {folder('results')}. {config['note']}".rstrip()
        if "table" in made and (folder("results") / "tables" / "table1.md").exists():
            done += (
                f"\nNext: open {folder('results')}/tables/table1.md; {ours('README.md')} says how to add a method."
            )
    print(done, file=sys.stderr)


onerror:
    print(
        f"Stopped with an error; the log of the failed job is under {folder('logs')}. The same command continues where it "
        "stopped.",
        file=sys.stderr,
    )
