# TAMTRL, the paper, as a workflow: data -> models -> training -> evaluation -> tables and figures.
from snakemake.utils import min_version

min_version("9.27")


# What --configfile and --config say is laid over it in common.smk, and what such a file extends.
configfile: f"{workflow.current_basedir}/config/config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/closed_book.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/distil.smk"
include: "workflow/rules/scorers.smk"
include: "workflow/rules/downloads.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/sweeps.smk"
include: "workflow/rules/restore.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/smoke.smk"


localrules:
    all,
    paper_tables,
    downloads,
    data,
    train,
    evaluate,
    tables,
    figures,
    records,


# Every table and figure of the configuration.
rule all:
    default_target: True
    input:
        rules.tables.input,
        rules.figures.input,
        rules.records.input,
