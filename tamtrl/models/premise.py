"""Does the paper's premise hold in a toy reader: is it right on the relevant text alone, and less so on the whole section?

Measured on updates, not on outcomes: the probability, at temperature 1, that the model writes exactly the memory that a careful
reader would write, after the memory that a careful reader has. (After a memory that lost the first fact of two, nobody can know
that the second matters.)
"""

from pathlib import Path

import pandas as pd
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tamtrl import files, frames, seeds
from tamtrl.models.course import Course, Lesson, Sample, lessons
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Reader
from tamtrl.settings import Reading
from tamtrl.statistics import bootstrap_interval
from tamtrl.stored import build
from tamtrl.tasks import toy

BATCH = 256
VIEWS = ("full section", "relevant text alone")


def kind(lesson: Lesson) -> str:
    """Of a turn, by what its section and its memory hold."""
    if lesson.relevant:
        return "relevant beside other text" if lesson.others else "relevant text alone"
    return "nothing relevant, facts to keep" if lesson.kept else "nothing relevant, nothing kept"


@torch.no_grad()
def probabilities(model: torch.nn.Module, samples: list[Sample], pad: int) -> list[float]:
    """Of each response behind its prompt, as a whole: the product over its tokens, the end of the turn among them."""
    found: list[float] = []
    for start in range(0, len(samples), BATCH):
        part = samples[start : start + BATCH]
        length = max(len(prompt) + len(response) for prompt, response in part)
        # Rows are padded on the right, so causal attention alone keeps padding out of every scored position.
        ids = torch.tensor([[*prompt, *response, *[pad] * (length - len(prompt) - len(response))] for prompt, response in part])
        log_probs = model(input_ids=ids).logits.double().log_softmax(-1)
        for row, (prompt, response) in enumerate(part):
            places = torch.arange(len(prompt) - 1, len(prompt) + len(response) - 1)
            found.append(log_probs[row, places, torch.tensor(response)].sum().exp().item())
    return found


def measure(model: torch.nn.Module, reader: Reader, documents: int, questions: int, seed: int) -> pd.DataFrame:
    """A row for each kind of turn and each view: how many turns, and the mean probability of the right memory with its interval
    over turns. ``questions`` are of the held-out split, of ``documents`` paragraphs each."""
    rng = seeds.generator(seed, "premise", "no lapses")
    asked: list[dict[str, str]] = []
    samples: list[Sample] = []
    for example in toy.generate("heldout", questions, documents, seed, stream="premise"):
        turns, _ = lessons(example, reader, rng, 0.0, "careless")
        for turn in turns:
            for view, (prompt, _) in zip(VIEWS, (turn.written, turn.right), strict=True):
                asked.append({"kind": kind(turn), "view": view})
                samples.append((prompt, turn.right[1]))
    table = pd.DataFrame(asked).assign(probability=probabilities(model, samples, reader.prompts.tokenizer.pad_token_id))
    rows = []
    for (what, view), turns_of in frames.groups(table, ["kind", "view"]):
        values = turns_of["probability"].to_numpy()
        low, high = bootstrap_interval([values], seed, what, view)
        rows.append({"kind": what, "view": view, "turns": len(values), "probability": values.mean(), "low": low, "high": high})
    return pd.DataFrame(rows)


def write(recipe_file: Path, folder: str, questions: int, output: Path) -> None:
    recipe = files.read_yaml(recipe_file)
    reading = build(Reading, recipe["reading"], f"{recipe_file}: reading")
    course = build(Course, recipe["course"], f"{recipe_file}: course")
    reader = Reader(Prompts(AutoTokenizer.from_pretrained(folder), reading.prompts), reading)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    frames.write(measure(model, reader, course.documents, questions, recipe["seed"]), output)
