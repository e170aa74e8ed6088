# Public files, and the examples made from them.


# Pinned by sha256; from the first address that has it.
rule fetch_file:
    output:
        "<results>/data/raw/{file}",
    log:
        "<logs>/fetch/{file}.log",
    wildcard_constraints:
        file=alternatives(spec["file"] for spec in paper.sources.values()),
    cache: "omit-software"
    localrule: True
    params:
        spec=lambda wc: sets.source_file(wc.file),
    shell:
        "tamtrl fetch-file --sha256 {params.spec[sha256]} --urls {params.spec[urls]:q} --output {output:q} 2> {log:q}"


# Questions over paragraphs, some of them supporting: long documents with distractors of the whole split.
rule prepare_multihop:
    input:
        source=lambda wc: sets.source_of(wc.dataset),
        closed_book=lambda wc: sets.verdicts(wc.dataset),
    output:
        "<results>/data/{dataset}.parquet",
    log:
        "<logs>/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=alternatives(sets.of_task("hotpotqa", "2wikimultihopqa", "musique")),
    cache: True
    params:
        name=lambda wc: wc.dataset,
        code=code("tasks.multihop", "tasks.synthesis"),
        form=lambda wc: paper.datasets[wc.dataset]["task"],
        options=lambda wc: sets.options(wc.dataset, "member", "documents", "count", "skip"),
        closed_book=optional("closed-book", "closed_book"),
        seed=config["data_seed"],
    shell:
        "tamtrl prepare-multihop --benchmark {params.name:q} --format {params.form:q} --source {input.source:q} "
        "{params.options} {params.closed_book} --seed {params.seed:q} --output {output:q} 2> {log:q}"


# Questions over whole papers.
rule prepare_qasper:
    input:
        lambda wc: sets.source_of(wc.dataset),
    output:
        "<results>/data/{dataset}.parquet",
    log:
        "<logs>/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=alternatives(sets.of_task("qasper")),
    cache: True
    params:
        name=lambda wc: wc.dataset,
        code=code("tasks.qasper"),
        options=lambda wc: sets.options(wc.dataset, "member"),
    shell:
        "tamtrl prepare-qasper --benchmark {params.name:q} --source {input:q} {params.options} --output {output:q} 2> {log:q}"


# One question-answering set of LongBench, as it is.
rule prepare_longbench:
    input:
        lambda wc: sets.source_of(wc.dataset),
    output:
        "<results>/data/{dataset}.parquet",
    log:
        "<logs>/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=alternatives(sets.of_task("longbench")),
    cache: True
    params:
        name=lambda wc: wc.dataset,
        code=code("tasks.longbench"),
        options=lambda wc: sets.options(wc.dataset, "config"),
    shell:
        "tamtrl prepare-longbench --benchmark {params.name:q} --source {input:q} {params.options} --output {output:q} "
        "2> {log:q}"


# RULER's needles, in running text or among needles, fitted to the model's own tokens.
rule prepare_niah:
    input:
        tokenizer=lambda wc: sums(models.folder(paper.datasets[wc.dataset]["tokenizer"])),
        essay=lambda wc: sets.source_of(wc.dataset) if "source" in paper.datasets[wc.dataset] else [],
    output:
        "<results>/data/{dataset}.parquet",
    log:
        "<logs>/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=alternatives(sets.of_task("niah")),
    cache: True
    params:
        name=lambda wc: wc.dataset,
        code=code("tasks.ruler"),
        tokenizer=folder_of("tokenizer"),
        options=lambda wc: sets.options(wc.dataset, "multikey", "tokens", "count"),
        essay=optional("essay", "essay"),
        seed=config["data_seed"],
    shell:
        "tamtrl prepare-niah --benchmark {params.name:q} --tokenizer {params.tokenizer:q} {params.essay} {params.options} "
        "--seed {params.seed:q} --output {output:q} 2> {log:q}"


# RULER's multi-hop QA, fitted to the model's own tokens.
rule prepare_ruler_qa:
    input:
        source=lambda wc: sets.source_of(wc.dataset),
        tokenizer=lambda wc: sums(models.folder(paper.datasets[wc.dataset]["tokenizer"])),
    output:
        "<results>/data/{dataset}.parquet",
    log:
        "<logs>/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=alternatives(sets.of_task("ruler_qa")),
    cache: True
    params:
        name=lambda wc: wc.dataset,
        code=code("tasks.ruler", "tasks.multihop"),
        tokenizer=folder_of("tokenizer"),
        options=lambda wc: sets.options(wc.dataset, "tokens", "count"),
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
        dataset=alternatives(sets.of_task("toy")),
    cache: True
    params:
        name=lambda wc: wc.dataset,
        code=code("tasks.toy"),
        options=lambda wc: sets.options(wc.dataset, "split", "documents", "count", "hops", "about", "share", "sharing"),
        seed=config["data_seed"],
    shell:
        "tamtrl prepare-toy --benchmark {params.name:q} {params.options} --seed {params.seed:q} --output {output:q} 2> {log:q}"


# All prepared data of the configuration.
rule data:
    input:
        [data_set(name) for name in sets.used],
