# Baselines that learn from trajectories: sampled by a teacher or by the model itself, kept where correct, trained on.
# Round 1 samples with the teacher; a further round (STaR) with the model of the round before. Each trains the backbone anew.
import hashlib

TRAJECTORIES = "<results>/trajectories/{teacher}/{generation}"
ROUND = f"{RUN}/rounds/{{round}}"


def distillation(wildcards):
    return resolved(run_row(wildcards))["distillation"]


def teacher(wildcards):
    name = distillation(wildcards)["teacher"]
    return wildcards.model if name == "self" else name


def generation_settings(row, seed):
    """All that trajectories depend on, apart from model and questions; the same for every student of a teacher."""
    sections = resolved(row)
    names = ("samples", "temperature", "top_p", "thinking", "thinking_tokens", "in_flight")
    return {"seed": int(seed), "reading": sections["reading"]} | {
        name: sections["distillation"][name] for name in names
    }


def generation_key(settings):
    told = json.dumps({k: v for k, v in settings.items() if k != "in_flight"}, sort_keys=True)
    return f"{settings['samples']}samples-seed{settings['seed']}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"


GENERATIONS = {
    generation_key(settings): {"settings": settings, "shards": resolved(row)["distillation"]["shards"]}
    for _, row in ALL_RUNS[ALL_RUNS["training"].isin(["sft", "kd"])].iterrows()
    for seed in config["seeds"]
    for settings in [generation_settings(row, seed)]
}


def trajectories_folder(wildcards, round):
    if int(round) == 1:
        key = generation_key(generation_settings(run_row(wildcards), wildcards.seed))
        return TRAJECTORIES.format(teacher=teacher(wildcards), generation=key)
    return ROUND.format(**dict(wildcards) | {"round": round})


def last_round(wildcards):
    return distillation(wildcards)["rounds"]


wildcard_constraints:
    teacher=alternatives(MODELS),
    generation=alternatives(GENERATIONS),
    shard=r"\d+",
    round=r"\d+",


rule configure_generation:
    output:
        f"{TRAJECTORIES}/generation.yaml",
    log:
        "<logs>/trajectories/{teacher}/{generation}/configure.log",
    localrule: True
    params:
        settings=lambda wc: GENERATIONS[wc.generation]["settings"],
    run:
        Path(output[0]).write_text(yaml.safe_dump(params.settings, sort_keys=False), encoding="utf-8")


# A shard of the training questions, read some times each by the reader of RL rollouts and evaluation.
rule generate:
    input:
        run=rules.configure_generation.output,
        model=lambda wc: sums(model_folder(wc.teacher)),
        data=train_set("train"),
    output:
        trajectories=f"{TRAJECTORIES}/shard{{shard}}.jsonl.gz",
        time=f"{TRAJECTORIES}/shard{{shard}}.time.tsv",
    log:
        "<logs>/trajectories/{teacher}/{generation}/shard{shard}.log",
    cache: True
    threads: resource("evaluate", "cores")
    resources:
        **stage("evaluate"),
    params:
        shard=lambda wc: wc.shard,
        code=code("distillation.trajectories"),
        model=folder_of("model"),
        shards=lambda wc: GENERATIONS[wc.generation]["shards"],
    shell:
        "tamtrl generate {input.run:q} --model {params.model:q} --data {input.data:q} --shard {params.shard:q} "
        "--shards {params.shards:q} --output {output.trajectories:q} --time {output.time:q} {resources.place} 2> {log:q}"


# The trajectories that the verifier accepts, and what became of the others.
rule keep_correct:
    input:
        shards=lambda wc: collect(
            f"{TRAJECTORIES}/shard{{shard}}.jsonl.gz",
            shard=range(GENERATIONS[wc.generation]["shards"]),
            allow_missing=True,
        ),
        model=lambda wc: sums(model_folder(wc.teacher)),
        data=train_set("train"),
    output:
        trajectories=f"{TRAJECTORIES}/trajectories.parquet",
        report=f"{TRAJECTORIES}/report.json",
    log:
        "<logs>/trajectories/{teacher}/{generation}/keep_correct.log",
    cache: True
    params:
        code=code("distillation.trajectories"),
        model=folder_of("model"),
        name=lambda wc: wc.teacher,
    shell:
        "tamtrl keep-correct {input.shards:q} --name {params.name:q} --model {params.model:q} --data {input.data:q} "
        "--output {output.trajectories:q} --report {output.report:q} 2> {log:q}"


# Further rounds: the same two steps with the model of the round before.
use rule generate as generate_round with:
    input:
        run=lambda wc: f"{trajectories_folder(wc, 1)}/generation.yaml",
        model=lambda wc: sums(f"{ROUND.format(**dict(wc) | {'round': int(wc.round) - 1})}/model"),
        data=train_set("train"),
    output:
        trajectories=f"{ROUND}/shard{{shard}}.jsonl.gz",
        time=f"{ROUND}/shard{{shard}}.time.tsv",
    log:
        f"<logs>/runs/{{model}}/{{method}}/{{variant}}/seed{{seed}}/round{{round}}.shard{{shard}}.log",
    cache: True  # not inherited
    params:
        shard=lambda wc: wc.shard,
        code=code("distillation.trajectories"),
        model=folder_of("model"),
        shards=lambda wc: distillation(wc)["shards"],


