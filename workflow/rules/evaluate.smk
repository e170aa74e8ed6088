# Predict once with vLLM, score any time without a GPU.


rule configure_evaluation:
    output:
        f"{RUN}/evaluation.yaml",
    log:
        f"{RUN_LOGS}/configure_evaluation.log",
    localrule: True
    params:
        run=lambda wc: runs.evaluation(rows.row(wc), wc.seed),
    run:
        Path(output[0]).write_text(yaml.safe_dump(params.run, sort_keys=False), encoding="utf-8")


# Every document of every benchmark read chunk by chunk by one engine; memories and answers are stored. Finished documents stay in
# scratch, so that a benchmark added later costs only itself. A run without training is the untrained backbone.
rule predict:
    input:
        run=rules.configure_evaluation.output,
        model=lambda wc: sums(models.tested(rows.row(wc), wc.seed)),
        data=[data_set(name) for name in paper.evaluated],
    output:
        **{name: f"{RUN}/predictions/{name}.jsonl.gz" for name in paper.evaluated},
    log:
        f"{RUN_LOGS}/predict.log",
    cache: True
    threads: cores("evaluate")
    resources:
        **stage("evaluate"),
    params:
        code=code("evaluation.predict"),
        model=folder_of("model"),
        output=parent(0),
        scratch=lambda wc: f"{scratch(wc)}/predictions",
    shell:
        "tamtrl predict {input.run:q} --model {params.model:q} --data {input.data:q} --output {params.output:q} "
        "--scratch {params.scratch:q} {resources.place} 2> {log:q}"


rule score:
    input:
        [f"{RUN}/predictions/{name}.jsonl.gz" for name in paper.evaluated],
    output:
        [f"{RUN}/scores/{name}.{kind}" for name in paper.evaluated for kind in SCORES],
    log:
        f"{RUN_LOGS}/score.log",
    localrule: True  # seconds: not worth a place in a queue
    params:
        code=code("evaluation.score"),
        f1_rules=lambda wc, input: [paper.f1_rule(Path(file).name.removesuffix(".jsonl.gz")) for file in input],
        output=parent(0),
    shell:
        "tamtrl score {input:q} --f1-rules {params.f1_rules:q} --output {params.output:q} 2> {log:q}"


# Scores of all selected runs on all selected benchmarks.
rule evaluate:
    input:
        rows.files(f"{RUN}/scores/{{benchmark}}.csv", rows.selected, paper.evaluated),
