"""Seconds that each credit method adds to a training step: outcome, teacher, judge and PRM, toy lengths, one after the other on
the same machine; the first step is left out as warm-up. Judge and PRM are served on the cores that train and roll out.

    python benchmarks/credit.py
"""

import tempfile
from pathlib import Path

import pandas as pd
import yaml
from common import OURS, REPOSITORY, measure, toy_config, toy_run

from tamtrl.training import backbone


def made(folder: Path, name: str) -> Path:
    """A model of config/models.yaml, made in ``folder``; what it has learned makes no difference to its speed."""
    recipe = yaml.safe_load((REPOSITORY / "config" / "models.yaml").read_text())[name]["made"]
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({"seed": 0, "reading": toy_config()["reading"]} | recipe))
    backbone.make(folder / f"{name}.yaml", folder / name, folder / "train.parquet", print)
    return folder / name


def scorer(kind: str, path: Path) -> dict:
    names = ("window_tokens", "in_flight", "timeout_seconds", "failures_allowed", "gpu_memory")
    own = {"kind": kind, "model": kind, "path": str(path), "endpoint": "", "answer_tokens": 16, "request": {}}
    return own | {name: toy_config()[kind][name] for name in names}


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        toy_run(folder, "outcome")  # for the texts of the tokenizers
        judge, bert = made(folder, "toy_judge"), made(folder, "toy_bert")
        columns = [
            measure("outcome", OURS, "outcome", folder / "outcome"),
            measure("teacher", OURS, "teacher", folder / "teacher"),
            measure("judge", OURS, "judge", folder / "judge", scorer("judge", judge)),
            measure("prm", OURS, "prm", folder / "prm", scorer("prm", bert)),
        ]
    table = pd.concat(columns, axis=1).fillna(0).T
    table["own"] = table["teacher"] + table["scoring"]
    table["over_outcome"] = table["step"] - table.loc["outcome", "step"]
    table["share_of_step"] = table["over_outcome"] / table["step"]
    print(table[["step", "gen", "own", "scoring_tail", "over_outcome", "share_of_step"]].round(3).to_string())


if __name__ == "__main__":
    main()
