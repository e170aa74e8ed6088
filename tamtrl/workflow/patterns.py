"""Where runs are kept and what belongs to them, as patterns of wildcards. Snakemake puts folders for ``<results>`` and so on."""

import re
from collections.abc import Iterable

RUN = "<results>/runs/{model}/{method}/{variant}/seed{seed}"
RUN_LOGS = "<logs>/runs/{model}/{method}/{variant}/seed{seed}"
ROUND = f"{RUN}/rounds/{{round}}"  # of STaR
TEST = f"{RUN}/tests/{{test}}"  # beside Table 1
TRAJECTORIES = "<results>/trajectories/{teacher}/{generation}"
PRM = "<results>/prm/seed{seed}"


def alternatives(names: Iterable[str]) -> str:
    """A wildcard constraint: one of the names, or nothing at all."""
    return "|".join(sorted(map(re.escape, set(names)))) or "(?!)"


def data_set(name: str) -> str:
    return f"<results>/data/{name}.parquet"


def sums(folder: str) -> str:
    """What stands for a model among a rule's inputs: Snakemake's cache knows files by their content, and folders not at all."""
    return f"{folder}.sha256"
