# Predict once with vLLM, score any time without a GPU.


def tested_model(wildcards):
    if run_row(wildcards)["training"] == "none":
        return sums(model_folder(wildcards.model))
    return sums(f"{RUN}/model".format(**wildcards))


rule configure_evaluation:
    output:
        f"{RUN}/evaluation.yaml",
    log:
        f"<logs>/runs/{{model}}/{{method}}/{{variant}}/seed{{seed}}/configure_evaluation.log",
    localrule: True
    params:
        run=lambda wc: evaluation_run(run_row(wc), wc.seed),
    run:
        Path(output[0]).write_text(yaml.safe_dump(params.run, sort_keys=False), encoding="utf-8")


# Every document of every benchmark read chunk by chunk by one engine; memories and answers are stored. Finished documents stay in
# scratch, so that a benchmark added later costs only itself. A run without training is the untrained backbone.
rule predict:
    input:
        run=rules.configure_evaluation.output,
        model=tested_model,
        data=collect("<results>/data/{benchmark}.parquet", benchmark=EVALUATED),
    output:
        **{name: f"{RUN}/predictions/{name}.jsonl.gz" for name in EVALUATED},
    log:
        f"<logs>/runs/{{model}}/{{method}}/{{variant}}/seed{{seed}}/predict.log",
    cache: True
    threads: resource("evaluate", "cores")
    resources:
        **stage("evaluate"),
    params:
        code=code("evaluation.predict"),
        model=folder_of("model"),
        output=lambda wc, output: os.path.dirname(output[0]),
        scratch=lambda wc: f"{scratch(wc)}/predictions",
    shell:
        "tamtrl predict {input.run:q} --model {params.model:q} --data {input.data:q} --output {params.output:q} "
        "--scratch {params.scratch:q} {resources.place} 2> {log:q}"


rule score:
    input:
        f"{RUN}/predictions/{{benchmark}}.jsonl.gz",
    output:
        scores=f"{RUN}/scores/{{benchmark}}.csv",
        documents=f"{RUN}/scores/{{benchmark}}.documents.csv",
    log:
        f"<logs>/runs/{{model}}/{{method}}/{{variant}}/seed{{seed}}/score_{{benchmark}}.log",
    localrule: True  # seconds: not worth a place in a queue
    params:
        benchmark=lambda wc: wc.benchmark,
        code=code("evaluation.score"),
        f1_rule=lambda wc: DATASETS[wc.benchmark].get("f1_rule", "hotpotqa"),
    shell:
        "tamtrl score {input:q} --benchmark {params.benchmark:q} --f1-rule {params.f1_rule:q} --output {output.scores:q} "
        "--documents {output.documents:q} 2> {log:q}"


# Scores of all selected runs on all selected benchmarks.
rule evaluate:
    input:
        paths(f"{RUN}/scores/{{benchmark}}.csv", RUNS, benchmarks=EVALUATED),
