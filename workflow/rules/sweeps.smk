# Figures 5-7: models trained on other documents, chunks and amounts of data (rows of runs.tsv), and tests of Table 1's models on other
# documents and chunks (`tests` in the configuration), which train nothing.
TEST = f"{RUN}/tests/{{test}}"


wildcard_constraints:
    test=alternatives(TESTS),


use rule configure_evaluation as configure_test with:
    output:
        f"{TEST}/evaluation.yaml",
    log:
        f"<logs>/runs/{{model}}/{{method}}/{{variant}}/seed{{seed}}/tests/{{test}}.configure.log",
    params:
        run=lambda wc: evaluation_run(run_row(wc), wc.seed, TESTS[wc.test].get("reading")),


use rule predict as predict_test with:
    input:
        run=rules.configure_test.output,
        model=tested_model,
        data="<results>/data/{benchmark}.parquet",
    output:
        f"{TEST}/predictions/{{benchmark}}.jsonl.gz",
    log:
        f"<logs>/runs/{{model}}/{{method}}/{{variant}}/seed{{seed}}/tests/{{test}}.{{benchmark}}.predict.log",
    cache: True  # not inherited
    params:
        code=code("evaluation.predict"),
        model=folder_of("model"),
        output=lambda wc, output: os.path.dirname(output[0]),
        scratch=lambda wc: f"{scratch(wc)}/tests/{wc.test}",


use rule score as score_test with:
    input:
        f"{TEST}/predictions/{{benchmark}}.jsonl.gz",
    output:
        scores=f"{TEST}/scores/{{benchmark}}.csv",
        documents=f"{TEST}/scores/{{benchmark}}.documents.csv",
    log:
        f"<logs>/runs/{{model}}/{{method}}/{{variant}}/seed{{seed}}/tests/{{test}}.{{benchmark}}.score.log",


def documents_of(dataset):
    return DATASETS[dataset].get("documents")


# What a sweep over training changes, read from the row that changes it.
TRAINED_WITH = {
    "fig5_training": lambda row: documents_of(resolved(row)["train_sets"]["train"]),
    "fig6_training": lambda row: resolved(row)["train_reading"]["chunk_tokens"],
    "fig7": lambda row: DATASETS[resolved(row)["train_sets"]["train"]].get("count"),
}
# And one over tests, read from the test (None: as in Table 1).
TESTED_WITH = {
    "fig5_test": lambda row, test, benchmark: documents_of(benchmark),
    "fig6_test": lambda row, test, benchmark: evaluation_run(row, 0, (test or {}).get("reading"))["reading"][
        "chunk_tokens"
    ],
}


def sweep(item):
    """The points of a sweep: the wildcards of a run and a benchmark, what was changed (``value``), and the scores (``documents``)."""
    points = []
    for _, row in rows_of(item).iterrows():
        for seed in config["seeds"]:
            run = case_of(row, seed)
            if item in TRAINED_WITH:
                points += [
                    run
                    | {"benchmark": benchmark, "value": TRAINED_WITH[item](row)}
                    | {"documents": f"{RUN}/scores/{benchmark}.documents.csv".format(**run)}
                    for benchmark in EVALUATED
                ]
                continue
            tests = [(None, SHOWN)]
            tests += [(test["name"], name) for test in config["tests"].get(item, []) for name in test["benchmarks"]]
            for test, benchmark in tests:
                folder = (RUN if test is None else TEST).format(**run, test=test)
                points.append(
                    run
                    | {"benchmark": SHOWN}
                    | {"value": TESTED_WITH[item](row, TESTS.get(test), benchmark)}
                    | {"documents": f"{folder}/scores/{benchmark}.documents.csv"}
                )
    return [point for point in points if point["value"] is not None]  # a set that doesn't say is no point
