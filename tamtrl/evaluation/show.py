"""One stored trajectory as text a person can read."""

from pathlib import Path

from tamtrl.answers import scoring, verifier
from tamtrl.errors import UserError
from tamtrl.evaluation.predictions import read_predictions


def show(predictions: Path, document: int, sample: int) -> str:
    """Question, memory after each chunk, answer, and how it was scored."""
    records = read_predictions(predictions)
    chosen = [record for record in records if (record["document"], record["sample"]) == (document, sample)]
    if not chosen:
        documents, samples = max(r["document"] for r in records) + 1, max(r["sample"] for r in records) + 1
        raise UserError(f"{predictions} has documents 0 to {documents - 1} with samples 0 to {samples - 1}.")
    (record,) = chosen
    answer = scoring.extract_answer(record["response"])
    lines = [
        f"document {document} ({record['id']}), sample {sample}",
        f"question: {record['question']}",
        f"answers ({record['answer_mode']}): {' | '.join(record['answers'])}",
        "",
    ]
    for number, memory in enumerate(record["memories"], start=1):
        lines += [f"memory after chunk {number}:", *(f"    {line}" for line in memory.splitlines())]
    lines += ["", f"response: {record['response']}", f"scored as: {answer!r}"]
    lines.append(f"exact match: {scoring.exact_match(answer, record['answers']):g}")
    lines.append(f"strict (the training verifier): {verifier.outcome(record['response'], record['answers']):g}")
    if record["error"]:
        lines.append(f"the engine failed: {record['error']}")
    if record["dropped_tokens"]:
        lines.append(f"cut off the end of the document: {record['dropped_tokens']} tokens")
    return "\n".join(lines)
