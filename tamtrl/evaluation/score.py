"""From stored predictions to scores: every metric per document, and the means with their intervals."""

from pathlib import Path

import pandas as pd

from tamtrl import frames
from tamtrl.answers import scoring
from tamtrl.evaluation.predictions import read_predictions
from tamtrl.statistics import bootstrap_interval


def document_scores(records: list[dict], f1_rule: str) -> pd.DataFrame:
    """One row a document (columns: document, id, one per metric), each the mean over its samples."""
    rows = []
    for record in records:
        values = scoring.all_metrics(record["response"], record["answers"], record["answer_mode"], f1_rule)
        rows.append({"document": record["document"], "id": record["id"], **values})
    return pd.DataFrame(rows).groupby(["document", "id"], as_index=False, dropna=False).mean()


def score(predictions: Path, benchmark: str, f1_rule: str, output: Path, seed: int) -> None:
    """``output``/BENCHMARK.csv: one row a metric with the mean over documents and its 95 % bootstrap interval;
    BENCHMARK.documents.csv: the score of each document, from which tables join seeds."""
    records = read_predictions(predictions)
    scores = document_scores(records, f1_rule)
    rows = []
    for metric in scores.columns.drop(["document", "id"]):
        low, high = bootstrap_interval([scores[metric]], seed, benchmark, metric)
        rows.append(
            {
                "benchmark": benchmark,
                "metric": metric,
                "mean": scores[metric].mean(),
                "low": low,
                "high": high,
                "n": len(scores),
                "samples": len(records) // len(scores),
                "errors": sum(record["error"] is not None for record in records),
                "truncated": sum(record["dropped_tokens"] > 0 for record in records),
            }
        )
    frames.write(scores, output / f"{benchmark}.documents.csv")
    frames.write(pd.DataFrame(rows), output / f"{benchmark}.csv")
