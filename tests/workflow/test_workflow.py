"""The workflow as users call it: the whole path on made-up HotpotQA files, dry-runs, and what bad input says."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pandas as pd
import pytest
from conftest import hotpot_record
from test_toy_rl import optimizer_steps

from tamtrl.tasks.example import ExampleFile

SNAKEMAKE = [sys.executable, "-m", "snakemake"]


def with_path() -> dict[str, str]:
    return os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def snakemake(folder: Path, *arguments: str, check: bool = False) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*SNAKEMAKE, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=check,
        env=with_path(),
    )


@pytest.fixture(scope="module")
def sample(checkout) -> tuple[Path, list[str]]:
    """config/sample.yaml run to the end on made-up files, with the backbone and TAMTRL."""
    (checkout / "my own").mkdir()
    for name, numbers in {"train": range(80), "dev's": range(100, 140)}.items():
        (checkout / "my own" / f"{name}.json").write_text(json.dumps([hotpot_record(n) for n in numbers]))
    arguments = ["--profile", "toy", "--configfile", "config/sample.yaml", "--config", "hotpotqa_train=my own/train.json"]
    arguments += ["hotpotqa_dev=my own/dev's.json", "select={model: [sample], method: [base, tamtrl]}"]
    # two data-parallel ranks and the frozen teacher: paths that the toy configuration does not take
    arguments += ["credit={teacher: reference}", "resources={train: {devices: 2}}"]
    done = snakemake(checkout, *arguments)
    assert done.returncode == 0, done.stderr[-5000:]
    return checkout, arguments


def test_sample_ends_in_a_table_and_a_figure(sample):
    folder = sample[0] / "results" / "sample"
    table = pd.read_csv(folder / "tables" / "table1.csv")
    assert set(table["method"]) == {"base", "tamtrl"} and table["paper"].isna().all() and table["n"].eq(8).all()
    text = (folder / "tables" / "table1.md").read_text()
    assert "SAMPLE" in text and "Not comparable with the paper" in text
    assert (folder / "figures" / "dynamics.png").stat().st_size > 10_000
    examples = list(ExampleFile(folder / "data" / "hotpotqa_sample.parquet"))
    assert all(e.context.count("Document ") == 10 and len(e.relevant_spans) == 2 for e in examples)
    validation = ExampleFile(folder / "data" / "sample_validation.parquet")
    assert not {e.id for e in examples} & {e.id for e in validation}


def test_nothing_differs_from_what_the_table_was_made_from(sample):
    command = [sys.executable, "-m", "tamtrl.cli", "verify", "results/sample"]
    verified = subprocess.run(command, cwd=sample[0], capture_output=True, text=True)
    assert verified.returncode == 0, verified.stderr


def test_optimizer_steps_do_not_depend_on_the_number_of_rows(sample):
    folder = sample[0] / "results" / "sample" / "runs" / "sample" / "tamtrl" / "main" / "seed0"
    metrics = pd.read_csv(folder / "metrics.csv").set_index("step")
    # rows are padded to a multiple of 2 ranks x 2 optimizer steps, not of a mini-batch
    assert (metrics["padding_rows"].dropna() < 4).all() and ((metrics["rows"] + metrics["padding_rows"]).dropna() % 4 == 0).all()
    # 4 questions over 2 engines, each with all of its rollouts on one; ranks end an optimizer step together, but for whole rows
    assert metrics["question_engines"].dropna().eq(4).all() and metrics["imbalance"].dropna().between(0, 0.2).all()
    assert metrics["score_min"][1] > 0 and metrics["score_max"][1] <= 1
    # 2 rollout batches of 2 optimizer steps each (config/sample.yaml)
    assert optimizer_steps(sample[0] / "scratch" / "sample" / "sample" / "tamtrl" / "main" / "seed0", 2) == 4


def test_second_run_does_nothing(sample):
    folder, arguments = sample
    assert "Nothing to be done" in snakemake(folder, *arguments, check=True).stderr


def test_the_report_needs_no_network(sample):
    folder, arguments = sample
    offline = {"https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    command = [*SNAKEMAKE, *arguments, "--report", "report.zip"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=with_path() | offline)
    assert done.returncode == 0, done.stderr[-3000:]
    with zipfile.ZipFile(folder / "report.zip") as archive:
        page = next(name for name in archive.namelist() if name.endswith("report.html"))
        everything = b"".join(archive.read(name) for name in archive.namelist() if name.endswith((".html", ".js")))
    assert page and b"run cards" in everything and b"theorem1" in everything and b"Beyond the paper" in everything
    assert b"accuracy about zero" in everything  # the note is in the captions


def test_changes_rerun_only_what_they_touch(sample):
    folder, arguments = sample

    def jobs(*more):
        return planned(snakemake(folder, *arguments, *more, "-n", check=True).stdout)

    relabelled = jobs("label=other", "note=another note")
    assert "table" in relabelled and "train_rl" not in relabelled and "predict" not in relabelled
    evaluation = jobs("evaluation={samples: 3}")
    assert "predict" in evaluation and "train_rl" not in evaluation
    moved = jobs("resources={train: {devices: 1}}")
    assert "train_rl" not in moved
    # the same values in another order, as when one configuration extends another
    reordered = jobs(
        "training={optimizer_steps: 2, steps: 2, group: 2, rollout_batch: 4}", "evaluation={in_flight: 16, samples: 2}"
    )
    assert "train_rl" not in reordered and "predict" not in reordered
    training = jobs("training={lr: 1.0e-5}")
    assert "train_rl" in training and "prepare_multihop" not in training
    (folder / "results" / "sample" / "figures" / "dynamics.png").unlink()
    figure = jobs()
    assert "figure_dynamics" in figure and "train_rl" not in figure


def test_a_changed_line_reruns_exactly_the_runs_that_use_it(sample):
    folder, arguments = sample

    def jobs_after(name: str, old: str, new: str) -> dict[str, int]:
        path = folder / "tamtrl" / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
        try:
            return planned(snakemake(folder, *arguments, "-n", check=True).stdout)
        finally:
            path.write_text(text)

    assert "train_rl" in jobs_after("credit/teacher.py", "row.double()", "(2 * row).double()")
    assert "train_rl" not in jobs_after("credit/outcome.py", "return turns.outcome", "return 2 * turns.outcome")
    assert "train_rl" not in jobs_after("credit/teacher.py", "import torch\n", "import torch  # as ever\n")
    assert "train_rl" not in jobs_after("jobs/processes.py", "REGISTER_SECONDS = 5", "REGISTER_SECONDS = 6")
    score = jobs_after("answers/verifier.py", "300", "301")
    assert "score" in score and "train_rl" in score and "prepare_multihop" not in score  # the training outcome as well
    score = jobs_after("answers/scoring.py", "a|an|the", "a|an")
    assert "score" in score and "train_rl" not in score


def test_another_folder_takes_results_from_the_cache(checkout, tmp_path, monkeypatch):
    monkeypatch.setenv("SNAKEMAKE_OUTPUT_CACHE", str(tmp_path))
    target = "results/toy/data/toy_two_hops.parquet"

    def made() -> bool:
        """Or taken from the cache."""
        (checkout / target).unlink(missing_ok=True)
        done = snakemake(checkout, target, "--profile", "toy", "--cache", check=True)
        assert "from cache" in done.stderr
        return f"Moving output file {target} to cache" in done.stderr

    assert made() and not made()
    # other code behind it, another key
    path = checkout / "tamtrl" / "tasks" / "toy.py"
    text = path.read_text()
    path.write_text(text.replace("held_out: float = 0.25", "held_out: float = 0.3"))
    try:
        assert made()
    finally:
        path.write_text(text)
        shutil.rmtree(checkout / "results" / "toy")


def test_tables_from_an_archive_need_no_training(sample, tmp_path):
    """And the same run with other settings is trained."""
    original, arguments = sample
    folder = tmp_path / "copy"
    shutil.copytree(original, folder, symlinks=True)
    results = folder / "results" / "sample"
    wanted = ["results/sample/tables/table1.md", "results/sample/figures/dynamics.csv"]
    for kind, options in (("records", []), ("models", ["--with-models"])):
        command = [sys.executable, "-m", "tamtrl.cli", "publish", str(results), "--output", str(tmp_path / kind), *options]
        subprocess.run(command, check=True)
    table, figure = ((folder / name).read_bytes() for name in wanted)
    for made in (results, folder / ".snakemake"):
        shutil.rmtree(made)
    archived = [*arguments, f"archive={tmp_path / 'records'}"]
    started = time.time()
    done = snakemake(folder, *wanted, *archived)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rule restore_record:" in done.stderr
    assert not any(f"rule {name}:" in done.stderr for name in ("train_rl", "predict", "prepare_multihop"))
    assert time.time() - started < 60
    assert (folder / wanted[0]).read_bytes() == table and (folder / wanted[1]).read_bytes() == figure
    shutil.rmtree(results)
    other = planned(snakemake(folder, *wanted, *archived, "training={lr: 1.0e-5}", "-n", check=True).stdout)
    assert other["train_rl"] == 1 and "restore_record" not in other and other["restore_predictions"] == 1  # the backbone's
    # a benchmark that the archive lacks: its models are enough
    models = [*arguments, f"archive={tmp_path / 'models'}", "evaluation={samples: 3}"]
    more = planned(snakemake(folder, *wanted, *models, "-n", check=True).stdout)
    assert more["restore_run"] == 1 and more["predict"] == 2 and "train_rl" not in more
    away = snakemake(folder, *wanted, *arguments, "archive=http://127.0.0.1:9/runs", "-n")
    index = "tamtrl archive-index http://127.0.0.1:9/runs --output results/sample/archive/index.json"
    assert away.returncode and index in away.stdout + away.stderr


# -- dry-runs ----------------------------------------------------------------------------------------------------------


def planned(done: str) -> dict[str, int]:
    """Jobs of a dry-run by rule."""
    return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", done, re.MULTILINE)}


def test_paper_tables_need_no_training(checkout):
    snakemake(checkout, "--cores", "1", "paper_tables", check=True)
    assert "43.21" in (checkout / "results" / "published" / "table1.md").read_text()
    assert "-20.12" in (checkout / "results" / "published" / "table3.md").read_text()


# -- bad input: one sentence, exit code not 0 --------------------------------------------------------------------------


def refused(done: subprocess.CompletedProcess, message: str) -> None:
    printed = done.stdout + done.stderr  # a dry-run prints its errors where it prints its plan
    assert done.returncode != 0 and message in printed and "Traceback" not in printed, printed


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("select={method: [tamtrll]}", "Unknown method 'tamtrll'; there are base, llm_judge, memagent, prm,"),
        ("training={steps: many}", "configuration: training.steps: 'many' is not of type 'integer'"),
    ],
)
def test_bad_configuration(checkout, config, message):
    """Through Snakemake; what else is refused, and how, is in tests/unit/test_configuration.py and test_run_table.py."""
    done = snakemake(checkout, "--profile", "toy", "-n", "--config", config)
    refused(done, message)


def test_a_first_run_without_a_run(checkout):
    done = snakemake(checkout, "-n", "--profile", "toy", "--config", "select={model: [toy], method: [base]}", "--", "smoke")
    told = done.stdout + done.stderr  # with Snakemake's own line about which rule asked
    assert done.returncode and "`smoke` checks a run of reinforcement learning, and `select` leaves none." in told


def test_bad_run_table(checkout):
    table = (checkout / "config" / "runs.tsv").read_text()
    path = checkout / "config" / "bad.tsv"
    for line, message in {
        "toy\tmine\tmain\tsft\tteacher\t\ttable1": f"config/bad.tsv line {table.count(chr(10)) + 1}: credit: '' was expected",
        "toy\tmine\tmain\trl\tteacher\ttraining.steps=-\ttable1": "toy mine main: training: steps must be int, not '-'",
    }.items():
        path.write_text(table + line + "\n")
        refused(snakemake(checkout, "--profile", "toy", "-n", "--config", "runs=config/bad.tsv"), message)


def test_the_documents_credit_method(checkout):
    """docs/howto.md's example, as it stands there: a file and a row, and by hand what it computes."""
    text = (checkout / "docs" / "howto.md").read_text()
    code = re.search(r"```python\n# tamtrl/credit/(\w+)\.py\n(.*?)```", text, re.DOTALL)
    row = re.search(r"^toy\t.*$", text, re.MULTILINE).group(0)
    (checkout / "tamtrl" / "credit" / f"{code.group(1)}.py").write_text(code.group(2))
    runs = checkout / "config" / "mine.tsv"
    runs.write_text((checkout / "config" / "runs.tsv").read_text() + row + "\n")
    arguments = ["--profile", "toy", "-n", "--config", "runs=config/mine.tsv", "select={model: [toy], method: [discounted]}"]
    done = snakemake(checkout, *arguments, check=True)
    assert planned(done.stdout)["train_rl"] == 1 and "results/toy/tables/tableA1.csv" in done.stdout
    assert "results/toy/runs/toy/discounted/main/seed0/scores/toy_multihop.csv" in done.stdout
    # One query, two rollouts of a memory turn and an answer turn; the first is right: 0.9, 1, 0, 0.
    script = (
        "import torch; from tamtrl import credit; from tamtrl.credit.base import Turns; from tamtrl.credit.settings import "
        "CreditSettings; z = torch.tensor; t = Turns(z([0] * 4), z([0, 0, 1, 1]), z([0, 1, 0, 1]), z([False, True] * 2), "
        "z([1.0, 1, 0, 0])); m = credit.load('discounted'); s = CreditSettings(method='discounted'); r = m.rewards(t, s); "
        "print(r.tolist(), m.advantages(t, r, s).tolist())"
    )
    printed = subprocess.run([sys.executable, "-c", script], cwd=checkout, capture_output=True, text=True, check=True).stdout
    assert "0.89999" in printed and printed.strip().endswith("[1.0, 1.0, -1.0, -1.0]"), printed


def test_missing_data_file(checkout):
    arguments = ["--profile", "toy", "--configfile", "config/sample.yaml", "--config"]
    arguments += ["hotpotqa_train=nowhere.json", "hotpotqa_dev=nowhere.json", "select={model: [sample]}"]
    arguments += ["pathvars={results: results/empty, logs: logs/empty, scratch: scratch/empty}"]
    done = snakemake(checkout, "-n", *arguments)
    refused(done, "nowhere.json")
