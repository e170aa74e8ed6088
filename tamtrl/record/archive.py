"""Published runs: `tamtrl publish` makes an archive of what was trained and predicted, and the workflow restores runs from it
instead of making them again.

An archive is a folder, or the same folder behind an HTTP address: ``index.json`` and ``runs/MODEL/METHOD/VARIANT/seedN/``.
The index names every file with its sha256, and of each run the settings that must agree for it to stand for a run of one's
own.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from tamtrl import files
from tamtrl.errors import UserError
from tamtrl.files import sha256
from tamtrl.record.provenance import digest, visible
from tamtrl.settings import substance
from tamtrl.tasks.sources import fetch_file

INDEX = "index.json"
RECORDS = ("run.yaml", "evaluation.yaml", "metrics.csv", "card.json")
# Of run.yaml: where things lie.
PATHS = ("model_path", "train_data", "validation_data", "trajectories", "teacher_path", "teacher_probabilities")


def settings_digest(settings: dict | None) -> str:
    """Of a run.yaml or evaluation.yaml, what the result depends on, the training set by its name; of none (an untrained
    backbone has no run.yaml), nothing."""
    if not settings:
        return ""
    kept = {key: value for key, value in substance(settings).items() if key not in PATHS}
    if settings.get("train_data"):
        kept["train_set"] = Path(settings["train_data"]).stem
    if kept.get("scorer"):
        kept["scorer"] = {key: value for key, value in kept["scorer"].items() if key != "path"}
    return digest(kept)


def publish(results: Path, output: Path, with_models: bool, say: Callable[[str], None]) -> None:
    """Add the runs under ``results``/runs to the archive ``output``, each only when it has predictions; models are large
    and optional. The index is written last."""
    index = load(output / INDEX)["runs"] if (output / INDEX).exists() else {}
    found = sorted(path.parent for path in results.glob("runs/**/seed*/predictions"))
    if not found:
        raise UserError(f"{results}/runs holds no run with predictions; give the folder of results, e.g. results/full.")
    for folder in found:
        name = folder.relative_to(results / "runs").as_posix()
        chosen = [path for record in RECORDS if (path := folder / record).exists()]
        chosen += sorted((folder / "predictions").glob("*.jsonl.gz"))
        tests = sorted(path.parent for path in folder.glob("tests/*/evaluation.yaml"))
        chosen += [path for test in tests for path in (test / "evaluation.yaml", *sorted(test.glob("predictions/*.jsonl.gz")))]
        if with_models:
            chosen += visible(folder / "model")
        entry: dict = {"files": {}}
        for path in chosen:
            inside = path.relative_to(folder).as_posix()
            target = output / "runs" / name / inside
            with files.whole(target) as temporary:
                shutil.copyfile(path, temporary)
            entry["files"][inside] = {"sha256": sha256(target), "bytes": target.stat().st_size}
        for key, record in (("settings", "run.yaml"), ("evaluation", "evaluation.yaml")):
            entry[key] = settings_digest(files.read_yaml(folder / record) if (folder / record).exists() else None)
        entry["tests"] = {test.name: settings_digest(files.read_yaml(test / "evaluation.yaml")) for test in tests}
        index[name] = entry
        say(f"{name}: {len(chosen)} files, {sum(file['bytes'] for file in entry['files'].values()) / 2**20:,.1f} MiB")
    files.write_text(output / INDEX, json.dumps({"format": 1, "runs": dict(sorted(index.items()))}, indent=1) + "\n")


def load(path: Path) -> dict:
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; an archive is a folder that `tamtrl publish` made.") from None
    except ValueError as error:
        raise UserError(f"{path} is not the index of an archive ({error}).") from None
    if not isinstance(index, dict) or index.get("format") != 1:
        raise UserError(f"{path} is not the index of an archive of format 1.")
    return index


def fetch_index(url: str, output: Path) -> None:
    """A local copy of the index of an archive behind an HTTP address."""
    import requests

    try:
        answer = requests.get(f"{url.rstrip('/')}/{INDEX}", timeout=60)
        answer.raise_for_status()
    except requests.RequestException as error:
        raise UserError(f"Could not fetch {url}/{INDEX}: {error}") from None
    with files.whole(output) as temporary:
        temporary.write_bytes(answer.content)
        load(temporary)


def restore(archive: str, index: Path, run: str, wanted: list[str], output: Path, say: Callable[[str], None]) -> None:
    """Files of a run, or all below a folder of it (``model``), into ``output``; each appears only whole and with its sha256."""
    entry = load(index)["runs"].get(run)
    if entry is None:
        raise UserError(f"The archive {archive} has no run {run}.")
    known = entry["files"]
    names = [name for name in known if any(name == one or name.startswith(f"{one}/") for one in wanted)]
    for one in wanted:
        if not any(name == one or name.startswith(f"{one}/") for name in names):
            raise UserError(f"The archive {archive} has no {one} of run {run}.")
    for name in names:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise UserError(f"The archive {archive} names a file outside of its run: {name}.")
        target, place = output / name, f"{archive.rstrip('/')}/runs/{run}/{name}"
        if archive.startswith(("http://", "https://")):
            fetch_file([place], known[name]["sha256"], target, say)
            continue
        if not Path(place).exists():
            raise UserError(f"{place} is in the archive's index but does not exist.")
        with files.whole(target) as temporary:
            shutil.copyfile(place, temporary)
            if (found := sha256(temporary)) != known[name]["sha256"]:
                raise UserError(
                    f"{place} is damaged: its sha256 is {found[:12]}…, not {known[name]['sha256'][:12]}… as in the index."
                )
    say(f"{run}: {len(names)} files restored from {archive}")
