"""Trains the process reward model with transformers' Trainer: BertForSequenceClassification with one logit, binary
cross-entropy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from torch.utils.data import Dataset

from tamtrl import files, seeds
from tamtrl.errors import UserError
from tamtrl.jobs.checkpoints import Checkpoints, intact
from tamtrl.jobs.job import locked
from tamtrl.jobs.machine import require
from tamtrl.record.provenance import digest
from tamtrl.settings import ProcessRewardModel, Resources

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Trainer

BINS = 10
STATE = "trainer_state.json"


class TurnLabels(Dataset):
    def __init__(self, table: pa.Table):
        self.table = table

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, item: int) -> dict:
        return {"input_ids": self.table["input_ids"][item].as_py(), "labels": [float(self.table["label"][item].as_py())]}


def train(
    run: ProcessRewardModel,
    resources: Resources,
    base: str,
    turns: Path,
    labels: Path,
    output: Path,
    scratch: Path,
    say: Callable[[str], None],
) -> None:
    """``output`` gets model/, report.json (sizes, class balance, accuracy, AUROC, calibration) and calibration.csv; the
    model last. Checkpoints stay in ``scratch``, in a folder for all that the result depends on; started again, training
    continues."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    require(resources)
    table = pq.read_table(turns)
    training, held_out = table.filter(pc.invert(table["held_out"])), table.filter(table["held_out"])
    if not len(held_out) or len(pc.unique(held_out["label"])) < 2:
        raise UserError(
            f"{turns} has {len(held_out)} held-out turns, not of both outcomes; raise prm.held_out or sample more questions."
        )
    torch.manual_seed(seeds.derive(run.seed, "prm head") % 2**32)
    # "multi label" with one label is what transformers calls binary cross-entropy on one logit.
    model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1, problem_type="multi_label_classification")
    if run.window_tokens > (most := model.config.max_position_embeddings):
        raise UserError(f"prm.window_tokens is {run.window_tokens}, but {base} reads at most {most} tokens.")
    tokenizer = AutoTokenizer.from_pretrained(base)
    settings = {k: v for k, v in vars(run).items() if k not in ("reading", "save_every")}
    scratch = scratch / digest(settings, base, turns)
    scratch.mkdir(parents=True, exist_ok=True)
    with locked(scratch):
        trainer = _trainer(run, resources, model, tokenizer, TurnLabels(training), scratch, say)
        last = checkpoints(scratch).tidy(say)
        say(f"Training on {len(training)} turns" + (f", resuming from {last.name}." if last else "."))
        trainer.train(resume_from_checkpoint=str(last) if last else None)
        logits = trainer.predict(TurnLabels(held_out)).predictions.reshape(-1)
        probabilities = 1 / (1 + np.exp(-logits.astype(np.float64)))
        outcomes = held_out["label"].to_numpy()
        bins = calibration(probabilities, outcomes)
        report = json.loads(labels.read_text(encoding="utf-8")) | quality(probabilities, outcomes, bins)
        say(f"held out: accuracy {report['accuracy']:.4f}, AUROC {report['auroc']:.4f}")
        output.mkdir(parents=True, exist_ok=True)
        with files.whole(output / "calibration.csv") as temporary:
            bins.to_csv(temporary, index=False)
        files.write_text(output / "report.json", json.dumps(report, indent=2) + "\n")
        with files.whole_folder(output / "model") as temporary:
            model.save_pretrained(temporary)
            tokenizer.save_pretrained(temporary)


def _trainer(
    run: ProcessRewardModel,
    resources: Resources,
    model: torch.nn.Module,
    tokenizer: "PreTrainedTokenizerFast",
    data: Dataset,
    scratch: Path,
    say: Callable[[str], None],
) -> "Trainer":
    from transformers import DataCollatorWithPadding, PrinterCallback, Trainer, TrainerCallback, TrainingArguments

    class Progress(TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
            if logs and "loss" in logs:
                say(f"step {state.global_step}/{state.max_steps}: loss {float(logs['loss']):.4f}")

    arguments = TrainingArguments(
        output_dir=str(scratch),
        per_device_train_batch_size=run.batch // resources.devices,
        per_device_eval_batch_size=4 * run.batch,
        num_train_epochs=run.epochs,
        learning_rate=run.lr,
        weight_decay=run.weight_decay,
        lr_scheduler_type="linear",
        seed=seeds.derive(run.seed, "prm training") % 2**32,
        bf16=resources.device == "gpu",
        use_cpu=resources.device == "cpu",
        save_steps=run.save_every,
        save_total_limit=2,
        logging_steps=max(1, run.save_every // 10),
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=resources.device == "gpu",
    )
    collator = DataCollatorWithPadding(tokenizer)
    trainer = Trainer(model=model, args=arguments, train_dataset=data, data_collator=collator, callbacks=[Progress()])
    trainer.remove_callback(PrinterCallback)  # the same on standard output
    return trainer


def checkpoints(scratch: Path) -> Checkpoints:
    """The Trainer writes its state last. It would go on without an optimizer's state that is not there."""

    def lacks(checkpoint: Path) -> str:
        names = ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", STATE)
        return next((name for name in names if not intact(checkpoint / name)), "")

    return Checkpoints(scratch, "checkpoint-", lacks, finished=lambda checkpoint: intact(checkpoint / STATE))


def calibration(probabilities: np.ndarray, outcomes: np.ndarray) -> pd.DataFrame:
    """One row for each tenth of [0, 1] that has turns: how many, their mean probability, and the share that was correct."""
    tenth = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    table = pd.DataFrame({"bin": tenth, "probability": probabilities, "share_correct": outcomes})
    grouped = table.groupby("bin").agg(
        turns=("probability", "size"), probability=("probability", "mean"), share_correct=("share_correct", "mean")
    )
    return grouped.reset_index()


def quality(probabilities: np.ndarray, outcomes: np.ndarray, bins: pd.DataFrame) -> dict[str, float]:
    """Accuracy at 1/2 and of always saying the commoner class; AUROC, the probability that a correct turn scores above a
    wrong one (ties count half); the expected calibration error over the bins, weighted by turns."""
    right = int(outcomes.sum())
    ranks = pd.Series(probabilities).rank()[outcomes == 1].sum()  # Mann-Whitney's U, ties at their mean rank
    auroc = (ranks - right * (right + 1) / 2) / (right * (len(outcomes) - right))
    error = ((bins["probability"] - bins["share_correct"]).abs() * bins["turns"]).sum() / bins["turns"].sum()
    return {
        "accuracy": float(((probabilities >= 0.5) == outcomes).mean()),
        "accuracy_of_the_commoner_class": float(max(outcomes.mean(), 1 - outcomes.mean())),
        "auroc": float(auroc),
        "calibration_error": float(error),
    }
