# MemAgent's filter: questions that some model answers without the document are left out of training and in-domain sets.


def closed_book_verdicts(spec):
    """The filter's verdicts on a data set's source, or nothing where the filter is off."""
    return (
        f"<results>/data/closed_book/{spec['source']}.csv"
        if spec.get("closed_book") and config["closed_book"]["models"]
        else []
    )


def closed_book_options(wildcards):
    """Format and archive member of a source, which the sets made from it agree on."""
    spec = next(
        spec for spec in DATASETS.values() if spec.get("source") == wildcards.source and spec.get("closed_book")
    )
    return f"{option('format', spec['task'])} {option('member', spec.get('member'))}"


# A model's answers to questions alone.
rule ask_closed_book:
    input:
        source=lambda wc: source_path(wc.source),
        model=lambda wc: sums(model_folder(wc.model)),
    output:
        "<results>/data/closed_book/{source}/{model}.jsonl.gz",
    log:
        "<logs>/closed_book/{source}.{model}.log",
    cache: True
    threads: resource("evaluate", "cores")
    resources:
        **stage("evaluate"),
    params:
        code=code("evaluation.closed_book"),
        model=folder_of("model"),
        options=closed_book_options,
        settings=" ".join(
            f"--{key.replace('_', '-')} {value}" for key, value in config["closed_book"].items() if key != "models"
        ),
        seed=config["data_seed"],
    shell:
        "tamtrl closed-book-ask --source {input.source:q} {params.options} --model {params.model:q} {params.settings} "
        "--seed {params.seed:q} --output {output:q} {resources.place} 2> {log:q}"


# Which questions go, and the answer that decided it.
rule filter_closed_book:
    input:
        source=lambda wc: source_path(wc.source),
        answers=collect("<results>/data/closed_book/{{source}}/{model}.jsonl.gz", model=config["closed_book"]["models"]),
    output:
        "<results>/data/closed_book/{source}.csv",
    log:
        "<logs>/closed_book/{source}.log",
    cache: True
    params:
        code=code("evaluation.closed_book"),
        options=closed_book_options,
        models=config["closed_book"]["models"],
    shell:
        "tamtrl closed-book-filter --source {input.source:q} {params.options} --models {params.models:q} "
        "--answers {input.answers:q} --output {output:q} 2> {log:q}"
