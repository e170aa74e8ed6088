# Figures, each from CSV files or stored predictions, with the CSV it was drawn from.
DRAWN = ["csv", "svg", "png"]


# Which runs the figures of training show and where their metrics are.
rule list_metrics:
    input:
        rows.files(f"{RUN}/metrics.csv", rows.of("dynamics")),
    output:
        "<results>/figures/dynamics.runs.csv",
    log:
        "<logs>/figures/dynamics.runs.log",
    localrule: True
    params:
        rows=rows.cases(rows.of("dynamics")),
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
        rows.files(f"{RUN}/predictions/{paper.shown}.jsonl.gz", rows.of("table1")),
    output:
        "<results>/figures/memories.runs.csv",
    log:
        "<logs>/figures/memories.runs.log",
    localrule: True
    params:
        rows=rows.cases(rows.of("table1")),
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
        lambda wc: [point["documents"] for point in sweeps.points(wc.item)],
    output:
        "<results>/figures/{item}.runs.csv",
    log:
        "<logs>/figures/{item}.runs.log",
    wildcard_constraints:
        item=alternatives(sweeps.items),
    localrule: True
    params:
        rows=lambda wc: [{k: v for k, v in point.items() if k != "documents"} for point in sweeps.points(wc.item)],
    run:
        frames.write(pd.DataFrame(params.rows).assign(documents=list(input)), output[0])


# Figures 5 to 7 of the paper.
rule figure_sweep:
    input:
        lambda wc: [f"<results>/figures/{panel.item}.runs.csv" for panel in sweeps.panels(wc.sweep)],
    output:
        **figure_files("{sweep}", "../report/sweep.rst"),
    log:
        "<logs>/figures/{sweep}.log",
    wildcard_constraints:
        sweep=alternatives(sweeps.figures),
    localrule: True
    params:
        code=code("paper.sweeps"),
        headings=lambda wc: [panel.heading for panel in sweeps.panels(wc.sweep)],
        varied=lambda wc: [panel.varied for panel in sweeps.panels(wc.sweep)],
        benchmark=paper.shown,
        means=paper.means,
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


# Where a step's seconds should go on A100s, from the configuration alone.
rule list_step_seconds:
    output:
        "<results>/figures/step_seconds.planned.csv",
    log:
        "<logs>/figures/step_seconds.planned.log",
    localrule: True
    params:
        rows=lambda wc: times.step_seconds(),
    run:
        frames.write(pd.DataFrame(params.rows), output[0])


rule figure_step_seconds:
    input:
        paper=ours("results/paper/tableA2.csv"),
        planned=rules.list_step_seconds.output[0],
    output:
        **figure_files("step_seconds", "../report/step_seconds.rst", "Beyond the paper"),
    log:
        "<logs>/figures/step_seconds.log",
    localrule: True
    params:
        code=code("paper.step_seconds"),
        steps=800,  # of the published runs
        title=lambda wc: config["note"],
    shell:
        "tamtrl figure-step-seconds --planned {input.planned:q} --paper {input.paper:q} --steps {params.steps} "
        "--title={params.title:q} --output {output.csv:q} 2> {log:q}"


FIGURES = [
    *(["dynamics", "turn_rewards"] if rows.of("dynamics") else []),
    *(["memory_length", "survival"] if rows.of("table1") else []),
    *sweeps.drawn(),
    *(["step_seconds"] if times.step_seconds() else []),
    *(["prm_calibration"] if scorers.prm_is_trained(restored.has) else []),
]


rule figures:
    input:
        collect("<results>/figures/{figure}.{kind}", figure=FIGURES, kind=DRAWN),
