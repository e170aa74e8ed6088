# A run is a row of runs.tsv: its resolved configuration, then one training job whatever the method.


rule configure_run:
    output:
        f"{RUN}/run.yaml",
    log:
        f"{RUN_LOGS}/configure.log",
    wildcard_constraints:
        method=alternatives(rows.methods("rl")),
    localrule: True
    params:
        run=lambda wc: runs.training(
            rows.row(wc),
            wc.seed,
            concrete(models.folder(wc.model)),
            concrete(runs.train_set("train", rows.row(wc))),
            concrete(runs.train_set("validation", rows.row(wc))),
            concrete(scorers.folder(wc) or ""),
        ),
    run:
        Path(output[0]).write_text(yaml.safe_dump(params.run, sort_keys=False), encoding="utf-8")


# Multi-turn RL with verl. Checkpoints stay in scratch between attempts and are never an output: Snakemake deletes the
# outputs of a failed job.
rule train_rl:
    input:
        run=rules.configure_run.output,
        train=lambda wc: runs.train_set("train", rows.row(wc)),
        validation=lambda wc: runs.train_set("validation", rows.row(wc)),
        model=lambda wc: sums(models.folder(wc.model)),
        scorer=lambda wc: sums(scorers.folder(wc)) if scorers.folder(wc) else [],
    output:
        model=directory(f"{RUN}/model"),
        snapshots=directory(f"{RUN}/snapshots"),
        metrics=f"{RUN}/metrics.csv",
        card=f"{RUN}/card.json",
    log:
        f"{RUN_LOGS}/train.log",
    wildcard_constraints:
        method=alternatives(rows.methods("rl")),
    cache: True
    threads: cores("train")
    resources:
        **stage("train"),
    params:
        code=lambda wc: runs.training_code(rows.row(wc)),
        output=parent("metrics"),
        scratch=scratch,
    shell:
        "tamtrl train {input.run:q} --output {params.output:q} --scratch {params.scratch:q} {resources.place} 2>&1 | tee {log:q}"


# The final models of all selected runs.
rule train:
    input:
        rows.files(f"{RUN}/metrics.csv", rows.trained),
