# What the report shows beside tables and figures. Made offline, by `snakemake --report report.zip` (`make report`).


rule list_cards:
    input:
        rows.files(f"{RUN}/card.json", rows.trained),
    output:
        "<results>/tables/cards.list.csv",
    log:
        "<logs>/tables/cards.list.log",
    localrule: True
    params:
        rows=rows.cases(rows.trained),
    run:
        frames.write(pd.DataFrame(params.rows).assign(card=list(input)), output[0])


# Every trained run: configuration, versions, commit, time, hardware.
rule run_cards:
    input:
        rules.list_cards.output,
    output:
        csv="<results>/tables/cards.csv",
        md="<results>/tables/cards.md",
        html=report(
            "<results>/tables/cards.html",
            caption="../report/cards.rst",
            category="Runs",
            labels={"table": "run cards"},
        ),
    log:
        "<logs>/tables/cards.log",
    localrule: True
    params:
        code=code("paper.records"),
        note=lambda wc: paper.note,
    shell:
        "tamtrl run-cards --runs {input:q} --note={params.note:q} --output {output.csv:q} 2> {log:q}"


rule used_configuration:
    output:
        "<results>/config.yaml",
    log:
        "<logs>/config.log",
    localrule: True
    params:
        config=lambda wc: paper.as_given,
    run:
        Path(output[0]).write_text(yaml.safe_dump(params.config, sort_keys=False), encoding="utf-8")


# What the paper leaves open, with the values used.
rule open_choices:
    input:
        config=rules.used_configuration.output,
        choices=ours("docs/choices.md"),
    output:
        csv="<results>/tables/choices.csv",
        md="<results>/tables/choices.md",
        html=report(
            "<results>/tables/choices.html",
            caption="../report/choices.rst",
            category="Runs",
            labels={"table": "choices"},
        ),
    log:
        "<logs>/tables/choices.log",
    localrule: True
    params:
        code=code("paper.records"),
        note=lambda wc: paper.note,
    shell:
        "tamtrl open-choices --choices {input.choices:q} --config {input.config:q} --note={params.note:q} --output {output.csv:q} 2> {log:q}"


# Theorem 1, checked on policies that can be enumerated: needs no run.
rule theorem:
    output:
        csv="<results>/tables/theorem1.csv",
        md="<results>/tables/theorem1.md",
        tex="<results>/tables/theorem1.tex",
        html=report(
            "<results>/tables/theorem1.html",
            caption="../report/theorem1.rst",
            category="Tables",
            labels={"table": "theorem1"},
        ),
    log:
        "<logs>/tables/theorem1.log",
    localrule: True
    params:
        code=code("paper.theorem"),
    shell:
        "tamtrl theorem --output {output.csv:q} 2> {log:q}"


rule records:
    input:
        *(rules.run_cards.output if rows.trained else []),
        rules.open_choices.output,
        rules.theorem.output,
        collect(rules.premise.output, model=models.taught(rows.selected)),
        *(rules.claims.output if rows.trained and config["average_over"] else []),
