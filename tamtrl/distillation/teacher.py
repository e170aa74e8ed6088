"""The teacher's likeliest tokens at every response position, computed once and kept on disk (``distillation.precompute``)."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from tamtrl import files
from tamtrl.distillation.distil import require_same_vocabulary
from tamtrl.distillation.loss import top_k
from tamtrl.distillation.samples import TurnDataset
from tamtrl.distillation.trainer import load_teacher
from tamtrl.jobs.environment import attention
from tamtrl.settings import DistillationRun, Resources

SCHEMA = pa.schema([("ids", pa.list_(pa.int32())), ("log_probs", pa.list_(pa.float32()))])


def precompute(run: DistillationRun, resources: Resources, output: Path, say: Callable[[str], None]) -> None:
    """One row a sample, in the order of :class:`TurnDataset`: ``kl_top_k`` ids and log-probabilities for each response token,
    flattened. Written as it goes; the file appears only when complete."""
    from transformers import AutoTokenizer

    require_same_vocabulary(run.model_path, run.teacher_path)
    tokenizer = AutoTokenizer.from_pretrained(run.model_path)
    own = {"data": run.train_data, "reading": vars(run.reading), "seed": run.seed}
    dataset = TurnDataset(run.trajectories, tokenizer, {"tamtrl": own})
    dtype, device = run.distillation.dtype, "cpu" if resources.device == "cpu" else "cuda"
    teacher = load_teacher(run.teacher_path, device, dtype, attention(resources, dtype, by_row=False))  # one row at a time
    k, temperature = run.distillation.kl_top_k, run.distillation.kl_temperature
    with files.whole(output) as temporary, pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer:
        rows = []
        for item in range(len(dataset)):
            turn = dataset.turn(item)
            tokens = torch.tensor([turn.prompt_ids + turn.generation.ids], device=teacher.device)
            length = len(turn.generation.ids)
            kept = length + 1 if run.distillation.response_logits else 0  # 0: all
            with torch.no_grad():
                logits = teacher(tokens, use_cache=False, logits_to_keep=kept).logits[0, -length - 1 : -1]
            ids, log_probs = top_k(logits, k, temperature)
            rows.append({"ids": ids.flatten().tolist(), "log_probs": log_probs.flatten().tolist()})
            if len(rows) == 256 or item == len(dataset) - 1:
                writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
                rows.clear()
                say(f"{item + 1}/{len(dataset)} samples")
