"""The toy configuration, as rules are given it, with a run table of one's own if any."""

from pathlib import Path

from conftest import REPOSITORY

from tamtrl.workflow import configuration
from tamtrl.workflow.study import Study

HEADING = "model\tmethod\tvariant\ttraining\tcredit\toverrides\titems"
STAR = "toy\tstar\tmain\tsft\t\tdistillation.samples=8 distillation.rounds=3\ttable1,tableA2"
SFT = "toy\tsft\tmain\tsft\t\tdistillation.teacher=toy_teacher\ttable1,tableA2"
KD = "toy\tvanilla_kd\tmain\tkd\t\tdistillation.teacher=toy_teacher distillation.in_flight=3\ttable1"
PRM = "toy\tprm\tmain\trl\tprm\t\ttable1,tableA2"
BASE = "toy\tbase\tmain\tnone\t\t\ttable1,tableA2"
MINE = "toy\tmine\tmain\trl\tteacher\t\ttable1,tableA2"


def write_table(folder: Path, *lines: str) -> str:
    path = folder / "runs.tsv"
    path.write_text("\n".join([HEADING, *lines]) + "\n", encoding="utf-8")
    return str(path)


def study(extends: str = "config/toy.yaml", **given) -> Study:
    values = configuration.complete({"extends": extends} | given, REPOSITORY)
    return Study.load(values, REPOSITORY, REPOSITORY / "no index")


def of_rows(folder: Path, *lines: str, **given) -> Study:
    """Of these rows alone, all of them selected."""
    everything = {"runs": write_table(folder, *lines), "select": {"model": [], "variant": []}, "leave_out": []}
    everything |= {"more_seeds": {"seeds": []}}
    return study(**everything | given)


def case(method: str, **more) -> dict:
    """The wildcards of a toy run."""
    return {"model": "toy", "method": method, "variant": "main", "seed": "0"} | more
