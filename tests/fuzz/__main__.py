"""Damaged and odd data files through every loader: right data or one sentence, never a traceback, never silent loss.

    python tests/fuzz --cases 20000 --seed 1

prints how many cases of each kind ended how, and each case that ended wrongly, and exits with 1 if there is one. What is right is
said by a second, naive reading of the damaged text with Python's own json; what has a checksum must be the same or refused.
"""

import argparse
import os
import random
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import pyarrow as pa
from damage import PACKED, PLAIN, change_bytes, change_values, lines, parquet, recode
from formats import FORMATS, naively

from tamtrl.errors import UserError

MEMORY = 2 << 30
SECONDS = 10  # for one case
LONGEST_SENTENCE = 1200
ARCHIVES = ("zip", "tgz", "tar.xz", "tar.bz2", "tar")


def case(number: int, seed: int, folder: Path) -> tuple[str, str]:
    """The kind of a case and how it ended: same, other (as its text says), refused; anything else is wrong."""
    rng = random.Random(f"{seed}-{number}")
    name = rng.choice(list(FORMATS))
    layouts, load, naive = FORMATS[name]
    make = rng.choice(layouts)
    rows = [make(n) for n in range(rng.randint(1, 3))]
    expected = [one for record in rows for one in naive(record)]
    kind = rng.choice(("values", "values", "values", "bytes", "text", "packed", "packed values", "parquet", "parquet values"))
    layout = rng.choice(list(PLAIN) if name != "essay" else [key for key in PLAIN if not key.startswith("mapping")])
    suffix, readable = layout, True
    if "values" in kind:
        rows = change_values(rows, rng)
    if kind.startswith("parquet"):
        suffix, readable = "parquet", False
        try:
            data = parquet(rows)
            rows = pa.Table.from_pylist(rows).to_pylist()  # what one row lacks is null there
        except (pa.ArrowException, TypeError, AttributeError, OverflowError):
            return kind, "cannot be written"
        if kind == "parquet":
            data = change_bytes(data, rng)
    else:
        data = PLAIN[layout](rows)
        if kind == "bytes":
            data = change_bytes(data, rng)
        elif kind == "text":
            data = recode(data, rng)
        if kind.startswith("packed"):
            suffix = rng.choice(list(PACKED))
            if suffix in ARCHIVES:
                layout, data = "jsonl", lines(rows)
            plain, data = data, PACKED[suffix](data)
            if kind == "packed":
                sound = data
                data, readable = change_bytes(data, rng), suffix == "tar"
                if data == 2 * sound:  # streams on end, and records that need no id may stand there twice
                    expected *= 2
            else:
                data, readable = data, True
    path = folder / f"{'longbench_qasper' if name == 'longbench' else 'case'}.{suffix}"
    path.write_bytes(data)
    began = time.monotonic()
    try:
        found = load(path)
    except UserError as error:
        sentence = str(error)
        if "\n" in sentence or len(sentence) > LONGEST_SENTENCE:
            return kind, f"WRONG: not one sentence: {sentence[:300]!r}"
        return kind, "refused"
    except BaseException as error:
        return kind, f"WRONG: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    finally:
        if (took := time.monotonic() - began) > SECONDS:
            print(f"case {number} took {took:.0f} s", file=sys.stderr)
        path.unlink()
    if found == expected:
        return kind, "same"
    if not readable:
        checksum = "WRONG: read as other text, although it has a checksum"
        return kind, typed(rows, naive, found) if kind == "parquet values" else checksum
    if suffix == "tar":
        return kind, "other" if kind == "packed" else typed(rows, naive, found)
    try:
        raw = naively(data if suffix in PLAIN else plain, layout == "jsonl" and (suffix == "jsonl" or suffix in ARCHIVES))
    except (ValueError, AssertionError, RecursionError) as error:
        return kind, f"WRONG: read, although it is no JSON ({error})"
    return kind, typed(raw, naive, found)


def typed(rows: list, naive, found: list) -> str:
    try:
        right = [one for record in rows for one in naive(record)]
    except (AssertionError, KeyError, TypeError, ValueError, AttributeError) as error:
        return f"WRONG: read, although a record is odd ({type(error).__name__}: {error})"
    return "other" if right == found else f"WRONG: {str(found)[:200]} instead of {str(right)[:200]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one case, and leave its file in the working folder")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    ends: Counter = Counter()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.cases) if args.only is None else [args.only]:
            kind, end = case(number, args.seed, Path(folder))
            ends[kind, end.split(":")[0]] += 1
            if end.startswith("WRONG"):
                wrong += 1
                print(f"case {number} of seed {args.seed} ({kind}): {end}")
    for (kind, end), count in sorted(ends.items()):
        print(f"{kind:16} {end:20} {count:7,}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{sum(ends.values()):,} cases, {wrong} wrong, peak memory {peak} MiB")
    sys.stdout.flush()
    os._exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
