# Tables and figures: from CSV files only, so that a deleted one is remade in seconds.

TABLES = ["table1"]
PAPER_TABLES = ["table1", "table2", "table3"]
KINDS = ["csv", "md", "tex"]


# Which runs a table shows and where their scores are.
rule list_scores:
    input:
        lambda wc: paths(f"{RUN}/scores/{{benchmark}}.documents.csv", rows_of(wc.table), benchmarks=EVALUATED),
    output:
        "<results>/tables/{table}.runs.csv",
    log:
        "<logs>/tables/{table}.runs.log",
    localrule: True
    params:
        rows=lambda wc: cases(rows_of(wc.table), benchmarks=EVALUATED),
    run:
        pd.DataFrame(params.rows).assign(documents=list(input)).to_csv(output[0], index=False)


# Published beside reproduced.
rule table:
    input:
        paper="results/paper/{table}.csv",
        runs=rules.list_scores.output,
    output:
        csv="<results>/tables/{table}.csv",
        md="<results>/tables/{table}.md",
        tex="<results>/tables/{table}.tex",
    log:
        "<logs>/tables/{table}.log",
    wildcard_constraints:
        table=alternatives(TABLES),
    localrule: True
    params:
        columns=config["evaluate_on"],
        means=[f"{name}={','.join(parts)}" for name, parts in MEANS.items()],
        average_over=config["average_over"],
        metric=config["metric"],
        note=NOTE,
    shell:
        "tamtrl table {wildcards.table} --paper {input.paper} --runs {input.runs} --columns {params.columns} "
        "--means {params.means} --average-over {params.average_over} --metric {params.metric} --note {params.note:q} "
        "--output {output.csv} 2> {log}"


# What it was made from; `tamtrl verify` compares.
rule record_table:
    input:
        runs=rules.list_scores.output,
        made=collect("<results>/tables/{{table}}.{kind}", kind=KINDS),
    output:
        "<results>/tables/{table}.provenance.json",
    log:
        "<logs>/tables/{table}.provenance.log",
    wildcard_constraints:
        table=alternatives(TABLES),
    localrule: True
    shell:
        "tamtrl record --runs {input.runs} --made {input.made} --output {output} 2> {log}"


SET_ORDER = [*TRAINING_SETS, config["train_sets"]["validation"], *TEST_SETS]


rule list_sets:
    input:
        collect("<results>/data/{dataset}.parquet", dataset=SET_ORDER),
    output:
        "<results>/tables/tableA1.sets.csv",
    log:
        "<logs>/tables/tableA1.sets.log",
    localrule: True
    params:
        uses=[*("training" for _ in TRAINING_SETS), "validation", *("evaluation" for _ in TEST_SETS)],
        sets=SET_ORDER,
    run:
        pd.DataFrame({"use": params.uses, "set": params.sets, "file": list(input)}).to_csv(output[0], index=False)


# How many samples each set has, counted in the prepared files.
rule table_samples:
    input:
        paper="results/paper/tableA1.csv",
        sets=rules.list_sets.output,
    output:
        csv="<results>/tables/tableA1.csv",
        md="<results>/tables/tableA1.md",
        tex="<results>/tables/tableA1.tex",
    log:
        "<logs>/tables/tableA1.log",
    localrule: True
    params:
        note=NOTE,
    shell:
        "tamtrl table-samples --paper {input.paper} --sets {input.sets} --note {params.note:q} --output {output.csv} 2> {log}"


# Published numbers alone: no data, no training, seconds.
rule paper_table:
    input:
        "results/paper/{table}.csv",
    output:
        csv="results/published/{table}.csv",
        md="results/published/{table}.md",
        tex="results/published/{table}.tex",
    log:
        "logs/published/{table}.log",
    wildcard_constraints:
        table=alternatives(PAPER_TABLES),
    localrule: True
    shell:
        "tamtrl table {wildcards.table} --paper {input} --output {output.csv} 2> {log}"


# Which runs the figure of training dynamics shows and where their metrics are.
rule list_metrics:
    input:
        lambda wc: paths(f"{RUN}/metrics.csv", rows_of("dynamics")),
    output:
        "<results>/figures/dynamics.runs.csv",
    log:
        "<logs>/figures/dynamics.runs.log",
    localrule: True
    params:
        rows=cases(rows_of("dynamics")),
    run:
        pd.DataFrame(params.rows).assign(metrics=list(input)).to_csv(output[0], index=False)


# Figures 3 and 4 of the paper: reward and response length per step.
rule figure_dynamics:
    input:
        rules.list_metrics.output,
    output:
        csv="<results>/figures/dynamics.csv",
        svg="<results>/figures/dynamics.svg",
        png="<results>/figures/dynamics.png",
    log:
        "<logs>/figures/dynamics.log",
    localrule: True
    params:
        title=config["note"],
    shell:
        "tamtrl figure --runs {input} --title {params.title:q} --output {output.csv} 2> {log}"


# How far the process reward model's probabilities are right, on questions it wasn't trained on.
rule figure_calibration:
    input:
        collect(f"{PRM}/{{file}}", seed=config["seeds"], file=["report.json", "calibration.csv", "prm.yaml"]),
    output:
        csv="<results>/figures/prm_calibration.csv",
        svg="<results>/figures/prm_calibration.svg",
        png="<results>/figures/prm_calibration.png",
    log:
        "<logs>/figures/prm_calibration.log",
    localrule: True
    params:
        folders=lambda wc, input: list(dict.fromkeys(str(Path(file).parent) for file in input)),
        title=config["note"],
    shell:
        "tamtrl figure-calibration {params.folders} --title {params.title:q} --output {output.csv} 2> {log}"


rule paper_tables:
    input:
        collect("results/published/{table}.{kind}", table=PAPER_TABLES, kind=KINDS),


rule tables:
    input:
        collect(
            "<results>/tables/{table}.{kind}",
            table=[*(table for table in TABLES if not rows_of(table).empty), "tableA1"],
            kind=KINDS,
        ),
        [f"<results>/tables/{table}.provenance.json" for table in TABLES if not rows_of(table).empty],


FIGURES = [
    *([] if rows_of("dynamics").empty else ["dynamics"]),
    *(["prm_calibration"] if "prm" in map(scorer_kind, rows_of("table1").to_dict("records")) else []),
]


rule figures:
    input:
        collect("<results>/figures/{figure}.{kind}", figure=FIGURES, kind=["csv", "svg", "png"]),
