# TAMTRL, the paper, as a workflow: data -> models -> training -> evaluation -> tables and figures.
import os

from snakemake.utils import min_version

min_version("9.27")


configfile: workflow.source_path("config/config.yaml")


# A configuration may extend another one, of this checkout or the user's; its own values are laid over it again by Snakemake.
if "extends" in config:

    configfile: next(filter(os.path.exists, [workflow.source_path(config["extends"]), config["extends"]]), config["extends"])


include: "workflow/rules/common.smk"
include: "workflow/rules/runs.smk"
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
