# Who scores memory turns from outside the policy: the judge, which is a model like others, and the process reward model, trained here on
# every turn of one model's STaR trajectories and used for the runs of all models.
PRM = "<results>/prm/seed{seed}"


def judge_model(row):
    """A name in models.yaml, or nothing where an endpoint is the judge."""
    settings = resolved(row)["judge"]
    if settings["endpoint"]:
        return None
    known([settings["model"]], list(MODELS), "model in judge:")
    return settings["model"]


def scorer_folder(wildcards):
    """The model that a training job serves beside itself, if any."""
    row = run_row(wildcards)
    match scorer_kind(row):
        case "judge":
            return model_folder(judge_model(row)) if judge_model(row) else None
        case "prm":
            return f"{PRM.format(**wildcards)}/model"
    return None


def prm_trajectories():
    """The row whose trajectories the process reward model learns from."""
    rows = ALL_RUNS[(ALL_RUNS["model"] == config["prm"]["trajectories_of"]) & (ALL_RUNS["method"] == "star")]
    if rows.empty:
        raise WorkflowError(
            f"prm.trajectories_of is {config['prm']['trajectories_of']!r}, but {RUNS_FILE} has no row star of that model."
        )
    return rows.iloc[0]


def scorer_models(row):
    """Names of the models that a run's scorer is, or is made from."""
    match scorer_kind(row):
        case "judge":
            return [name for name in [judge_model(row)] if name]
        case "prm":
            known([config["prm"]["base"]], list(MODELS), "model in prm:")
            return [config["prm"]["base"], prm_trajectories()["model"]]
    return []


def prm_shards(wildcards):
    row = prm_trajectories()
    key = generation_key(generation_settings(row, wildcards.seed))
    folder = TRAJECTORIES.format(teacher=row["model"], generation=key)
    return collect(f"{folder}/shard{{shard}}.jsonl.gz", shard=range(GENERATIONS[key]["shards"]))


def prm_settings(seed):
    names = ("window_tokens", "held_out", "batch", "epochs", "lr", "weight_decay", "save_every")
    settings = {"seed": int(seed), "reading": config["reading"]} | {name: config["prm"][name] for name in names}
    return validated(ProcessRewardModel, settings, {"model": "prm", "method": "", "variant": ""})


rule configure_prm:
    output:
        f"{PRM}/prm.yaml",
    log:
        "<logs>/prm/seed{seed}/configure.log",
    localrule: True
    params:
        settings=lambda wc: prm_settings(wc.seed),
    run:
        Path(output[0]).write_text(yaml.safe_dump(params.settings, sort_keys=False), encoding="utf-8")


# Every memory turn, right or wrong, with the outcome of its trajectory.
rule prm_label:
    input:
        shards=prm_shards,
        run=rules.configure_prm.output,
        base=lambda wc: sums(model_folder(config["prm"]["base"])),
        policy=lambda wc: sums(model_folder(prm_trajectories()["model"])),
        data=train_set("train"),
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
        base=lambda wc: sums(model_folder(config["prm"]["base"])),
    output:
        model=directory(f"{PRM}/model"),
        report=f"{PRM}/report.json",
        calibration=f"{PRM}/calibration.csv",
        time=f"{PRM}/train.time.tsv",
    log:
        "<logs>/prm/seed{seed}/train.log",
    cache: True
    threads: resource("evaluate", "cores")
    resources:
        **stage("evaluate"),
    params:
        code=code("turn_scores.prm_train"),
        base=folder_of("base"),
        output=lambda wc, output: os.path.dirname(output.report),
        scratch=lambda wc: concrete(f"<scratch>/prm/seed{wc.seed}"),
    shell:
        "tamtrl prm-train {input.run:q} --turns {input.turns:q} --labels {input.labels:q} --base {params.base:q} "
        "--output {params.output:q} --scratch {params.scratch:q} --time {output.time:q} {resources.place} 2> {log:q}"
