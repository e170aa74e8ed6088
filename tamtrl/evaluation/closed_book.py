"""MemAgent's filter: questions that a model answers without the document teach a reader nothing and are dropped.

Models are asked some samples of each question with nothing else; a question goes when any sample of any model is right, that is,
boxes a gold answer (the training verifier) or contains one (sub_em). Answering takes a GPU, the verdict does not.
"""

import asyncio
import csv
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tamtrl import files, seeds
from tamtrl.answers import scoring, verifier
from tamtrl.errors import UserError
from tamtrl.evaluation import engine as vllm_engine
from tamtrl.evaluation import work
from tamtrl.evaluation.predictions import read_predictions
from tamtrl.evaluation.work import Work
from tamtrl.jobs.machine import require
from tamtrl.reading.chat import template
from tamtrl.reading.texts import Texts
from tamtrl.record.provenance import digest
from tamtrl.settings import ClosedBook, Resources
from tamtrl.tasks.questions import Question
from tamtrl.tasks.synthesis import chosen_order

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PROMPT = "Answer the question. Put the final answer in \\boxed{{}}.\n\nQuestion: {question}"
COLUMNS = ("id", "verdict", "model", "question", "answers", "response")
KEPT = "kept"


def ask(
    questions: list[Question],
    settings: ClosedBook,
    resources: Resources,
    model: str,
    seed: int,
    in_flight: int,
    output: Path,
    say: Callable[[str], None],
) -> None:
    """One record a sample, for the first ``settings.candidates`` questions in the order in which data sets choose them."""
    require(resources)
    asked = chosen_order(questions, seed)[: settings.candidates]
    texts = [[question.id, question.text] for question in asked]
    kept = output.with_name(f".{output.name}.{digest([vars(settings), seed, texts], model)}.jsonl")
    one = Work(output.name, range(len(asked)), settings.samples, kept, output)
    if len(one.finished) < one.documents:
        asyncio.run(_ask(asked, settings, resources, model, seed, in_flight, one, say))
    one.pack()
    kept.unlink()


async def _ask(
    asked: list[Question],
    settings: ClosedBook,
    resources: Resources,
    model: str,
    seed: int,
    in_flight: int,
    one: Work,
    say: Callable[[str], None],
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    prompt = prompter(tokenizer)
    prompts = [prompt(question.text) for question in asked]
    engine = vllm_engine.start_engine(model, max(map(len, prompts)) + settings.tokens, seed, resources, settings.dtype)

    async def read(_: Work, index: int) -> list[dict]:
        return await asyncio.gather(*(answer(index, sample) for sample in range(settings.samples)))

    async def answer(index: int, sample: int) -> dict:
        question = asked[index]
        record = {"document": index, "id": question.id, "sample": sample, "question": question.text}
        draw = seeds.derive(seed, "closed book", question.id, sample)
        sampling = (settings.tokens, settings.temperature, settings.top_p, draw, f"{index}-{sample}")
        try:
            ids = await vllm_engine.sample(engine, prompts[index], *sampling)
        except vllm_engine.Failed as error:
            return record | {"response": "", "error": str(error)}
        return record | {"response": tokenizer.decode(ids, skip_special_tokens=True), "error": None}

    try:
        await work.run([one], read, in_flight, say)
    finally:
        engine.shutdown()


def prompter(tokenizer: "PreTrainedTokenizerFast") -> Callable[[str], list[int]]:
    """A question's prompt as ids: through the chat template where the model has one; a base model completes plain text."""
    texts = Texts(tokenizer)
    if not tokenizer.chat_template:
        return lambda question: texts.encode_whole(f"{PROMPT.format(question=question)}\nAnswer:")
    chat = template(tokenizer, "<|text|>")
    return lambda question: chat.fill(text=texts.encode(PROMPT.format(question=question)))


def verdict(response: str, answers: tuple[str, ...]) -> str:
    """``boxed`` or ``contained`` where the response knows an answer, else ``kept``."""
    if verifier.outcome(response, answers):
        return "boxed"
    return "contained" if scoring.sub_em(response, answers, "alternatives") else KEPT


def filter_known(questions: list[Question], answers: dict[str, Path], output: Path, say: Callable[[str], None]) -> None:
    """A row for each asked question: why it goes and the response that knew it, or that it is kept.

    ``answers``: the answer file of each model, by the model's name. All must have been asked the same questions.
    """
    by_id = {question.id: question for question in questions}
    rows: dict[str, dict] = {}
    for model, path in answers.items():
        records = read_predictions(path)
        if rows and set(rows) != {record["id"] for record in records}:
            raise UserError(f"{path} answers other questions than the other models did; make it again.")
        for record in records:
            if record["id"] not in by_id:
                raise UserError(f"{path} answers question {record['id']}, which the source does not have; make it again.")
            question = by_id[record["id"]]
            row = rows.setdefault(
                question.id,
                dict.fromkeys(COLUMNS, "")
                | {"id": question.id, "verdict": KEPT, "question": question.text, "answers": " | ".join(question.answers)},
            )
            found = verdict(record["response"], question.answers)
            if row["verdict"] == KEPT and found != KEPT:
                row |= {"verdict": found, "model": model, "response": record["response"]}
    with files.whole(output) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        writer.writerows(rows.values())
    kept = sum(row["verdict"] == KEPT for row in rows.values())
    say(f"{kept} of {len(rows)} questions are kept; {len(rows) - kept} were answered without the document")


def usable(path: Path) -> set[str]:
    """Ids of the questions that a written filter kept."""
    with path.open(newline="", encoding="utf-8") as stream:
        return {row["id"] for row in csv.DictReader(stream) if row["verdict"] == KEPT}
