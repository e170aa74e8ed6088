"""The commands of README.md and docs/, taken from there as they stand. A new one needs a line in HOW; one that would train is
planned (`-n`), everything else of it unchanged."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import REPOSITORY
from test_workflow import planned, with_path

from tamtrl import cli

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]

RUN = "as it stands"
PLAN = "with -n, as it would train or fetch: it must find something to do"
MAKE = "with -n: what it would call is below, or what the tests run in"
PARSE = "tamtrl's own parser takes it; what it does has tests of its own"
SHELL = "the shell's; its first word must be a command"
HOW = {
    "make toy": MAKE,
    "make test": MAKE,
    "make gpu": MAKE,
    "make report": MAKE,
    "make report CONFIG=config/toy.yaml": MAKE,
    "snakemake --cores 1 paper_tables": RUN,
    "snakemake --profile toy -n": RUN,
    "tamtrl plan -- --profile slurm": RUN,
    "snakemake --profile toy --configfile config/sample.yaml --config hotpotqa_train=TRAIN.json hotpotqa_dev=DEV.json": PLAN,
    "snakemake --profile toy --configfile config/toy-full.yaml": PLAN,
    "snakemake --profile toy --config archive=results/measured/toy": PLAN,
    "snakemake --profile local-gpu --configfile config/smoke.yaml -- smoke": PLAN,
    "snakemake --profile local-gpu": PLAN,
    "snakemake --profile slurm": PLAN,
    "snakemake --profile toy --config 'select={model: [toy], method: [tamtrl]}'": PLAN,
    "snakemake --profile slurm downloads": PLAN,
    "snakemake --profile slurm --configfile config/smoke.yaml -- downloads": PLAN,
    "snakemake --profile slurm --configfile config/smoke.yaml -- smoke": PLAN,
    """snakemake --profile slurm --config 'select={model: ["0.6B"], method: [memagent]}'""": PLAN,
    "snakemake --profile slurm --config 'resources={train: {minutes: 720}}'": PLAN,
    "snakemake --profile local-gpu --config hotpotqa_train=/data/hotpot_train_v1.1.json longbench=/data/LongBench/data.zip": PLAN,
    "snakemake --profile local-gpu --config 'train_sets={train: musique_training, validation: musique_original}'": PLAN,
    "snakemake --profile slurm results/full/tables/table2.md "
    """--config 'select={model: ["0.6B"], items: [table2]}'""": PLAN,
    "snakemake --profile slurm --config hotpotqa_dev=my_questions.json 'evaluate_on=[my_questions]' 'average_over=[]'": PLAN,
    "snakemake --profile slurm tables figures --config archive=/archive/tamtrl": PLAN,
    "tamtrl publish results/full --output /archive/tamtrl --with-models": PARSE,
    "git clone REPOSITORY tamtrl && cd tamtrl": SHELL,
    "source .venv/bin/activate": SHELL,
    "export TAMTRL_SLURM_ACCOUNT=mylab": SHELL,
    "export TAMTRL_SLURM_PARTITIONS=~/partitions.yaml": SHELL,
    "generate-slurm-partition-config > ~/partitions.yaml": SHELL,
}


def fenced(text: str) -> list[str]:
    """Lines of blocks without a language, joined where they go on, without comments; a row of runs.tsv is none."""
    blocks, inside = [], None
    for line in text.splitlines():
        if line.strip().startswith("```"):
            inside = line.strip() == "```" if inside is None else None
        elif inside and "\t" not in line:
            blocks.append(line)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [command for line in lines if (command := " ".join(re.sub(r"\s#.*", "", line).split()))]


COMMANDS = list(dict.fromkeys(command for page in PAGES for command in fenced(page.read_text(encoding="utf-8"))))


def test_every_command_has_its_line():
    assert COMMANDS and set(COMMANDS) == set(HOW)


def test_snakemake_is_told_how_many_cores():
    """Also where a command stands within a sentence. Without, it refuses to do anything."""
    for page in [*PAGES, REPOSITORY / "config" / "README.md", REPOSITORY / "envs" / "README.md"]:
        for command in re.findall(
            r"`(snakemake [^`]*)`", re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        ):
            assert re.search(r" (--profile|--cores|-n|--unlock|--report)\b", command), f"{page}: {command}"


@pytest.fixture(scope="module")
def place(checkout, tmp_path_factory) -> tuple[Path, Path]:
    """A checkout with all that the commands name, and a folder in place of / for their absolute paths."""
    root = tmp_path_factory.mktemp("root")
    (root / "data" / "LongBench").mkdir(parents=True)
    for path in (root / "data" / "hotpot_train_v1.1.json", root / "data" / "LongBench" / "data.zip"):
        path.touch()
    for name in ("TRAIN.json", "DEV.json", "my_questions.json"):
        (checkout / name).touch()
    archive = root / "archive" / "tamtrl"
    archive.mkdir(parents=True)
    (archive / "index.json").write_text('{"format": 1, "runs": {}}', encoding="utf-8")
    # docs/howto.md's data set
    row = re.search(
        r"```yaml\n# config/datasets.yaml\n(.*?)```", (checkout / "docs" / "howto.md").read_text(encoding="utf-8"), re.DOTALL
    )
    with (checkout / "config" / "datasets.yaml").open("a", encoding="utf-8") as file:
        file.write(row.group(1))
    # an environment that is there, for make
    (checkout / ".venv-pretend").mkdir()
    (checkout / ".venv-pretend" / "ready").touch()
    return checkout, root


@pytest.mark.parametrize("command", COMMANDS)
def test_command(place, command):
    folder, root = place
    how, words = HOW[command], shlex.split(command)

    def shell(text: str) -> str:
        done = subprocess.run(["bash", "-c", text], cwd=folder, capture_output=True, text=True, env=with_path())
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    if how == RUN:
        shell(command)
    elif how == PLAN:
        told = shell(re.sub(r"=/(data|archive)/", rf"={root}/\1/", command.replace("snakemake", "snakemake -n", 1)))
        assert planned(told)["total"] > 1
    elif how == MAKE:
        folder_of_kind, called = {"gpu": (".venv-none", "bash envs/install.sh gpu")}.get(
            words[1], (".venv-pretend", "snakemake|python -m pytest")
        )
        assert re.search(f"^({called})", shell(f"{command} -n VENV={folder_of_kind}"), re.MULTILINE)
    elif how == PARSE:
        assert cli.parser().parse_args(words[1:]).verb == words[1]
    else:
        assert words[0] in ("source", "export") or shutil.which(words[0], path=with_path()["PATH"])
