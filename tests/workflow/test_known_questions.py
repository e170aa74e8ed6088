"""The closed-book filter in the workflow: vLLM asks a model that knows some answers, and those questions go."""

import csv
import json

import pytest
import torch
import yaml
from conftest import hotpot_record
from test_workflow import snakemake

from tamtrl.evaluation.closed_book import PROMPT, prompter
from tamtrl.models.backbone import Shape, new_model
from tamtrl.models.tokenizers import word_tokenizer
from tamtrl.tasks.example import ExampleFile

QUESTIONS = 24
KNOWN = range(0, QUESTIONS, 3)  # every third; half of these in a box
SHAPE = Shape(width=64, layers=2, heads=2, kv_heads=1, head_dim=32, feed_forward=128)


def response(number: int) -> str:
    if number not in KNOWN:
        return "\\boxed{ unsure }"
    return f"\\boxed{{ v{number}1 }}" if number % 2 else f"It is v{number}1 indeed"


@pytest.fixture(scope="module")
def knowing_model(tmp_path_factory):
    """Trained in seconds to say what ``response`` says."""
    records = [hotpot_record(number) for number in range(QUESTIONS)]
    texts = [PROMPT.format(question=record["question"]) for record in records]
    texts += [response(number) for number in range(QUESTIONS)]
    tokenizer = word_tokenizer([*texts, "user\n assistant\n"])
    model = new_model(SHAPE, tokenizer, window=128, seed=0)
    prompt, pairs = prompter(tokenizer), []
    for number, record in enumerate(records):
        answer = tokenizer(response(number), add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
        pairs.append((prompt(record["question"]), answer))
    length = max(len(prompt) + len(answer) for prompt, answer in pairs)
    ids = torch.full((QUESTIONS, length), tokenizer.pad_token_id)
    labels = torch.full((QUESTIONS, length), -100)
    for row, (prompt, answer) in enumerate(pairs):
        ids[row, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
        labels[row, len(prompt) : len(prompt) + len(answer)] = torch.tensor(answer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(800):
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if loss < 5e-3:
            break
    assert loss < 1e-2, "the model did not learn its answers"
    folder = tmp_path_factory.mktemp("knowing") / "model"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_known_questions_are_dropped_and_listed(checkout, knowing_model):
    (checkout / "dev.json").write_text(json.dumps([hotpot_record(number) for number in range(QUESTIONS)]))
    models = yaml.safe_load((checkout / "config" / "models.yaml").read_text()) | {"knowing": {"path": str(knowing_model)}}
    (checkout / "config" / "knowing.yaml").write_text(yaml.safe_dump(models))
    arguments = ["--profile", "toy", "--configfile", "config/sample.yaml", "--config", "models=config/knowing.yaml"]
    arguments += ["hotpotqa_train=dev.json", "hotpotqa_dev=dev.json", "select={model: [sample]}"]
    arguments += ["pathvars={results: results/known, logs: logs/known, scratch: scratch/known}"]
    # 20 are asked; of those that are left, 6 are kept for training and 4 others for validation
    arguments += ["closed_book={models: [knowing], candidates: 20, tokens: 16}", "datasets=config/filtered.yaml"]
    datasets = yaml.safe_load((checkout / "config" / "datasets.yaml").read_text())
    datasets["sample_training"] |= {"source": "hotpotqa_dev", "count": 6, "closed_book": True}
    datasets["sample_validation"] |= {"count": 4, "skip": 6, "closed_book": True}
    (checkout / "config" / "filtered.yaml").write_text(yaml.safe_dump(datasets))
    done = snakemake(checkout, "data", *arguments)
    assert done.returncode == 0, done.stderr[-5000:]

    folder = checkout / "results" / "known" / "data"
    with (folder / "closed_book" / "hotpotqa_dev.csv").open() as stream:
        rows = {int(row["id"].removeprefix("q")): row for row in csv.DictReader(stream)}
    assert len(rows) == 20
    for number, row in rows.items():
        expected = "kept" if number not in KNOWN else "boxed" if number % 2 else "contained"
        assert row["verdict"] == expected, row
        assert row["model"] == ("knowing" if number in KNOWN else "") and (f"v{number}1" in row["response"]) == (number in KNOWN)
    train, validation = (
        {e.id for e in ExampleFile(folder / f"{name}.parquet")} for name in ("sample_training", "sample_validation")
    )
    kept = {f"q{number}" for number in rows if number not in KNOWN}
    assert len(train) == 6 and len(validation) == 4 and not train & validation and train | validation <= kept

    # more than the filter left is an error with the numbers
    datasets["sample_training"]["count"] = 20
    (checkout / "config" / "filtered.yaml").write_text(yaml.safe_dump(datasets))
    done = snakemake(checkout, "data", *arguments)
    assert done.returncode != 0 and f"the source has only {len(kept)} that the closed-book filter kept" in done.stderr
