# MemAgent's filter: questions that some model answers without the document are left out of training and in-domain sets.


# A model's answers to questions alone.
rule ask_closed_book:
    input:
        source=lambda wc: sets.source_path(wc.source),
        model=lambda wc: sums(models.folder(wc.model)),
    output:
        "<results>/data/closed_book/{source}/{model}.jsonl.gz",
    log:
        "<logs>/closed_book/{source}.{model}.log",
    cache: True
    threads: cores("evaluate")
    resources:
        **stage("evaluate"),
    params:
        code=code("evaluation.closed_book"),
        model=folder_of("model"),
        options=lambda wc: sets.source_options(wc.source),
        settings=sets.filter_options(),
        seed=config["data_seed"],
    shell:
        "tamtrl closed-book-ask --source {input.source:q} {params.options} --model {params.model:q} {params.settings} "
        "--seed {params.seed:q} --output {output:q} {resources.place} 2> {log:q}"


# Which questions go, and the answer that decided it.
rule filter_closed_book:
    input:
        source=lambda wc: sets.source_path(wc.source),
        answers=collect("<results>/data/closed_book/{{source}}/{model}.jsonl.gz", model=config["closed_book"]["models"]),
    output:
        "<results>/data/closed_book/{source}.csv",
    log:
        "<logs>/closed_book/{source}.log",
    cache: True
    params:
        code=code("evaluation.closed_book"),
        options=lambda wc: sets.source_options(wc.source),
        models=config["closed_book"]["models"],
    shell:
        "tamtrl closed-book-filter --source {input.source:q} {params.options} --models {params.models:q} "
        "--answers {input.answers:q} --output {output:q} 2> {log:q}"
