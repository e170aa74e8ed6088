"""What each credit method adds to a training step, from the metrics of finished toy runs: medians over steps, the first left out
as warm-up. Judge and PRM are served on the cores that train and roll out, as the teacher is computed on them.

    snakemake --profile toy --configfile config/toy-full.yaml && python benchmarks/credit.py results/toy
"""

import sys
from pathlib import Path

import pandas as pd

RUNS = {"outcome": "memagent", "teacher": "tamtrl", "judge": "llm_judge", "prm": "prm"}


def main(results: Path) -> None:
    rows = {}
    for credit, method in RUNS.items():
        metrics = pd.read_csv(results / "runs" / "toy" / method / "main" / "seed0" / "metrics.csv").set_index("step")
        rows[credit] = metrics.loc[2:].filter(like="seconds_").rename(columns=lambda name: name.removeprefix("seconds_")).median()
    table = pd.DataFrame(rows).T.fillna(0)
    # A step that saves a checkpoint or validates is longer; the median step does neither.
    table["over_outcome"] = table["step"] - table.loc["outcome", "step"]
    table["share_of_step"] = table["over_outcome"] / table["step"]
    print(table[["step", "gen", "teacher", "scoring", "scoring_tail", "over_outcome", "share_of_step"]].round(3).to_string())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
