"""Preparing the paper's data at full size: seconds and peak memory of each set.

The public files are not needed: full-size stand-ins in their formats are written first (90,447 and 7,405 HotpotQA questions of
ten paragraphs; LongBench's 200 rows a set at its mean lengths). The tokenizer should be Qwen3's own, since RULER's sets are
fitted to it: a folder with tokenizer.json and tokenizer_config.json.

    python benchmarks/prepare.py TOKENIZER
"""

import json
import random
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

TRAIN, DEV = 90_447, 7_405  # questions of HotpotQA's splits
LONGBENCH = {"narrativeqa": 18_409, "qasper": 3_619, "2wikimqa": 4_887, "musique": 11_214}  # mean words of a row
PARAGRAPH_SENTENCES, SENTENCE_WORDS = 4, 29  # so that the files are as large as the real ones
POOL = 5.3  # distinct paragraphs a question: 480,000 in the training split


def sentence(rng: random.Random, words: list[str], length: int) -> str:
    return " " + " ".join(rng.choices(words, k=length)) + "."


def write_hotpotqa(path: Path, count: int, rng: random.Random, words: list[str]) -> None:
    """Official layout; paragraphs shared between questions as in the real split."""
    pool = [
        [f"Title {n}", [sentence(rng, words, SENTENCE_WORDS) for _ in range(PARAGRAPH_SENTENCES)]]
        for n in range(int(POOL * count))
    ]
    with path.open("w", encoding="utf-8") as stream:
        for number in range(count):
            context = rng.sample(pool, 10)
            facts = [[title, 0] for title, _ in context[:2]]
            record = {"_id": f"q{number}", "question": "Which one is it?", "answer": "this one", "supporting_facts": facts}
            stream.write(("[" if number == 0 else ", ") + json.dumps(record | {"context": context}))
        stream.write("]")


def write_longbench(path: Path, rng: random.Random, words: list[str]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for config, length in LONGBENCH.items():
            rows = [
                {"input": "Who?", "context": " ".join(rng.choices(words, k=length)), "answers": ["A", "B"], "length": length}
                | {"dataset": config, "language": "en", "all_classes": None, "_id": f"{number:048x}"}
                for number in range(200)
            ]
            archive.writestr(f"data/{config}.jsonl", "\n".join(map(json.dumps, rows)))


def measure(*arguments: object) -> tuple[float, float]:
    """Seconds, and the GiB of memory that the process held at most."""
    before = time.time()
    process = subprocess.Popen([sys.executable, "-m", "tamtrl.cli", *map(str, arguments)], stderr=subprocess.DEVNULL)
    peak = 0.0
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = max(peak, int(status.split("VmHWM:")[1].split()[0]) / 2**20)
        except (OSError, IndexError):
            pass
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"{arguments} failed")
    return time.time() - before, peak


def main() -> None:
    tokenizer = sys.argv[1]
    rng = random.Random(0)
    words = [line for line in Path(__file__).read_text().split() if line.isalpha()] * 3 + ["the", "of", "and", "in", "was"] * 20
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_hotpotqa(folder / "train.json", TRAIN, rng, words)
        write_hotpotqa(folder / "dev.json", DEV, rng, words)
        write_longbench(folder / "longbench.zip", rng, words)
        (folder / "essay.txt").write_text("".join(sentence(rng, words, 20) for _ in range(10_000)))
        for file in sorted(folder.iterdir()):
            print(f"{file.name}: {file.stat().st_size / 2**20:,.0f} MiB")
        ruler = ["--tokenizer", tokenizer, "--tokens", 8192, "--count", 500, "--seed", 0]
        hotpotqa = ["--documents", 100, "--seed", 0]
        jobs = {
            "train": ["prepare-multihop", "--source", folder / "train.json", "--count", 8192, *hotpotqa],
            "hotpotqa": ["prepare-multihop", "--source", folder / "dev.json", "--count", 128, *hotpotqa],
            "ruler_qa_8k": ["prepare-ruler-qa", "--source", folder / "dev.json", *ruler],
            "niah_multikey_1": ["prepare-niah", "--multikey", 1, "--essay", folder / "essay.txt", *ruler],
            "niah_multikey_2": ["prepare-niah", "--multikey", 2, *ruler],
            "niah_multikey_3": ["prepare-niah", "--multikey", 3, *ruler],
        }
        for config in LONGBENCH:
            jobs[config] = ["prepare-longbench", "--config", config, "--source", folder / "longbench.zip"]
        total = 0.0
        for benchmark, arguments in jobs.items():
            seconds, gib = measure(*arguments, "--benchmark", benchmark, "--output", folder / f"{benchmark}.parquet")
            total += seconds
            print(f"{benchmark:16} {seconds:6.1f} s  {gib:4.1f} GiB", flush=True)
        print(f"{'all':16} {total:6.1f} s")


if __name__ == "__main__":
    main()
