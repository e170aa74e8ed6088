# From a row of the run table to complete, checked settings, and to the files of its run.

RUN = "<results>/runs/{model}/{method}/{variant}/seed{seed}"
TRAINED = RUNS[RUNS["training"] != "none"]


def methods(*trainings):
    """A wildcard constraint: the methods that are trained so."""
    return alternatives(ALL_RUNS.loc[ALL_RUNS["training"].isin(trainings), "method"])


def scratch(wildcards):
    return concrete("<scratch>/{model}/{method}/{variant}/seed{seed}".format(**wildcards))


def run_row(wildcards):
    keys = ["model", "method", "variant"]
    row = ALL_RUNS[(ALL_RUNS[keys] == [getattr(wildcards, key) for key in keys]).all(axis=1)]
    if row.empty:
        raise WorkflowError(f"{RUNS_FILE} has no run {wildcards.model} {wildcards.method} {wildcards.variant}.")
    return row.iloc[0]


OVERRIDABLE = ("reading", "train_sets", "training", "distillation", "credit", "judge", "evaluation")


def resolved(row):
    """The configuration with the row's overrides (`section.key=value`, separated by spaces) laid over it."""
    sections = deepcopy({name: config[name] for name in OVERRIDABLE}) | {"train_reading": {}}
    for override in row["overrides"].split():
        key, _, value = override.partition("=")
        section, _, name = key.partition(".")
        known_as = "reading" if section == "train_reading" else section
        if name not in sections.get(known_as, {}):
            raise WorkflowError(
                f"{RUNS_FILE}: {row['method']} {row['variant']} overrides {key!r}, which does not exist."
            )
        sections[section][name] = typed(value, SCHEMA[known_as].get("properties", {}).get(name, {}))
    sections["train_reading"] = sections["reading"] | sections["train_reading"]  # tested as the others are
    return sections


def scorer_kind(row):
    """judge, prm, or nothing: what a run's credit method needs beside the policy."""
    kinds = {"judge", "prm"} & set(credit.needs(row["credit"])) if row["credit"] else ()
    if len(kinds) > 1:
        raise WorkflowError(f"Credit method {row['credit']} needs a judge and a prm; a run has one of them.")
    return next(iter(kinds), None)


SERVING = ("window_tokens", "in_flight", "timeout_seconds", "failures_allowed", "gpu_memory")


def scorer(row, path):
    """The section `scorer` of run.yaml. ``path``: of the model that the job serves."""
    kind = scorer_kind(row)
    if not kind:
        return {}
    settings = resolved(row)["judge"] if kind == "judge" else config["prm"]
    own = {"kind": kind, "model": "prm", "path": str(path), "endpoint": "", "answer_tokens": 0, "request": {}}
    if kind == "judge":
        own |= {key: settings[key] for key in ("model", "endpoint", "answer_tokens", "request")}
        own["path"] = "" if settings["endpoint"] else str(path)
    return {"scorer": own | {key: settings[key] for key in SERVING}}


def training_run(row, seed, model_path, train_data, validation_data, scorer_path=""):
    """run.yaml as a mapping; built once here so that a bad value stops the workflow before any job starts."""
    sections = resolved(row)
    run = {
        "model": row["model"],
        "method": row["method"],
        "variant": row["variant"],
        "seed": int(seed),
        "model_path": str(model_path),
        "train_data": str(train_data),
        "validation_data": str(validation_data),
        "reading": sections["train_reading"],
        "credit": {"method": row["credit"]} | sections["credit"],
        "training": sections["training"],
    } | scorer(row, scorer_path)
    return validated(Run, run, row)


def training_code(wildcards):
    row = run_row(wildcards)
    return code_digest.of_training(row["credit"], scorer_kind(row) is not None)


def evaluation_run(row, seed, reading=None):
    """evaluation.yaml as a mapping; ``reading``: token budgets of a test that differ from the row's."""
    sections = resolved(row)
    run = {"seed": int(seed), "reading": sections["reading"] | (reading or {}), "evaluation": sections["evaluation"]}
    return validated(EvaluationRun, run, row)


