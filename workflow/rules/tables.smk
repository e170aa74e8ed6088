# Tables and figures: from CSV files only, so that a deleted one is remade in seconds.

PAPER_TABLES = ["table1", "table2", "table3"]
# An ablation is a comparison: it needs more than the method itself.
TABLES = [table for table in PAPER_TABLES if len(rows_of(table)) > (table != "table1")]
COUNTED = ["tableA1", *([] if rows_of("tableA2").empty else ["tableA2"])]
KINDS = ["csv", "md", "tex", "html"]
MEANS_GIVEN = [f"{name}={','.join(parts)}" for name, parts in MEANS.items()]


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
        rows=lambda wc: [
            case | {"ours": "ours" in run_row(SimpleNamespace(**case))["items"]}
            for case in cases(rows_of(wc.table), benchmarks=EVALUATED)
        ],
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
        means=MEANS_GIVEN,
        average_over=config["average_over"],
        metric=config["metric"],
        note=lambda wc: NOTE,
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
        note=lambda wc: NOTE,
    shell:
        "tamtrl table-samples --paper {input.paper:q} --sets {input.sets:q} --note={params.note:q} --output {output.csv:q} 2> {log:q}"


def recorded_times(row, seed):
    """Jobs whose time is a run's in Table A2: part, file, and which stage's devices they had. Of a restored run only its training is
    known: nothing is sampled again for its time."""
    run, jobs = case_of(row, seed), []
    if row["training"] in ("sft", "kd"):
        folder, shards = trajectories_folder(SimpleNamespace(**run), 1), resolved(row)["distillation"]["shards"]
        jobs += [("data", f"{folder}/shard{shard}.time.tsv", "evaluate") for shard in range(shards)]
        for number in range(2, resolved(row)["distillation"]["rounds"] + 1):
            place = ROUND.format(**run, round=number)
            jobs += [("data", f"{place}/shard{shard}.time.tsv", "evaluate") for shard in range(shards)]
    if row["training"] == "rl" and scorer_kind(row) == "prm":
        jobs += [
            ("data", str(shard).replace(".jsonl.gz", ".time.tsv"), "evaluate")
            for shard in prm_shards(SimpleNamespace(**run))
        ]
        jobs += [("data", f"{PRM}/label.time.tsv", "label"), ("prm_training", f"{PRM}/train.time.tsv", "evaluate")]
    jobs = [] if restored(run) else jobs
    if row["training"] != "none":
        jobs.append(("training", f"{RUN}/metrics.csv", "train"))
    return [run | {"part": part, "file": file.format(**run), "stage": stage} for part, file, stage in jobs]


TIMES = [
    job for _, row in rows_of("tableA2").iterrows() for seed in config["seeds"] for job in recorded_times(row, seed)
]


def devices_of(stage):
    if stage == "label":
        return 0
    return config["resources"][stage]["devices"] * config["resources"][stage]["nodes"]


def with_devices(jobs, files):
    """Devices are no parameter: moving to another machine reruns nothing."""
    return pd.DataFrame(jobs | {"file": files, "devices": [devices_of(stage) for stage in jobs["stage"]]})


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
        frames.write(with_devices(params.jobs, list(input)), output[0])


def projected(row):
    """Arithmetic for one run of reinforcement learning; nothing for models and documents whose size it doesn't know."""
    sections = resolved(row)
    paragraphs = documents_of(sections["train_sets"]["train"])
    if row["training"] != "rl" or row["model"] not in costs.MODELS or paragraphs is None:
        return {}
    devices, needs = devices_of("train"), credit.needs(row["credit"])
    settings = (sections["train_reading"], sections["training"], paragraphs, devices)
    seconds = costs.training_seconds(row["model"], needs, *settings)
    hours = seconds * sections["training"]["steps"] / 3600
    told = {"step_seconds": seconds, "hours": hours, "gpu_hours": hours * devices, "assumptions": costs.ASSUMPTIONS}
    return {key: row[key] for key in ("model", "method", "variant")} | told


PROJECTED = ["model", "method", "variant", "step_seconds", "hours", "gpu_hours", "assumptions"]


def projections():
    return [row for row in map(projected, RUNS.to_dict("records")) if row]


# `tamtrl plan` asks for it while the rules are read: it makes a dry run, which runs none.
if plan.projection():
    frames.write(pd.DataFrame(projections(), columns=PROJECTED), plan.projection())


# What training should take on A100s, from the configuration alone.
rule project:
    output:
        "<results>/tables/tableA2.projected.csv",
    log:
        "<logs>/tables/tableA2.projected.log",
    localrule: True
    params:
        rows=lambda wc: projections(),
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
        note=lambda wc: NOTE,
    shell:
        "tamtrl table-hours --paper {input.paper:q} --jobs {input.jobs:q} --projected {input.projected:q} --note={params.note:q} "
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
