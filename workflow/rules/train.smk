# A run is a row of runs.tsv: its resolved configuration, then one training job whatever the method.


def train_set(use, row=None):
    sets = config["train_sets"] if row is None else resolved(row)["train_sets"]
    return f"<results>/data/{sets[use]}.parquet"


rule configure_run:
    output:
        f"{RUN}/run.yaml",
    log:
        f"<logs>/runs/{{model}}/{{method}}/{{variant}}/seed{{seed}}/configure.log",
    wildcard_constraints:
        method=methods("rl"),
    localrule: True
    params:
        run=lambda wc: training_run(
            run_row(wc),
            wc.seed,
            concrete(model_folder(wc.model)),
            concrete(train_set("train", run_row(wc))),
            concrete(train_set("validation", run_row(wc))),
            concrete(scorer_folder(wc) or ""),
        ),
    run:
        Path(output[0]).write_text(yaml.safe_dump(params.run, sort_keys=False), encoding="utf-8")


# Multi-turn RL with verl. Checkpoints stay in scratch between attempts and are never an output: Snakemake deletes the
# outputs of a failed job.
rule train_rl:
    input:
        run=rules.configure_run.output,
        train=lambda wc: train_set("train", run_row(wc)),
        validation=lambda wc: train_set("validation", run_row(wc)),
        model=lambda wc: sums(model_folder(wc.model)),
        scorer=lambda wc: sums(scorer_folder(wc)) if scorer_folder(wc) else [],
    output:
        model=directory(f"{RUN}/model"),
        metrics=f"{RUN}/metrics.csv",
        card=f"{RUN}/card.json",
    log:
        f"<logs>/runs/{{model}}/{{method}}/{{variant}}/seed{{seed}}/train.log",
    wildcard_constraints:
        method=methods("rl"),
    cache: True
    threads: resource("train", "cores")
    resources:
        **stage("train"),
    params:
        code=training_code,
        output=lambda wc, output: os.path.dirname(output.metrics),
        scratch=scratch,
    shell:
        "tamtrl train {input.run:q} --output {params.output:q} --scratch {params.scratch:q} {resources.place} 2>&1 | tee {log:q}"


# The final models of all selected runs.
rule train:
    input:
        paths(f"{RUN}/metrics.csv", TRAINED),
