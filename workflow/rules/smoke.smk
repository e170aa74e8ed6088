# A first run that costs minutes (config/smoke.yaml), before anybody commits to one of days: the first selected run of reinforcement
# learning, once more with a trainer that is killed, and what must then be true.


rule smoke_resume:
    input:
        run=f"{RUN}/run.yaml",
        metrics=f"{RUN}/metrics.csv",
    output:
        model=temp(directory(f"{RUN}/resumed/model")),
        metrics=f"{RUN}/resumed/metrics.csv",
        card=f"{RUN}/resumed/card.json",
        attempts=f"{RUN}/resumed/attempts.json",
    log:
        f"{RUN_LOGS}/resumed.log",
    threads: cores("train")
    resources:
        **stage("train"),
    params:
        output=parent("metrics"),
        scratch=lambda wc: f"{scratch(wc)}/resumed",
    shell:
        "tamtrl smoke-resume {input.run:q} --output {params.output:q} --scratch {params.scratch:q} {resources.place} "
        "2>&1 | tee {log:q}"


rule smoke:
    input:
        rules.figures.input,
        table="<results>/tables/table1.csv",
        run=lambda wc: runs.first_trained(f"{RUN}/run.yaml"),
        metrics=lambda wc: runs.first_trained(f"{RUN}/metrics.csv"),
        resumed=lambda wc: runs.first_trained(f"{RUN}/resumed/metrics.csv"),
    output:
        "<results>/smoke.md",
    log:
        "<logs>/smoke.log",
    localrule: True
    params:
        code=code("planning.smoke"),
        folder=lambda wc, input: os.path.dirname(input.metrics),
        resumed=lambda wc, input: os.path.dirname(input.resumed),
    shell:
        "tamtrl smoke-report {input.run:q} --folder {params.folder:q} --resumed {params.resumed:q} --table {input.table:q} "
        "--output {output:q} 2>&1 | tee {log:q}"
