# Public files, and the examples made from them.


def by_task(task):
    return alternatives(name for name, spec in DATASETS.items() if spec["task"] == task)


def source_path(name):
    """A file the user gave (`--config hotpotqa_train=FILE`), else the fetched folder."""
    if name in config:
        return config[name]
    if name not in config["sources"]:
        raise WorkflowError(f"Unknown source {name!r}; there are {', '.join(config['sources'])}.")
    return f"<results>/data/raw/{name}"


# One pinned revision of a data set from the hub.
rule fetch_dataset:
    output:
        directory("<results>/data/raw/{source}"),
    log:
        "<logs>/fetch_dataset/{source}.log",
    localrule: True
    params:
        spec=lambda wc: config["sources"][wc.source],
    shell:
        "tamtrl fetch --kind dataset --repository {params.spec[repository]} --revision {params.spec[revision]} "
        "--files {params.spec[files]:q} --output {output} 2> {log}"


# Long documents from HotpotQA questions and distractors.
rule prepare_hotpotqa:
    input:
        lambda wc: source_path(DATASETS[wc.dataset]["source"]),
    output:
        "<results>/data/{dataset}.parquet",
    log:
        "<logs>/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=by_task("hotpotqa"),
    params:
        spec=lambda wc: DATASETS[wc.dataset],
        seed=config["data_seed"],
    shell:
        "tamtrl prepare-hotpotqa --source {input:q} --benchmark {wildcards.dataset} --documents {params.spec[documents]} "
        "--count {params.spec[count]} --skip {params.spec[skip]} --seed {params.seed} --output {output} 2> {log}"


# One question-answering set of LongBench, as it is.
rule prepare_longbench:
    input:
        lambda wc: source_path(DATASETS[wc.dataset]["source"]),
    output:
        "<results>/data/{dataset}.parquet",
    log:
        "<logs>/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=by_task("longbench"),
    params:
        spec=lambda wc: DATASETS[wc.dataset],
    shell:
        "tamtrl prepare-longbench --source {input:q} --config {params.spec[config]} --benchmark {wildcards.dataset} "
        "--output {output} 2> {log}"


# RULER's needles among needles, fitted to the model's own tokens.
rule prepare_niah:
    input:
        lambda wc: model_folder(DATASETS[wc.dataset]["tokenizer"]),
    output:
        "<results>/data/{dataset}.parquet",
    log:
        "<logs>/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=by_task("niah"),
    params:
        spec=lambda wc: DATASETS[wc.dataset],
        seed=config["data_seed"],
    shell:
        "tamtrl prepare-niah --multikey {params.spec[multikey]} --tokenizer {input} --tokens {params.spec[tokens]} "
        "--count {params.spec[count]} --seed {params.seed} --benchmark {wildcards.dataset} --output {output} 2> {log}"


# RULER's multi-hop QA, fitted to the model's own tokens.
rule prepare_ruler_qa:
    input:
        source=lambda wc: source_path(DATASETS[wc.dataset]["source"]),
        tokenizer=lambda wc: model_folder(DATASETS[wc.dataset]["tokenizer"]),
    output:
        "<results>/data/{dataset}.parquet",
    log:
        "<logs>/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=by_task("ruler_qa"),
    params:
        spec=lambda wc: DATASETS[wc.dataset],
        seed=config["data_seed"],
    shell:
        "tamtrl prepare-ruler-qa --source {input.source:q} --tokenizer {input.tokenizer} --tokens {params.spec[tokens]} "
        "--count {params.spec[count]} --seed {params.seed} --benchmark {wildcards.dataset} --output {output} 2> {log}"


# Generated one-fact paragraphs; train and heldout share no question.
rule prepare_toy:
    output:
        "<results>/data/{dataset}.parquet",
    log:
        "<logs>/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=by_task("toy"),
    params:
        spec=lambda wc: DATASETS[wc.dataset],
        seed=config["data_seed"],
    shell:
        "tamtrl prepare-toy --split {params.spec[split]} --documents {params.spec[documents]} "
        "--count {params.spec[count]} --seed {params.seed} --stream {wildcards.dataset} --output {output} 2> {log}"


# All prepared data of the configuration.
rule data:
    input:
        collect("<results>/data/{dataset}.parquet", dataset=[*config["train_sets"], *config["evaluate_on"]]),


USED_SOURCES = {
    DATASETS[name]["source"] for name in [*config["train_sets"], *config["evaluate_on"]] if "source" in DATASETS[name]
}


# Everything that needs the network: afterwards nothing does.
rule downloads:
    input:
        [source_path(name) for name in sorted(USED_SOURCES)],
        lambda wc: [model_folder(m) for m in dict.fromkeys(RUNS["model"]) if "repository" in MODELS[m]],
