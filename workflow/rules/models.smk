# Backbones: fetched from the hub, made from nothing, or given as folders.


def model_folder(name):
    """Where a model lies: a folder the user gave, a copy kept in the repository, or one that a rule makes."""
    spec = MODELS[name]
    return spec.get("path") or spec.get("kept") or f"<results>/models/{name}"


rule fetch_model:
    output:
        directory("<results>/models/{model}"),
    log:
        "<logs>/fetch_model/{model}.log",
    wildcard_constraints:
        model=alternatives(name for name, spec in MODELS.items() if "repository" in spec),
    cache: "omit-software"
    localrule: True
    params:
        spec=lambda wc: MODELS[wc.model],
    shell:
        "tamtrl fetch-model --repository {params.spec[repository]} --revision {params.spec[revision]} "
        "--files {params.spec[files]:q} --output {output} 2> {log}"


rule backbone_recipe:
    output:
        "<results>/models/{model}.recipe.yaml",
    log:
        "<logs>/backbone/{model}.recipe.log",
    wildcard_constraints:
        model=alternatives(name for name, spec in MODELS.items() if "made" in spec),
    localrule: True
    params:
        recipe=lambda wc: {"seed": config["data_seed"], "reading": config["reading"]} | MODELS[wc.model]["made"],
    run:
        Path(output[0]).write_text(yaml.safe_dump(params.recipe, sort_keys=False))


# A small Qwen3 or BERT and its tokenizer, made from nothing; `tamtrl backbone` remakes the kept toy backbone by the same rule.
rule make_backbone:
    input:
        recipe=rules.backbone_recipe.output,
        texts=lambda wc: (
            f"<results>/data/{config['train_sets']['train']}.parquet"
            if MODELS[wc.model]["made"]["tokenizer"] != "word"
            else []
        ),
    output:
        directory("<results>/models/{model}"),
    log:
        "<logs>/backbone/{model}.log",
    wildcard_constraints:
        model=alternatives(name for name, spec in MODELS.items() if "made" in spec),
    cache: True
    threads: 2
    params:
        code=code("training.backbone"),
        texts=lambda wc, input: f"--texts {input.texts}" if input.get("texts") else "",
    shell:
        "tamtrl backbone --recipe {input.recipe} {params.texts} --output {output} 2> {log}"