def validated(kind, mapping, row):
    try:
        build(kind, mapping, f"{row['model']} {row['method']} {row['variant']}")
    except UserError as error:
        raise WorkflowError(str(error)) from None
    return mapping


def distillation_run(row, seed, **files):
    """run.yaml of a run on trajectories. ``files``: its paths."""
    sections = resolved(row)
    run = {
        "model": row["model"],
        "method": row["method"],
        "variant": row["variant"],
        "seed": int(seed),
        "loss": row["training"],
        "reading": sections["reading"],
        "distillation": sections["distillation"],
    }
    return validated(DistillationRun, run | files, row)


for _, row in RUNS.iterrows():
    evaluation_run(row, 0)
    known(resolved(row)["train_sets"].values(), list(DATASETS), f"data set in {RUNS_FILE}:")
    if row["training"] != "rl" and any(word in row["overrides"] for word in ("train_sets.", "train_reading.")):
        raise WorkflowError(
            f"{RUNS_FILE}: {row['method']} {row['variant']} overrides train_sets or train_reading, which only "
            "training rl can: trajectories are sampled over the configured training set."
        )
    if row["training"] == "rl":
        training_run(row, 0, "", "", "")
    elif row["training"] in ("sft", "kd"):
        names = ("model_path", "train_data", "trajectories", "teacher_path", "teacher_probabilities")
        settings = distillation_run(row, 0, **dict.fromkeys(names, ""))["distillation"]
        known([settings["teacher"]], ["self", *MODELS], f"teacher in {RUNS_FILE}:")
        if settings["rounds"] > 1 and settings["teacher"] != "self":
            raise WorkflowError(
                f"{RUNS_FILE}: {row['method']} {row['variant']} has rounds but its teacher is not self."
            )


def case_of(row, seed):
    """The wildcards of a run."""
    return {"model": row["model"], "method": row["method"], "variant": row["variant"], "seed": seed}


def run_name(case):
    """A run's folder, as archives name it."""
    return "{model}/{method}/{variant}/seed{seed}".format(**case)


def cases(rows, benchmarks=(None,)):
    """The wildcards of every row, seed and benchmark, in table order."""
    return [
        case_of(row, seed) | ({"benchmark": benchmark} if benchmark else {})
        for _, row in rows.iterrows()
        for seed in config["seeds"]
        for benchmark in benchmarks
    ]


def paths(pattern, rows, **axes):
    return [pattern.format(**case) for case in cases(rows, **axes)]


def rows_of(item):
    return RUNS[[item in items for items in RUNS["items"]]]


def tests_of(row):
    """What a row is tested on beside Table 1's benchmarks: (test, benchmark) pairs."""
    tests = [test for item in row["items"] for test in config["tests"].get(item, [])]
    return [(test["name"], benchmark) for test in tests for benchmark in test["benchmarks"]]


TESTS = {}
for test in (test for tests in config["tests"].values() for test in tests):
    if TESTS.setdefault(test["name"], test) != test:
        raise WorkflowError(f"configuration: two different tests are called {test['name']!r}; give each its own name.")
known([name for spec in TESTS.values() for name in spec["benchmarks"]], list(DATASETS), "benchmark in tests:")
# Figures 5-7 and those of memories show this one.
SHOWN = config["sweep_on"] if config["sweep_on"] in EVALUATED else EVALUATED[0]
# In order, each once.
TRAINING_SETS = list(dict.fromkeys(resolved(row)["train_sets"]["train"] for _, row in RUNS.iterrows()))
TEST_SETS = list(
    dict.fromkeys([*EVALUATED, *(benchmark for _, row in RUNS.iterrows() for _, benchmark in tests_of(row))])
)
TRAINED_ON = [name for _, row in RUNS.iterrows() for name in resolved(row)["train_sets"].values()]
USED_SETS = list(dict.fromkeys([*config["train_sets"].values(), *TRAINED_ON, *TEST_SETS]))