use rule keep_correct as keep_correct_round with:
    input:
        shards=lambda wc: collect(
            f"{ROUND}/shard{{shard}}.jsonl.gz", shard=range(distillation(wc)["shards"]), allow_missing=True
        ),
        model=lambda wc: sums(f"{ROUND.format(**dict(wc) | {'round': int(wc.round) - 1})}/model"),
        data=train_set("train"),
    output:
        trajectories=f"{ROUND}/trajectories.parquet",
        report=f"{ROUND}/report.json",
    log:
        f"<logs>/runs/{{model}}/{{method}}/{{variant}}/seed{{seed}}/round{{round}}.keep_correct.log",
    cache: True  # not inherited
    params:
        code=code("distillation.trajectories"),
        model=folder_of("model"),
        name=lambda wc: f"{wc.method} of round {int(wc.round) - 1}",


def distillation_files(wildcards, round):
    return distillation_run(
        run_row(wildcards),
        wildcards.seed,
        model_path=concrete(model_folder(wildcards.model)),
        train_data=concrete(train_set("train")),
        trajectories=concrete(f"{trajectories_folder(wildcards, round)}/trajectories.parquet"),
        teacher_path=concrete(model_folder(teacher(wildcards))),
        teacher_probabilities=concrete(f"{RUN.format(**wildcards)}/teacher.parquet"),
    )


rule configure_distillation:
    output:
        f"{RUN}/run.yaml",
    log:
        f"<logs>/runs/{{model}}/{{method}}/{{variant}}/seed{{seed}}/configure.log",
    wildcard_constraints:
        method=methods("sft", "kd"),
    localrule: True
    params:
        run=lambda wc: distillation_files(wc, last_round(wc)),
    run:
        Path(output[0]).write_text(yaml.safe_dump(params.run, sort_keys=False), encoding="utf-8")


use rule configure_distillation as configure_round with:
    output:
        f"{ROUND}/run.yaml",
    log:
        f"<logs>/runs/{{model}}/{{method}}/{{variant}}/seed{{seed}}/round{{round}}.configure.log",
    params:
        run=lambda wc: distillation_files(wc, wc.round),


def distillation_inputs(round):
    """What training waits for, beside its run.yaml."""

    def inputs(wildcards):
        number = round(wildcards)
        files = [f"{trajectories_folder(wildcards, number)}/trajectories.parquet", train_set("train")]
        files += dict.fromkeys(sums(model_folder(name)) for name in (wildcards.model, teacher(wildcards)))
        if run_row(wildcards)["training"] == "kd" and distillation(wildcards)["precompute"]:
            files.append(f"{RUN.format(**wildcards)}/teacher.parquet")
        return files

    return inputs


# The teacher's likeliest tokens, computed before (distillation.precompute).
rule teacher_probabilities:
    input:
        run=f"{RUN}/run.yaml",
        trajectories=lambda wc: f"{trajectories_folder(wc, 1)}/trajectories.parquet",
        models=lambda wc: [sums(model_folder(name)) for name in (wc.model, teacher(wc))],
        data=train_set("train"),
    output:
        f"{RUN}/teacher.parquet",
    log:
        f"<logs>/runs/{{model}}/{{method}}/{{variant}}/seed{{seed}}/teacher.log",
    cache: True
    threads: resource("evaluate", "cores")
    resources:
        **stage("evaluate"),
    params:
        code=code("distillation.teacher"),
    shell:
        "tamtrl teacher-probabilities {input.run:q} --output {output:q} {resources.place} 2> {log:q}"


# verl's SFT trainer; the run folder looks as after reinforcement learning.
rule distil:
    input:
        distillation_inputs(last_round),
        run=f"{RUN}/run.yaml",
    output:
        model=directory(f"{RUN}/model"),
        metrics=f"{RUN}/metrics.csv",
        card=f"{RUN}/card.json",
    log:
        f"<logs>/runs/{{model}}/{{method}}/{{variant}}/seed{{seed}}/train.log",
    wildcard_constraints:
        method=methods("sft", "kd"),
    cache: True
    threads: resource("train", "cores")
    resources:
        **stage("train"),
    params:
        code=code_digest.of_distillation(),
        output=lambda wc, output: os.path.dirname(output.metrics),
        scratch=scratch,
    shell:
        "tamtrl distil {input.run:q} --output {params.output:q} --scratch {params.scratch:q} {resources.place} 2>&1 | tee {log:q}"


use rule distil as distil_round with:
    input:
        distillation_inputs(lambda wc: wc.round),
        run=f"{ROUND}/run.yaml",
    output:
        model=directory(f"{ROUND}/model"),
        metrics=f"{ROUND}/metrics.csv",
        card=f"{ROUND}/card.json",
    log:
        f"<logs>/runs/{{model}}/{{method}}/{{variant}}/seed{{seed}}/round{{round}}.train.log",
    cache: True  # not inherited
    params:
        code=code_digest.of_distillation(),
        output=lambda wc, output: os.path.dirname(output.metrics),
        scratch=lambda wc: f"{scratch(wc)}/round{wc.round}",
