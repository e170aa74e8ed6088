# Figures, each from CSV files or stored predictions, with the CSV it was drawn from.
DRAWN = ["csv", "svg", "png"]


def figure_files(name, caption, category="Figures of the paper"):
    """The outputs of a figure; the picture is in the report."""
    picture = report(f"<results>/figures/{name}.png", caption=caption, category=category, labels={"figure": name})
    return {"csv": f"<results>/figures/{name}.csv", "svg": f"<results>/figures/{name}.svg", "png": picture}


# Which runs the figures of training show and where their metrics are.
rule list_metrics:
    input:
        paths(f"{RUN}/metrics.csv", rows_of("dynamics")),
    output:
        "<results>/figures/dynamics.runs.csv",
    log:
        "<logs>/figures/dynamics.runs.log",
    localrule: True
    params:
        rows=cases(rows_of("dynamics")),
    run:
        frames.write(pd.DataFrame(params.rows).assign(metrics=list(input)), output[0])


# Figures 3 and 4 of the paper: reward and response length per step.
rule figure_dynamics:
    input:
        rules.list_metrics.output,
    output:
        **figure_files("dynamics", "../report/dynamics.rst"),
    log:
        "<logs>/figures/dynamics.log",
    localrule: True
    params:
        code=code("paper.figures"),
        title=lambda wc: config["note"],
    shell:
        "tamtrl figure dynamics --runs {input:q} --title={params.title:q} --output {output.csv:q} 2> {log:q}"


# Beyond the paper: what each turn was rewarded, by whether its chunk held relevant text.
rule figure_turn_rewards:
    input:
        rules.list_metrics.output,
    output:
        **figure_files("turn_rewards", "../report/turn_rewards.rst", "Beyond the paper"),
    log:
        "<logs>/figures/turn_rewards.log",
    localrule: True
    params:
        code=code("paper.figures"),
        title=lambda wc: config["note"],
    shell:
        "tamtrl figure turn_rewards --runs {input:q} --title={params.title:q} --output {output.csv:q} 2> {log:q}"


rule list_predictions:
    input:
        paths(f"{RUN}/predictions/{SHOWN}.jsonl.gz", rows_of("table1")),
    output:
        "<results>/figures/memories.runs.csv",
    log:
        "<logs>/figures/memories.runs.log",
    localrule: True
    params:
        rows=cases(rows_of("table1")),
    run:
        frames.write(pd.DataFrame(params.rows).assign(predictions=list(input)), output[0])


# Beyond the paper: how long memories are, turn by turn, and where the gold answer enters, stays and leaves.
rule figure_memories:
    input:
        rules.list_predictions.output,
    output:
        **figure_files("{memories}", "../report/memories.rst", "Beyond the paper"),
    log:
        "<logs>/figures/{memories}.log",
    wildcard_constraints:
        memories="memory_length|survival",
    localrule: True
    params:
        code=code("paper.memories"),
        title=lambda wc: config["note"],
    shell:
        "tamtrl figure {wildcards.memories:q} --runs {input:q} --title={params.title:q} --output {output.csv:q} 2> {log:q}"


rule list_sweep:
    input:
        lambda wc: [point["documents"] for point in sweep(wc.item)],
    output:
        "<results>/figures/{item}.runs.csv",
    log:
        "<logs>/figures/{item}.runs.log",
    wildcard_constraints:
        item=alternatives([*TRAINED_WITH, *TESTED_WITH]),
    localrule: True
    params:
        rows=lambda wc: [{k: v for k, v in point.items() if k != "documents"} for point in sweep(wc.item)],
    run:
        frames.write(pd.DataFrame(params.rows).assign(documents=list(input)), output[0])


# Item of runs.tsv, what its panel is called, what is varied.
SWEEP_FIGURES = {
    "fig5_documents": [
        ("fig5_training", "varied in training", "Paragraphs of a training document"),
        ("fig5_test", "varied in the test", "Paragraphs of a test document"),
    ],
    "fig6_chunk_size": [
        ("fig6_training", "varied in training", "Chunk size in training (tokens)"),
        ("fig6_test", "varied in the test", "Chunk size in the test (tokens)"),
    ],
    "fig7_data": [("fig7", "less training data", "Training questions")],
}


def panels(figure):
    """Those of which more than one point is selected."""
    return [panel for panel in SWEEP_FIGURES[figure] if len({point["value"] for point in sweep(panel[0])}) > 1]


# Figures 5 to 7 of the paper.
rule figure_sweep:
    input:
        lambda wc: [f"<results>/figures/{item}.runs.csv" for item, _, _ in panels(wc.sweep)],
    output:
        **figure_files("{sweep}", "../report/sweep.rst"),
    log:
        "<logs>/figures/{sweep}.log",
    wildcard_constraints:
        sweep=alternatives(SWEEP_FIGURES),
    localrule: True
    params:
        code=code("paper.sweeps"),
        headings=lambda wc: [heading for _, heading, _ in panels(wc.sweep)],
        varied=lambda wc: [varied for _, _, varied in panels(wc.sweep)],
        benchmark=SHOWN,
        means=MEANS_GIVEN,
        average_over=config["average_over"],
        metric=config["metric"],
        title=lambda wc: config["note"],
    shell:
        "tamtrl figure-sweep --runs {input:q} --headings {params.headings:q} --varied {params.varied:q} "
        "--columns {params.benchmark:q} --means {params.means:q} --average-over {params.average_over:q} "
        "--metric {params.metric:q} --title={params.title:q} --output {output.csv:q} 2> {log:q}"


# How far the process reward model's probabilities are right, on questions it wasn't trained on.
rule figure_calibration:
    input:
        collect(f"{PRM}/{{file}}", seed=config["seeds"], file=["report.json", "calibration.csv", "prm.yaml"]),
    output:
        **figure_files("prm_calibration", "../report/prm_calibration.rst", "Beyond the paper"),
    log:
        "<logs>/figures/prm_calibration.log",
    localrule: True
    params:
        code=code("paper.figures"),
        folders=lambda wc, input: list(dict.fromkeys(str(Path(file).parent) for file in input)),
        title=lambda wc: config["note"],
    shell:
        "tamtrl figure-calibration {params.folders:q} --title={params.title:q} --output {output.csv:q} 2> {log:q}"


def trains_prm():
    """Whether a selected run needs the process reward model; restored ones don't."""
    cases_of_prm = cases(TRAINED[[scorer_kind(row) == "prm" for row in TRAINED.to_dict("records")]])
    return not all(map(restored, cases_of_prm))


FIGURES = [
    *([] if rows_of("dynamics").empty else ["dynamics", "turn_rewards"]),
    *([] if rows_of("table1").empty else ["memory_length", "survival"]),
    *(figure for figure in SWEEP_FIGURES if panels(figure)),
    *(["prm_calibration"] if trains_prm() else []),
]


rule figures:
    input:
        collect("<results>/figures/{figure}.{kind}", figure=FIGURES, kind=DRAWN),
