"""What a job logs at each step, over its attempts, and the table of a whole run made from it."""

import csv
import json
from collections.abc import Iterable
from pathlib import Path

from tamtrl import files


def read_steps(paths: Iterable[Path]) -> dict[int, dict]:
    """Merge the JSON lines of a run's attempts: a step done again after a resume replaces the earlier one. A line cut
    by a kill is passed over."""
    steps: dict[int, dict] = {}
    for path in sorted(paths):
        attempt: dict[int, dict] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            attempt.setdefault(record["step"], {}).update(record["data"])
        # A resumed attempt may validate at the step it starts from: keep what that step already had.
        for step, values in attempt.items():
            steps[step] = {**(steps.get(step, {}) if "tamtrl/outcome" not in values else {}), **values}
    return steps


def validation(values: dict) -> float | None:
    """The outcome verl logged for a validation, the mean over data sets; None where there was none."""
    found = [v for k, v in values.items() if k.startswith("val-core/") and "/acc/mean@" in k]
    return sum(found) / len(found) if found else None


def _rename(values: dict, columns: dict[str, str], prefixes: tuple[str, ...]) -> dict:
    row = {ours: values[theirs] for ours, theirs in columns.items() if theirs in values}
    if (outcome := validation(values)) is not None:
        row["validation_outcome"] = outcome
    for key, value in values.items():
        if key.startswith(prefixes):
            row[key.replace("timing_s/", "seconds_").removeprefix("tamtrl/")] = value
    return row


def write_table(paths: Iterable[Path], destination: Path, columns: dict[str, str], prefixes: tuple[str, ...]) -> int:
    """metrics.csv of a run, one row a step (step 0: validation before training): ``columns`` (our name, verl's), then what verl
    names with one of ``prefixes``. Returns the last step."""
    steps = read_steps(paths)
    rows = [{"step": step} | _rename(steps[step], columns, prefixes) for step in sorted(steps)]
    extra = sorted({key for row in rows for key in row} - {"step", *columns})
    with files.whole(destination) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, ["step", *columns, *extra])
        writer.writeheader()
        writer.writerows(rows)
    return max(steps, default=0)
