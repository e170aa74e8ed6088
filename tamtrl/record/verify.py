"""What a table was made from, written down beside it, and whether it is still so."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from tamtrl import files, frames
from tamtrl.errors import UserError
from tamtrl.files import sha256
from tamtrl.record.provenance import digest

RECORDED = ("run.yaml", "evaluation.yaml", "metrics.csv", "card.json", "predictions/*.jsonl.gz", "scores/*.csv")


def record(runs: Path, made: list[Path], output: Path) -> None:
    """``runs``: CSV of a table's runs and their files of scores. ``output``: JSON with the sha256 of every file of those
    runs that the table depends on, and of the files ``made`` from them."""
    folders = sorted({Path(path).parents[1] for path in frames.read(runs)["documents"]})
    used = [path for folder in folders for pattern in RECORDED for path in sorted(folder.glob(pattern))]
    hashes = {str(path): sha256(path) for path in used}
    files.write_text(output, json.dumps({"made": {str(path): sha256(path) for path in made}, "used": hashes}, indent=1) + "\n")


def verify(results: Path, say: Callable[[str], None]) -> None:
    """Every table under ``results`` against its record, and every run against its card. UserError names all that differs."""
    records = sorted(results.glob("tables/*.provenance.json"))
    if not records:
        raise UserError(f"{results}/tables holds no *.provenance.json; make the tables first.")
    problems, checked, cards = [], 0, set()
    for path in records:
        recorded = json.loads(path.read_text(encoding="utf-8"))
        for name, expected in (recorded["used"] | recorded["made"]).items():
            checked += 1
            if not Path(name).exists():
                problems.append(f"{path.name}: {name} is missing")
            elif sha256(name) != expected:
                problems.append(f"{path.name}: {name} is not what the table was made from")
            if name.endswith("card.json"):
                cards.add(Path(name))
    for card in sorted(cards):
        problems += list(_against_card(card))
    for problem in problems:
        say(problem)
    if problems:
        raise UserError(f"{len(problems)} of what the tables of {results} were made from has changed, as listed above.")
    say(f"{len(records)} tables, {checked} files and {len(cards)} run cards are as recorded.")


def _against_card(card: Path) -> Iterator[str]:
    """What a run was trained on, and what came out, against what is there now; what isn't there any more can't have
    changed a table."""
    if not card.exists():
        return
    told = json.loads(card.read_text(encoding="utf-8"))
    for key, expected in told["data"].items():
        path = Path(told["run"][key])
        if path.exists() and sha256(path) != expected:
            yield f"{card}: {key} ({path}) is not what the run was trained on"
    model = card.parent / "model"
    if model.exists() and told.get("model") and digest("model", model) != told["model"]:
        yield f"{card}: the weights in {model} are not those that training published"
