# Public files, and the examples made from them.


def by_task(*tasks):
    return alternatives(name for name, spec in DATASETS.items() if spec["task"] in tasks)


def source_path(name):
    """A file the user gave (`--config hotpotqa_train=FILE`), else the fetched one."""
    known([name], list(SOURCES), f"source in {SOURCES_FILE}:")
    return OWN_FILES.get(name) or f"<results>/data/raw/{SOURCES[name]['file']}"


def source_of(wildcards):
    return source_path(DATASETS[wildcards.dataset]["source"])


def tokenizer_of(wildcards):
    return sums(model_folder(DATASETS[wildcards.dataset]["tokenizer"]))


def options(*names):
    """A data set's own arguments as options of its command."""
    return lambda wc: " ".join(
        option(name.replace("_", "-"), str(DATASETS[wc.dataset][name]))
        for name in names
        if name in DATASETS[wc.dataset]
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
        "tamtrl fetch-file --sha256 {params.spec[sha256]} --urls {params.spec[urls]:q} --output {output:q} 2> {log:q}"


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
        closed_book=lambda wc, input: option("closed-book", input.get("closed_book")),
        seed=config["data_seed"],
    shell:
        "tamtrl prepare-multihop --benchmark {params.name:q} --format {params.form:q} --source {input.source:q} "
        "{params.options} {params.closed_book} --seed {params.seed:q} --output {output:q} 2> {log:q}"


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
        "tamtrl prepare-qasper --benchmark {params.name:q} --source {input:q} {params.options} --output {output:q} 2> {log:q}"


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
        "tamtrl prepare-longbench --benchmark {params.name:q} --source {input:q} {params.options} --output {output:q} "
        "2> {log:q}"


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
        essay=lambda wc, input: option("essay", input.get("essay")),
        seed=config["data_seed"],
    shell:
        "tamtrl prepare-niah --benchmark {params.name:q} --tokenizer {params.tokenizer:q} {params.essay} {params.options} "
        "--seed {params.seed:q} --output {output:q} 2> {log:q}"


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
        "tamtrl prepare-ruler-qa --benchmark {params.name:q} --source {input.source:q} --tokenizer {params.tokenizer:q} "
        "{params.options} --seed {params.seed:q} --output {output:q} 2> {log:q}"


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
        "tamtrl prepare-toy --benchmark {params.name:q} {params.options} --seed {params.seed:q} --output {output:q} 2> {log:q}"


# All prepared data of the configuration.
rule data:
    input:
        collect("<results>/data/{dataset}.parquet", dataset=USED_SETS),
