# Backbones: given as folders, fetched from the hub, or made from nothing.


def given_folder(name):
    """A folder of the user's, or a copy kept in this repository; None for a model that a rule fetches or makes."""
    folder = MODELS[name].get("path") or MODELS[name].get("kept")
    return folder and located(folder, config["models"] == DEFAULTS["models"])


def model_folder(name):
    return f"<results>/models/{'given/' if given_folder(name) else ''}{name}"


def given_files(wildcards):
    folder = Path(given_folder(wildcards.model))
    files = sorted(str(path) for path in folder.glob("[!.]*") if path.is_file())
    if not files:
        raise WorkflowError(
            f"The folder of model {wildcards.model} ({folder}) has no files; correct `path` in models.yaml."
        )
    return files


# Links, so that Snakemake leaves no mark in the folder.
rule link_model:
    input:
        given_files,
    output:
        directory("<results>/models/given/{model}"),
    log:
        "<logs>/models/{model}.link.log",
    wildcard_constraints:
        model=alternatives(name for name in MODELS if given_folder(name)),
    localrule: True
    shell:
        "tamtrl link {input:q} --output {output:q} 2> {log:q}"


def sums(folder):
    """What stands for a model among a rule's inputs: Snakemake's cache knows files by their content, and folders not at all."""
    return f"{folder}.sha256"


def folder_of(name):
    """A parameter: the folder that an input stands for."""
    return lambda wc, input: input[name].removesuffix(".sha256")


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
        model=alternatives(name for name, spec in MODELS.items() if "repository" in spec),
    cache: "omit-software"
    localrule: True
    params:
        spec=lambda wc: MODELS[wc.model],
    shell:
        "tamtrl fetch-model --repository {params.spec[repository]} --revision {params.spec[revision]} "
        "--files {params.spec[files]:q} --output {output:q} 2> {log:q}"


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
        Path(output[0]).write_text(yaml.safe_dump(params.recipe, sort_keys=False), encoding="utf-8")


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
        code=code("models.backbone"),
        texts=lambda wc, input: option("texts", input.get("texts")),
    shell:
        "tamtrl backbone --recipe {input.recipe:q} {params.texts} --output {output:q} 2> {log:q}"
