# Runs that an archive has (`--config archive=FOLDER_OR_ADDRESS`, made by `tamtrl publish`) are restored, not made again. A run counts as
# there when the settings agree; with all its predictions, those of tests too, nothing else of it is needed, and with its model,
# predictions are made here.


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
        run=alternatives(restored.trained()),
    localrule: True
    params:
        archive=config["archive"],
        index=restored.index,
        output=parent("metrics"),
    shell:
        "tamtrl restore {wildcards.run:q} --archive {params.archive:q} --index {params.index:q} --files metrics.csv card.json "
        "--output {params.output:q} 2> {log:q}"


rule restore_predictions:
    output:
        collect("<results>/runs/{{run}}/predictions/{benchmark}.jsonl.gz", benchmark=paper.evaluated),
    log:
        "<logs>/restore/{run}/predictions.log",
    wildcard_constraints:
        run=alternatives(restored.records),
    localrule: True
    params:
        archive=config["archive"],
        index=restored.index,
        files=[f"predictions/{name}.jsonl.gz" for name in paper.evaluated],
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
        run=alternatives(run for run, _ in restored.tests),
        inside=alternatives(inside for _, inside in restored.tests),
    localrule: True
    params:
        archive=config["archive"],
        index=restored.index,
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
        run=alternatives(restored.models),
    localrule: True
    params:
        archive=config["archive"],
        index=restored.index,
        output=parent("metrics"),
    shell:
        "tamtrl restore {wildcards.run:q} --archive {params.archive:q} --index {params.index:q} --files model metrics.csv card.json "
        "--output {params.output:q} 2> {log:q}"
