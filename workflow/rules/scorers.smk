# Who scores memory turns from outside the policy: the judge, which is a model like others, and the process reward model, trained here on
# every turn of one model's STaR trajectories and used for the runs of all models.


rule configure_prm:
    output:
        f"{PRM}/prm.yaml",
    log:
        "<logs>/prm/seed{seed}/configure.log",
    localrule: True
    params:
        settings=lambda wc: scorers.prm_settings(wc.seed),
    run:
        Path(output[0]).write_text(yaml.safe_dump(params.settings, sort_keys=False), encoding="utf-8")


# Every memory turn, right or wrong, with the outcome of its trajectory.
rule prm_label:
    input:
        shards=lambda wc: scorers.prm_shards(wc.seed),
        run=rules.configure_prm.output,
        base=lambda wc: sums(models.folder(config["prm"]["base"])),
        policy=lambda wc: sums(models.folder(scorers.prm_row().model)),
        data=runs.train_set("train"),
    output:
        turns=f"{PRM}/turns.parquet",
        labels=f"{PRM}/labels.json",
        time=f"{PRM}/label.time.tsv",
    log:
        "<logs>/prm/seed{seed}/label.log",
    cache: True
    params:
        code=code("turn_scores.prm_data"),
        base=folder_of("base"),
        policy=folder_of("policy"),
    shell:
        "tamtrl prm-label {input.run:q} {input.shards:q} --base {params.base:q} --policy {params.policy:q} --data {input.data:q} "
        "--output {output.turns:q} --report {output.labels:q} --time {output.time:q} 2> {log:q}"


rule train_prm_model:
    input:
        run=rules.configure_prm.output,
        turns=rules.prm_label.output.turns,
        labels=rules.prm_label.output.labels,
        base=lambda wc: sums(models.folder(config["prm"]["base"])),
    output:
        model=directory(f"{PRM}/model"),
        report=f"{PRM}/report.json",
        calibration=f"{PRM}/calibration.csv",
        time=f"{PRM}/train.time.tsv",
    log:
        "<logs>/prm/seed{seed}/train.log",
    cache: True
    threads: cores("evaluate")
    resources:
        **stage("evaluate"),
    params:
        code=code("turn_scores.prm_train"),
        base=folder_of("base"),
        output=parent("report"),
        scratch=lambda wc: concrete(f"<scratch>/prm/seed{wc.seed}"),
    shell:
        "tamtrl prm-train {input.run:q} --turns {input.turns:q} --labels {input.labels:q} --base {params.base:q} "
        "--output {params.output:q} --scratch {params.scratch:q} --time {output.time:q} {resources.place} 2> {log:q}"
