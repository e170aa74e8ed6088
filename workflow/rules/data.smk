# Public files, and the examples made from them.


def by_task(*tasks):
    return alternatives(name for name, spec in DATASETS.items() if spec["task"] in tasks)


def source_path(name):
    """A file the user gave (`--config hotpotqa_train=FILE`), else the fetched one."""
    known([name], list(SOURCES), f"source in {config['sources']}:")
    return OWN_FILES.get(name) or f"<results>/data/raw/{SOURCES[name]['file']}"


def source_of(wildcards):
    return source_path(DATASETS[wildcards.dataset]["source"])


def tokenizer_of(wildcards):
    return sums(model_folder(DATASETS[wildcards.dataset]["tokenizer"]))


def options(*names):
    """A data set's own arguments as options of its command."""
    return lambda wc: " ".join(
        f"--{name.replace('_', '-')} {DATASETS[wc.dataset][name]}" for name in names if name in DATASETS[wc.dataset]
    )


# Pinned by sha256; from the first address that has it.
rule fetch_file:
    output:
        "<results>/data/raw/{file}",
    log:
        "<logs>/fetch/{file}.log",
    wildcard_constraints:
        file=alternatives(spec["file"] for spec in SOURCES.values()),
    cache: "omit-software"
    localrule: True
    params:
        spec=lambda wc: next(spec for spec in SOURCES.values() if spec["file"] == wc.file),
    shell:
        "tamtrl fetch-file --sha256 {params.spec[sha256]} --urls {params.spec[urls]:q} --output {output} 2> {log}"


# Questions over paragraphs, some of them supporting: long documents with distractors of the whole split.
rule prepare_multihop:
    input:
        source=source_of,
        closed_book=lambda wc: closed_book_verdicts(DATASETS[wc.dataset]),
    output:
        "<results>/data/{dataset}.parquet",
    log:
        "<logs>/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=by_task("hotpotqa", "2wikimultihopqa", "musique"),
    cache: True
    params:
        name=lambda wc: wc.dataset,
        code=code("tasks.multihop", "tasks.synthesis"),
        form=lambda wc: DATASETS[wc.dataset]["task"],
        options=options("member", "documents", "count", "skip"),
        closed_book=lambda wc, input: f"--closed-book {input.closed_book}" if input.get("closed_book") else "",
        seed=config["data_seed"],
    shell:
        "tamtrl prepare-multihop --benchmark {params.name} --format {params.form} --source {input.source:q} "
        "{params.options} {params.closed_book} --seed {params.seed} --output {output} 2> {log}"


# Questions over whole papers.
rule prepare_qasper:
    input:
        source_of,
    output:
        "<results>/data/{dataset}.parquet",
    log:
        "<logs>/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=by_task("qasper"),
    cache: True
    params:
        name=lambda wc: wc.dataset,
        code=code("tasks.qasper"),
        options=options("member"),
    shell:
        "tamtrl prepare-qasper --benchmark {params.name} --source {input:q} {params.options} --output {output} 2> {log}"


# One question-answering set of LongBench, as it is.
rule prepare_longbench:
    input:
        source_of,
    output:
        "<results>/data/{dataset}.parquet",
    log:
        "<logs>/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=by_task("longbench"),
    cache: True
    params:
        name=lambda wc: wc.dataset,
        code=code("tasks.longbench"),
        options=options("config"),
    shell:
        "tamtrl prepare-longbench --benchmark {params.name} --source {input:q} {params.options} --output {output} "
        "2> {log}"


# RULER's needles, in running text or among needles, fitted to the model's own tokens.
rule prepare_niah:
    input:
        tokenizer=tokenizer_of,
        essay=lambda wc: source_of(wc) if "source" in DATASETS[wc.dataset] else [],
    output:
        "<results>/data/{dataset}.parquet",
    log:
        "<logs>/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=by_task("niah"),
    cache: True
    params:
        name=lambda wc: wc.dataset,
        code=code("tasks.ruler"),
        tokenizer=folder_of("tokenizer"),
        options=options("multikey", "tokens", "count"),
        essay=lambda wc, input: f"--essay '{input.essay}'" if input.get("essay") else "",
        seed=config["data_seed"],
    shell:
        "tamtrl prepare-niah --benchmark {params.name} --tokenizer {params.tokenizer} {params.essay} {params.options} "
        "--seed {params.seed} --output {output} 2> {log}"


# RULER's multi-hop QA, fitted to the model's own tokens.
rule prepare_ruler_qa:
    input:
        source=source_of,
        tokenizer=tokenizer_of,
    output:
        "<results>/data/{dataset}.parquet",
    log:
        "<logs>/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=by_task("ruler_qa"),
    cache: True
    params:
        name=lambda wc: wc.dataset,
        code=code("tasks.ruler", "tasks.multihop"),
        tokenizer=folder_of("tokenizer"),
        options=options("tokens", "count"),
        seed=config["data_seed"],
    shell:
        "tamtrl prepare-ruler-qa --benchmark {params.name} --source {input.source:q} --tokenizer {params.tokenizer} "
        "{params.options} --seed {params.seed} --output {output} 2> {log}"


# Generated one-fact paragraphs; train and heldout share no question.
rule prepare_toy:
    output:
        "<results>/data/{dataset}.parquet",
    log:
        "<logs>/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=by_task("toy"),
    cache: True
    params:
        name=lambda wc: wc.dataset,
        code=code("tasks.toy"),
        options=options("split", "documents", "count", "hops", "about", "share", "sharing"),
        seed=config["data_seed"],
    shell:
        "tamtrl prepare-toy --benchmark {params.name} {params.options} --seed {params.seed} --output {output} 2> {log}"


# All prepared data of the configuration.
rule data:
    input:
        collect("<results>/data/{dataset}.parquet", dataset=USED_SETS),
