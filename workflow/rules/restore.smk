# Runs that an archive has (`--config archive=FOLDER_OR_ADDRESS`, made by `tamtrl publish`) are restored, not made again. A run counts as
# there when the settings agree; with all its predictions, nothing else of it is needed, and with its model, predictions are made here.
from tamtrl.record import archive


def archive_index():
    """The local index of the archive, if one is configured."""
    place = config["archive"]
    if not place:
        return None
    if not place.startswith(("http://", "https://")):
        return Path(place) / archive.INDEX
    local = Path(concrete("<results>/archive")) / archive.INDEX
    if not local.exists():
        raise WorkflowError(f"Fetch the archive's index first: tamtrl archive-index {place} --output {local}")
    return local


def settings_of(case):
    """What run.yaml will hold, apart from the places of files; nothing for an untrained backbone."""
    row = run_row(SimpleNamespace(**case))
    if row["training"] == "none":
        return None
    if row["training"] == "rl":
        return training_run(row, case["seed"], "", train_set("train", row), "")
    names = ("model_path", "trajectories", "teacher_path", "teacher_probabilities")
    return distillation_run(row, case["seed"], train_data=train_set("train"), **dict.fromkeys(names, ""))


def restorable():
    """Runs of the archive that stand for selected ones, by what is restored of them: records (predictions too) or models; and
    predictions of tests beside Table 1, as (RUN, tests/TEST/predictions/BENCHMARK)."""
    found = {"records": [], "models": [], "tests": []}
    index_file = archive_index()
    if index_file is None:
        return found
    try:
        index = archive.load(index_file)["runs"]
    except UserError as error:
        raise WorkflowError(str(error)) from None
    for case in cases(RUNS):
        name = run_name(case)
        entry = index.get(name)
        if not entry or entry["settings"] != archive.settings_digest(settings_of(case)):
            continue
        row = run_row(SimpleNamespace(**case))
        evaluation = archive.settings_digest(evaluation_run(row, case["seed"]))
        for test, benchmark in tests_of(row):
            inside = f"tests/{test}/predictions/{benchmark}"
            as_asked = archive.settings_digest(evaluation_run(row, case["seed"], TESTS[test].get("reading")))
            if entry.get("tests", {}).get(test) == as_asked and f"{inside}.jsonl.gz" in entry["files"]:
                found["tests"].append((name, inside))
        if entry["evaluation"] == evaluation and {f"predictions/{name}.jsonl.gz" for name in EVALUATED} <= set(
            entry["files"]
        ):
            found["records"].append(name)
        elif any(file.startswith("model/") for file in entry["files"]):
            found["models"].append(name)
    return found


RESTORED = restorable()


def restored(run):
    return run_name(run) in RESTORED["records"] + RESTORED["models"]


# Before what would make them.
ruleorder: restore_record > train_rl
ruleorder: restore_record > distil
ruleorder: restore_run > train_rl
ruleorder: restore_run > distil
ruleorder: restore_predictions > predict
ruleorder: restore_test > predict_test


rule restore_record:
    output:
        metrics="<results>/runs/{run}/metrics.csv",
        card="<results>/runs/{run}/card.json",
    log:
        "<logs>/restore/{run}/record.log",
    wildcard_constraints:
        run=alternatives(name for name in RESTORED["records"] if "/base/" not in name),
    localrule: True
    params:
        archive=config["archive"],
        index=archive_index(),
        output=lambda wc, output: os.path.dirname(output.metrics),
    shell:
        "tamtrl restore {wildcards.run:q} --archive {params.archive:q} --index {params.index:q} --files metrics.csv card.json "
        "--output {params.output:q} 2> {log:q}"


rule restore_predictions:
    output:
        collect("<results>/runs/{{run}}/predictions/{benchmark}.jsonl.gz", benchmark=EVALUATED),
    log:
        "<logs>/restore/{run}/predictions.log",
    wildcard_constraints:
        run=alternatives(RESTORED["records"]),
    localrule: True
    params:
        archive=config["archive"],
        index=archive_index(),
        files=[f"predictions/{name}.jsonl.gz" for name in EVALUATED],
        output=lambda wc, output: os.path.dirname(os.path.dirname(output[0])),
    shell:
        "tamtrl restore {wildcards.run:q} --archive {params.archive:q} --index {params.index:q} --files {params.files:q} "
        "--output {params.output:q} 2> {log:q}"


rule restore_test:
    output:
        "<results>/runs/{run}/{inside}.jsonl.gz",
    log:
        "<logs>/restore/{run}/{inside}.log",
    wildcard_constraints:
        run=alternatives(run for run, _ in RESTORED["tests"]),
        inside=alternatives(inside for _, inside in RESTORED["tests"]),
    localrule: True
    params:
        archive=config["archive"],
        index=archive_index(),
        output=lambda wc: concrete(f"<results>/runs/{wc.run}"),
    shell:
        "tamtrl restore {wildcards.run:q} --archive {params.archive:q} --index {params.index:q} --files {wildcards.inside:q}.jsonl.gz "
        "--output {params.output:q} 2> {log:q}"


rule restore_run:
    output:
        model=directory("<results>/runs/{run}/model"),
        metrics="<results>/runs/{run}/metrics.csv",
        card="<results>/runs/{run}/card.json",
    log:
        "<logs>/restore/{run}/run.log",
    wildcard_constraints:
        run=alternatives(RESTORED["models"]),
    localrule: True
    params:
        archive=config["archive"],
        index=archive_index(),
        output=lambda wc, output: os.path.dirname(output.metrics),
    shell:
        "tamtrl restore {wildcards.run:q} --archive {params.archive:q} --index {params.index:q} --files model metrics.csv card.json "
        "--output {params.output:q} 2> {log:q}"
