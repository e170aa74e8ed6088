# Backbones: given as folders, fetched from the hub, or made from nothing.


# Links, so that Snakemake leaves no mark in the folder.
rule link_model:
    input:
        lambda wc: models.given_files(wc.model),
    output:
        directory("<results>/models/given/{model}"),
    log:
        "<logs>/models/{model}.link.log",
    wildcard_constraints:
        model=alternatives(models.given()),
    localrule: True
    shell:
        "tamtrl link {input:q} --output {output:q} 2> {log:q}"


# What stands for a model among inputs.
rule checksums:
    input:
        "<results>/{folder}",
    output:
        sums("<results>/{folder}"),
    log:
        "<logs>/checksums/{folder}.log",
    wildcard_constraints:
        folder=r"models/.+|(runs|prm)/.+/model",
    localrule: True
    shell:
        "tamtrl checksums {input:q} --output {output:q} 2> {log:q}"


rule fetch_model:
    output:
        directory("<results>/models/{model}"),
    log:
        "<logs>/fetch_model/{model}.log",
    wildcard_constraints:
        model=alternatives(models.having("repository")),
    cache: "omit-software"
    localrule: True
    params:
        spec=lambda wc: paper.models[wc.model],
    shell:
        "tamtrl fetch-model --repository {params.spec[repository]} --revision {params.spec[revision]} "
        "--files {params.spec[files]:q} --output {output:q} 2> {log:q}"


rule backbone_recipe:
    output:
        "<results>/models/{model}.recipe.yaml",
    log:
        "<logs>/backbone/{model}.recipe.log",
    wildcard_constraints:
        model=alternatives(models.having("made")),
    localrule: True
    params:
        recipe=lambda wc: models.recipe(wc.model),
    run:
        Path(output[0]).write_text(yaml.safe_dump(params.recipe, sort_keys=False), encoding="utf-8")


# A small Qwen3 or BERT and its tokenizer, made from nothing; `tamtrl backbone` remakes the kept toy backbone by the same rule.
rule make_backbone:
    input:
        recipe=rules.backbone_recipe.output,
        texts=lambda wc: runs.train_set("train") if models.learns_tokens(wc.model) else [],
    output:
        directory("<results>/models/{model}"),
    log:
        "<logs>/backbone/{model}.log",
    wildcard_constraints:
        model=alternatives(models.having("made")),
    cache: True
    threads: 2
    params:
        code=code("models.backbone"),
        texts=optional("texts", "texts"),
    shell:
        "tamtrl backbone --recipe {input.recipe:q} {params.texts} --output {output:q} 2> {log:q}"


# Is a toy reader right on the relevant text alone, and less so on the whole section?
rule premise:
    input:
        recipe=rules.backbone_recipe.output,
        model=lambda wc: sums(models.folder(wc.model)),
    output:
        "<results>/models/{model}.premise.csv",
    log:
        "<logs>/models/{model}.premise.log",
    wildcard_constraints:
        model=alternatives(models.taught(rows.every)),
    params:
        code=code("models.premise"),
        model=folder_of("model"),
    shell:
        "tamtrl premise --recipe {input.recipe:q} --model {params.model:q} --output {output:q} 2> {log:q}"
