# Tables and figures: from CSV files only, so that a deleted one is remade in seconds.

PAPER_TABLES = ["table1", "table2", "table3"]
# An ablation is a comparison: it needs more than the method itself.
TABLES = [table for table in PAPER_TABLES if len(rows.of(table)) > (table != "table1")]
COUNTED = ["tableA1", *(["tableA2"] if rows.of("tableA2") else [])]
KINDS = ["csv", "md", "tex", "html"]


# Which runs a table shows and where their scores are.
rule list_scores:
    input:
        lambda wc: rows.files(f"{RUN}/scores/{{benchmark}}.documents.csv", rows.of(wc.table), paper.evaluated),
    output:
        "<results>/tables/{table}.runs.csv",
    log:
        "<logs>/tables/{table}.runs.log",
    localrule: True
    params:
        rows=lambda wc: rows.listed(wc.table, paper.evaluated),
    run:
        frames.write(pd.DataFrame(params.rows).assign(documents=list(input)), output[0])


# Published beside reproduced.
rule table:
    input:
        paper=ours("results/paper/{table}.csv"),
        runs=rules.list_scores.output,
    output:
        csv="<results>/tables/{table}.csv",
        md="<results>/tables/{table}.md",
        tex="<results>/tables/{table}.tex",
        html=report(
            "<results>/tables/{table}.html",
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{table}"},
        ),
    log:
        "<logs>/tables/{table}.log",
    wildcard_constraints:
        table=alternatives(TABLES),
    localrule: True
    params:
        code=code("paper.tables"),
        columns=config["evaluate_on"],
        means=paper.means,
        average_over=config["average_over"],
        metric=config["metric"],
        note=lambda wc: paper.note,
    shell:
        "tamtrl table {wildcards.table:q} --paper {input.paper:q} --runs {input.runs:q} --columns {params.columns:q} "
        "--means {params.means:q} --average-over {params.average_over:q} --metric {params.metric:q} --note={params.note:q} "
        "--output {output.csv:q} 2> {log:q}"


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
        "tamtrl record --runs {input.runs:q} --made {input.made:q} --output {output:q} 2> {log:q}"


rule list_sets:
    input:
        [data_set(name) for _, name in sets.uses],
    output:
        "<results>/tables/tableA1.sets.csv",
    log:
        "<logs>/tables/tableA1.sets.log",
    localrule: True
    params:
        uses=[use for use, _ in sets.uses],
        sets=[name for _, name in sets.uses],
    run:
        frames.write(pd.DataFrame({"use": params.uses, "set": params.sets, "file": list(input)}), output[0])


# How many samples each set has, counted in the prepared files.
rule table_samples:
    input:
        paper=ours("results/paper/tableA1.csv"),
        sets=rules.list_sets.output,
    output:
        csv="<results>/tables/tableA1.csv",
        md="<results>/tables/tableA1.md",
        tex="<results>/tables/tableA1.tex",
        html=report(
            "<results>/tables/tableA1.html",
            caption="../report/tableA1.rst",
            category="Tables",
            labels={"table": "tableA1"},
        ),
    log:
        "<logs>/tables/tableA1.log",
    localrule: True
    params:
        code=code("paper.samples"),
        note=lambda wc: paper.note,
    shell:
        "tamtrl table-samples --paper {input.paper:q} --sets {input.sets:q} --note={params.note:q} --output {output.csv:q} 2> {log:q}"


# The jobs whose time is a run's in Table A2.
TIMES = times.listed("tableA2")


rule list_times:
    input:
        [job["file"] for job in TIMES],
    output:
        "<results>/tables/tableA2.jobs.csv",
    log:
        "<logs>/tables/tableA2.jobs.log",
    localrule: True
    params:
        jobs={key: [job[key] for job in TIMES] for key in ("model", "method", "variant", "seed", "part", "stage")},
    run:
        frames.write(times.with_devices(params.jobs, list(input)), output[0])


# `tamtrl plan` asks for it while the rules are read: it makes a dry run, which runs none.
if plan.projection():
    frames.write(pd.DataFrame(times.projections(), columns=PROJECTED), plan.projection())


# What training should take on A100s, from the configuration alone.
rule project:
    output:
        "<results>/tables/tableA2.projected.csv",
    log:
        "<logs>/tables/tableA2.projected.log",
    localrule: True
    params:
        rows=lambda wc: times.projections(),
        columns=PROJECTED,
    run:
        frames.write(pd.DataFrame(params.rows, columns=params.columns), output[0])


# Hours of every method, measured, and the projection apart.
rule table_hours:
    input:
        paper=ours("results/paper/tableA2.csv"),
        jobs=rules.list_times.output,
        projected=rules.project.output,
    output:
        csv="<results>/tables/tableA2.csv",
        md="<results>/tables/tableA2.md",
        tex="<results>/tables/tableA2.tex",
        html=report(
            "<results>/tables/tableA2.html",
            caption="../report/tableA2.rst",
            category="Tables",
            labels={"table": "tableA2"},
        ),
    log:
        "<logs>/tables/tableA2.log",
    localrule: True
    params:
        code=code("paper.hours"),
        note=lambda wc: paper.note,
    shell:
        "tamtrl table-hours --paper {input.paper:q} --jobs {input.jobs:q} --projected {input.projected:q} --note={params.note:q} "
        "--output {output.csv:q} 2> {log:q}"


# What the paper says in words: who is above whom. It needs every run, sweeps too, and so belongs to the records.
rule claims:
    input:
        claims=ours("results/paper/claims.tsv"),
        runs="<results>/tables/claims.runs.csv",
        hours=rules.table_hours.output.csv if rows.of("tableA2") else [],
    output:
        csv="<results>/tables/claims.csv",
        md="<results>/tables/claims.md",
        tex="<results>/tables/claims.tex",
        html=report(
            "<results>/tables/claims.html",
            caption="../report/claims.rst",
            category="Tables",
            labels={"table": "claims"},
        ),
    log:
        "<logs>/tables/claims.log",
    localrule: True
    params:
        code=code("paper.claims"),
        hours=optional("hours", "hours"),
        columns=config["evaluate_on"],
        means=paper.means,
        average_over=config["average_over"],
        metric=config["metric"],
        note=lambda wc: paper.note,
    shell:
        "tamtrl claims --claims {input.claims:q} --runs {input.runs:q} {params.hours} --columns {params.columns:q} "
        "--means {params.means:q} --average-over {params.average_over:q} --metric {params.metric:q} --note={params.note:q} "
        "--output {output.csv:q} 2> {log:q}"


# Published numbers alone: no data, no training, seconds.
rule paper_table:
    input:
        ours("results/paper/{table}.csv"),
    output:
        csv="results/published/{table}.csv",
        md="results/published/{table}.md",
        tex="results/published/{table}.tex",
        html="results/published/{table}.html",
    log:
        "logs/published/{table}.log",
    wildcard_constraints:
        table=alternatives(PAPER_TABLES),
    localrule: True
    params:
        code=code("paper.tables"),
    shell:
        "tamtrl table {wildcards.table:q} --paper {input:q} --output {output.csv:q} 2> {log:q}"


rule paper_tables:
    input:
        collect("results/published/{table}.{kind}", table=PAPER_TABLES, kind=KINDS),


rule tables:
    input:
        collect("<results>/tables/{table}.{kind}", table=[*TABLES, *COUNTED], kind=KINDS),
        collect("<results>/tables/{table}.provenance.json", table=TABLES),
