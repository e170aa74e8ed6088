# Figures 5-7: models trained on other documents, chunks and amounts of data (rows of runs.tsv), and tests of Table 1's models on other
# documents and chunks (`tests` in the configuration), which train nothing.


wildcard_constraints:
    test=alternatives(paper.tests),


use rule configure_evaluation as configure_test with:
    output:
        f"{TEST}/evaluation.yaml",
    log:
        f"{RUN_LOGS}/tests/{{test}}.configure.log",
    params:
        run=lambda wc: runs.evaluation(rows.row(wc), wc.seed, wc.test),


use rule predict as predict_test with:
    input:
        run=rules.configure_test.output,
        model=lambda wc: sums(models.tested(rows.row(wc), wc.seed)),
        data=data_set("{benchmark}"),
    output:
        f"{TEST}/predictions/{{benchmark}}.jsonl.gz",
    log:
        f"{RUN_LOGS}/tests/{{test}}.{{benchmark}}.predict.log",
    cache: True  # not inherited
    params:
        code=code("evaluation.predict"),
        model=folder_of("model"),
        output=parent(0),
        scratch=lambda wc: f"{scratch(wc)}/tests/{wc.test}",


use rule score as score_test with:
    input:
        f"{TEST}/predictions/{{benchmark}}.jsonl.gz",
    output:
        [f"{TEST}/scores/{{benchmark}}.{kind}" for kind in SCORES],
    log:
        f"{RUN_LOGS}/tests/{{test}}.{{benchmark}}.score.log",
