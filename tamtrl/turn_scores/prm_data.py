"""Training data of the process reward model: every memory turn of sampled trajectories, right ones and wrong ones,
labelled with the outcome of its trajectory."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tamtrl import files, seeds
from tamtrl.answers import verifier
from tamtrl.errors import UserError
from tamtrl.evaluation.predictions import read_predictions
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Reader
from tamtrl.reading.texts import Texts
from tamtrl.settings import ProcessRewardModel
from tamtrl.tasks.example import ExampleFile
from tamtrl.turn_scores import prm
from tamtrl.turn_scores.updates import UpdateWriter

SCHEMA = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("sample", pa.int64(), nullable=False),
        pa.field("turn", pa.int64(), nullable=False),
        pa.field("held_out", pa.bool_(), nullable=False),
        pa.field("input_ids", pa.list_(pa.int32()), nullable=False),
        pa.field("label", pa.int8(), nullable=False),
    ]
)


def is_held_out(run: ProcessRewardModel, question: str) -> bool:
    """By the question's text, so that all turns of all trajectories of all documents that ask it are on one side."""
    return seeds.generator(run.seed, "prm held out", question).random() < run.held_out


def label(
    run: ProcessRewardModel,
    base: str,
    policy: str,
    data: Path,
    shards: list[Path],
    output: Path,
    report: Path,
    say: Callable[[str], None],
) -> None:
    """``output``: one row a memory turn. ``report``: how many of each kind, and of how many not all fitted. ``policy`` is
    the model that sampled the trajectories, ``base`` the BERT to be trained; of both only the tokenizer is used."""
    from transformers import AutoTokenizer

    reader = Reader(Prompts(AutoTokenizer.from_pretrained(policy), run.reading.prompts), run.reading)
    texts = Texts(AutoTokenizer.from_pretrained(base))
    examples = ExampleFile(data)
    counts: Counter = Counter()
    with files.whole(output) as temporary, pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer:
        for path in shards:
            rows = list(_rows(run, reader, texts, examples, read_predictions(path), counts))
            writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
            say(f"{path.name}: {len(rows)} turns")
    if not counts["train correct"] or not counts["train wrong"]:
        raise UserError(
            f"The trajectories give {counts['train correct']} correct and {counts['train wrong']} wrong turns to train on; a "
            "process reward model needs both. Sample more questions, or from another model (prm.trajectories_of)."
        )
    names = ("trajectories", "failed", "turns", "cut_question_or_memory", "cut_relevant")
    summary: dict = {name: counts[name] for name in names}
    for part in ("train", "held_out"):
        turns = counts[f"{part} correct"] + counts[f"{part} wrong"]
        summary[part] = {
            "documents": counts[f"{part} documents"],
            "turns": turns,
            "share_correct": counts[f"{part} correct"] / turns if turns else None,
        }
    files.write_text(report, json.dumps(summary, indent=2) + "\n")


def _rows(
    run: ProcessRewardModel, reader: Reader, texts: Texts, examples: ExampleFile, records: list[dict], counts: Counter
) -> Iterator[dict]:
    """The turns of one shard, whose records stand in document order."""
    document = None
    for record in records:
        counts["trajectories"] += 1
        if record["error"]:
            counts["failed"] += 1
            continue
        if record["document"] != document:
            document = record["document"]
            example = examples[document]
            writer = UpdateWriter(reader, reader.prepare(example))
            held_out = is_held_out(run, example.question)
            part = "held_out" if held_out else "train"
            counts[f"{part} documents"] += 1
        answer = reader.prompts.tokenizer.decode(reader.strip_end(record["turns"][-1]))
        correct = int(verifier.outcome(answer, example.answers))
        for turn, update in enumerate(writer.all(record["turns"])):
            encoded = prm.encode(texts, update, run.window_tokens)
            counts["turns"] += 1
            counts["cut_question_or_memory"] += not encoded.kept_whole
            counts["cut_relevant"] += not encoded.relevant_whole
            counts[f"{part} {'correct' if correct else 'wrong'}"] += 1
            place = {"document": document, "sample": record["sample"], "turn": turn, "held_out": held_out}
            yield place | {"input_ids": encoded.ids, "label": correct}
