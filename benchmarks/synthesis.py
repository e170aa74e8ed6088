"""Samples per second of the 100-document synthesis on a corpus of the size of HotpotQA's dev split (66,635 paragraphs),
with and without a corpus scan per sample.

    python benchmarks/synthesis.py
"""

import random
import time

from tamtrl.tasks.hotpotqa import Question
from tamtrl.tasks.synthesis import Corpus, synthesise

PARAGRAPHS, SAMPLES, DOCUMENTS = 66_635, 300, 100


def questions() -> list[Question]:
    """Paragraphs of HotpotQA's mean length (about 100 words), ten a question."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=5)) for _ in range(5000)]
    texts = [f"Title {i}\n{' '.join(rng.choices(words, k=100))}" for i in range(PARAGRAPHS)]
    return [Question(str(i), "q?", "a", tuple(texts[i : i + 10]), frozenset({0, 1})) for i in range(0, PARAGRAPHS - 9, 10)] + [
        Question("last", "q?", "a", tuple(texts[-10:]), frozenset({0, 1}))
    ]


def scanning(question: Question, corpus: Corpus) -> None:
    """The draw as RULER and MemAgent write it: a list of all other paragraphs for every sample."""
    own = set(question.paragraphs)
    others = [i for i, text in enumerate(corpus.paragraphs) if text not in own]
    random.Random(0).sample(others, DOCUMENTS - 10)


def rate(function, items) -> float:
    started = time.perf_counter()
    for item in items:
        function(item)
    return len(items) / (time.perf_counter() - started)


def main() -> None:
    made = questions()
    started = time.perf_counter()
    corpus = Corpus.of(made)
    print(f"corpus of {len(corpus.paragraphs):,} paragraphs: {time.perf_counter() - started:.2f} s")
    ours = rate(lambda q: synthesise(q, corpus, DOCUMENTS, 0), made[:SAMPLES])
    scan = rate(lambda q: scanning(q, corpus), made[:SAMPLES])
    print(f"synthesis: {ours:,.0f} samples/s; the scanning draw alone: {scan:,.0f} samples/s")
    print(f"8,192 samples take {8192 / ours:.0f} s")


if __name__ == "__main__":
    main()
