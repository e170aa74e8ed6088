# Baselines that learn from trajectories: sampled by a teacher or by the model itself, kept where correct, trained on.
# Round 1 samples with the teacher; a further round (STaR) with the model of the round before. Each trains the backbone anew.


wildcard_constraints:
    teacher=alternatives(paper.models),
    generation=alternatives(trajectories.generations),
    shard=r"\d+",
    round=r"\d+",


rule configure_generation:
    output:
        f"{TRAJECTORIES}/generation.yaml",
    log:
        "<logs>/trajectories/{teacher}/{generation}/configure.log",
    localrule: True
    params:
        settings=lambda wc: trajectories.generations[wc.generation].settings,
    run:
        Path(output[0]).write_text(yaml.safe_dump(params.settings, sort_keys=False), encoding="utf-8")


# A shard of the training questions, read some times each by the reader of RL rollouts and evaluation.
rule generate:
    input:
        run=rules.configure_generation.output,
        model=lambda wc: sums(models.folder(wc.teacher)),
        data=runs.train_set("train"),
    output:
        trajectories=f"{TRAJECTORIES}/shard{{shard}}.jsonl.gz",
        time=f"{TRAJECTORIES}/shard{{shard}}.time.tsv",
    log:
        "<logs>/trajectories/{teacher}/{generation}/shard{shard}.log",
    cache: True
    threads: cores("evaluate")
    resources:
        **stage("evaluate"),
    params:
        shard=lambda wc: wc.shard,
        code=code("distillation.trajectories"),
        model=folder_of("model"),
        shards=lambda wc: trajectories.generations[wc.generation].shards,
    shell:
        "tamtrl generate {input.run:q} --model {params.model:q} --data {input.data:q} --shard {params.shard:q} "
        "--shards {params.shards:q} --output {output.trajectories:q} --time {output.time:q} {resources.place} 2> {log:q}"


# The trajectories that the verifier accepts, and what became of the others.
rule keep_correct:
    input:
        shards=lambda wc: collect(
            f"{TRAJECTORIES}/shard{{shard}}.jsonl.gz",
            shard=range(trajectories.generations[wc.generation].shards),
            allow_missing=True,
        ),
        model=lambda wc: sums(models.folder(wc.teacher)),
        data=runs.train_set("train"),
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
        run=lambda wc: f"{trajectories.folder(wc, 1)}/generation.yaml",
        model=lambda wc: sums(trajectories.sampler(wc)),
        data=runs.train_set("train"),
    output:
        trajectories=f"{ROUND}/shard{{shard}}.jsonl.gz",
        time=f"{ROUND}/shard{{shard}}.time.tsv",
    log:
        f"{RUN_LOGS}/round{{round}}.shard{{shard}}.log",
    cache: True  # not inherited
    params:
        shard=lambda wc: wc.shard,
        code=code("distillation.trajectories"),
        model=folder_of("model"),
        shards=lambda wc: trajectories.distillation(wc)["shards"],


use rule keep_correct as keep_correct_round with:
    input:
        shards=lambda wc: collect(
            f"{ROUND}/shard{{shard}}.jsonl.gz",
            shard=range(trajectories.distillation(wc)["shards"]),
            allow_missing=True,
        ),
        model=lambda wc: sums(trajectories.sampler(wc)),
        data=runs.train_set("train"),
    output:
        trajectories=f"{ROUND}/trajectories.parquet",
        report=f"{ROUND}/report.json",
    log:
        f"{RUN_LOGS}/round{{round}}.keep_correct.log",
    cache: True  # not inherited
    params:
        code=code("distillation.trajectories"),
        model=folder_of("model"),
        name=lambda wc: f"{wc.method} of round {int(wc.round) - 1}",


rule configure_distillation:
    output:
        f"{RUN}/run.yaml",
    log:
        f"{RUN_LOGS}/configure.log",
    wildcard_constraints:
        method=alternatives(rows.methods("sft", "kd")),
    localrule: True
    params:
        run=lambda wc: trajectories.run(wc, trajectories.last_round(wc), concrete),
    run:
        Path(output[0]).write_text(yaml.safe_dump(params.run, sort_keys=False), encoding="utf-8")


use rule configure_distillation as configure_round with:
    output:
        f"{ROUND}/run.yaml",
    log:
        f"{RUN_LOGS}/round{{round}}.configure.log",
    params:
        run=lambda wc: trajectories.run(wc, wc.round, concrete),


# The teacher's likeliest tokens, computed before (distillation.precompute).
rule teacher_probabilities:
    input:
        run=f"{RUN}/run.yaml",
        trajectories=lambda wc: f"{trajectories.folder(wc, 1)}/trajectories.parquet",
        models=lambda wc: [sums(models.folder(name)) for name in (wc.model, trajectories.teacher(wc))],
        data=runs.train_set("train"),
    output:
        f"{RUN}/teacher.parquet",
    log:
        f"{RUN_LOGS}/teacher.log",
    cache: True
    threads: cores("evaluate")
    resources:
        **stage("evaluate"),
    params:
        code=code("distillation.teacher"),
    shell:
        "tamtrl teacher-probabilities {input.run:q} --output {output:q} {resources.place} 2> {log:q}"


# verl's SFT trainer; the run folder looks as after reinforcement learning.
rule distil:
    input:
        lambda wc: trajectories.inputs(wc, trajectories.last_round(wc)),
        run=f"{RUN}/run.yaml",
    output:
        model=directory(f"{RUN}/model"),
        metrics=f"{RUN}/metrics.csv",
        card=f"{RUN}/card.json",
    log:
        f"{RUN_LOGS}/train.log",
    wildcard_constraints:
        method=alternatives(rows.methods("sft", "kd")),
    cache: True
    threads: cores("train")
    resources:
        **stage("train"),
    params:
        code=code_digest.of_distillation(),
        output=parent("metrics"),
        scratch=scratch,
    shell:
        "tamtrl distil {input.run:q} --output {params.output:q} --scratch {params.scratch:q} {resources.place} 2>&1 | tee {log:q}"


use rule distil as distil_round with:
    input:
        lambda wc: trajectories.inputs(wc, wc.round),
        run=f"{ROUND}/run.yaml",
    output:
        model=directory(f"{ROUND}/model"),
        metrics=f"{ROUND}/metrics.csv",
        card=f"{ROUND}/card.json",
    log:
        f"{RUN_LOGS}/round{{round}}.train.log",
    cache: True  # not inherited
    params:
        code=code_digest.of_distillation(),
        output=parent("metrics"),
        scratch=lambda wc: f"{scratch(wc)}/round{wc.round}",
