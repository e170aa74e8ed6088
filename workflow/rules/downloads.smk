# What the selected runs need of the network.

USED_SOURCES = {DATASETS[name]["source"] for name in USED_SETS if "source" in DATASETS[name]}
USED_MODELS = dict.fromkeys(
    [
        *RUNS["model"],
        *(DATASETS[name]["tokenizer"] for name in USED_SETS if "tokenizer" in DATASETS[name]),
        *(resolved(row)["distillation"]["teacher"] for _, row in RUNS.iterrows() if row["training"] in ("sft", "kd")),
        *(name for _, row in RUNS.iterrows() for name in scorer_models(row)),
        *(config["closed_book"]["models"] if any(closed_book_verdicts(DATASETS[name]) for name in USED_SETS) else []),
    ]
)


# Everything that needs the network: afterwards nothing does.
rule downloads:
    input:
        [source_path(name) for name in sorted(USED_SOURCES)],
        [sums(model_folder(name)) for name in USED_MODELS if name != "self" and "repository" in MODELS[name]],
