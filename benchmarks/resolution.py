"""How far Eq. 4's score of one and the same row moves with the rows it shares a forward pass with, and what share that is of the
resolution in tamtrl/credit/rounding.py (above 1, its `LOG_ODDS` is too small). Rows are what the model itself writes as it reads
toy documents.

    python benchmarks/resolution.py             # the toy models
    python benchmarks/resolution.py FOLDER      # another, with the `full` prompts; on a GPU where there is one
    python benchmarks/resolution.py --deep      # as deep and wide as Qwen3-0.6B, untrained, its logits sharpened
"""

import asyncio
import random
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from common import REPOSITORY, toy_config

from tamtrl.credit import rounding, teacher
from tamtrl.credit.normalise import standardise
from tamtrl.credit.settings import CHOICES, CreditSettings
from tamtrl.models.backbone import Shape, new_model
from tamtrl.reading.prompts import Prompts
from tamtrl.reading.reader import Generation, Reader
from tamtrl.settings import Reading
from tamtrl.stored import build
from tamtrl.tasks import toy

Row = tuple[list[int], list[int]]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
GROUPS, GROUP, BUDGETS = 24, 8, (256, 512, 1024, 2048)


def log_probs(model, rows: list[Row]) -> list[torch.Tensor]:
    """Of each response's tokens: the rows packed behind each other, as verl does without padding."""
    ids = torch.tensor([[token for prompt, response in rows for token in prompt + response]], device=DEVICE)
    positions = torch.cat([torch.arange(len(prompt) + len(response)) for prompt, response in rows])[None].to(DEVICE)
    with torch.no_grad():
        logits = model(input_ids=ids, position_ids=positions, use_cache=False).logits[0, :-1].float()
    found, end, out = logits.log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0].cpu(), 0, []
    for prompt, response in rows:
        end += len(prompt) + len(response)
        out.append(found[end - len(response) - 1 : end - 1])
    return out


def in_micro_batches(model, rows: list[Row], order: list[int], budget: int) -> list[torch.Tensor]:
    """Every row's, passed in this order, as many at once as fit in ``budget`` tokens."""
    out: list = [None] * len(rows)
    tokens = 0
    batches: list[list[int]] = [[]]
    for row in order:
        tokens += sum(map(len, rows[row]))
        if batches[-1] and tokens > budget:
            batches.append([])
            tokens = sum(map(len, rows[row]))
        batches[-1].append(row)
    for batch in batches:
        for row, found in zip(batch, log_probs(model, [rows[row] for row in batch]), strict=True):
            out[row] = found
    return out


def written(model, reader: Reader, queries: int) -> Iterator[Row]:
    """Teacher's prompt and memory update of every memory turn, sampled at temperature 1."""
    end = reader.prompts.tokenizer.eos_token_id

    async def generate(prompt: list[int], tokens: int, turn: int) -> Generation:
        options = dict(max_new_tokens=min(tokens, 64), do_sample=True, temperature=1.0, top_k=0, top_p=1.0, eos_token_id=end)
        ids = torch.tensor([prompt], device=DEVICE)
        made = model.generate(ids, attention_mask=torch.ones_like(ids), pad_token_id=end, **options)
        return Generation(made[0, len(prompt) :].tolist())

    for example in list(toy.generate("train", queries, 6, seed=0)):
        turns = asyncio.run(reader.read(reader.prepare(example), generate))
        yield from ((turn.teacher_prompt_ids, turn.generation.ids) for turn in turns if not turn.is_answer)


def report(name: str, model, reader: Reader, queries: int, passes: int) -> None:
    torch.manual_seed(0)
    rows = list(written(model.float(), reader, queries))
    lengths = sorted(len(response) for _, response in rows)
    print(f"{name}: {len(rows)} rows, responses of {lengths[0]} to {lengths[-1]} tokens (median {lengths[len(lengths) // 2]})")
    rng = random.Random(0)
    orders = [(rng.sample(range(len(rows)), len(rows)), BUDGETS[number % len(BUDGETS)]) for number in range(passes)]
    orders.append((list(range(len(rows))), 1))  # every row alone
    for precision, dtype in DTYPES.items():
        model = model.to(dtype)
        found = [in_micro_batches(model, rows, *order) for order in orders]
        tokens = torch.stack([torch.cat(one).exp() for one in found])
        print(f"  {precision}: mean probability {tokens.mean():.2f}; of a token it moves by {_range(tokens).max():.1e} at most")
        for form in CHOICES["score"]:
            score = partial(teacher.score, settings=CreditSettings("teacher", score=form))
            moved = _range(torch.stack([score(one) for one in found]))
            used = moved / rounding.resolution(score, found[0], rounding.LOG_ODDS[precision])
            told = f"moves by {moved.max():.1e} at most, median {moved.median():.1e}"
            print(f"    {form:15} {told}: {used.max():.2f} of the resolution, median {used.median():.3f}")
        groups(model, rows[:GROUPS], precision, rng)


def _range(values: torch.Tensor) -> torch.Tensor:
    return values.amax(0) - values.amin(0)


def groups(model, rows: list[Row], precision: str, rng: random.Random) -> None:
    """Groups of identical rows, scattered: the advantages that rounding alone makes of them."""
    copies = [row for row in rows for _ in range(GROUP)]
    number = torch.arange(len(rows)).repeat_interleave(GROUP)
    found = in_micro_batches(model, copies, rng.sample(range(len(copies)), len(copies)), 1024)
    score = partial(teacher.score, settings=CreditSettings("teacher"))
    worst = standardise(score(found), number).abs().reshape(-1, GROUP).amax(1)
    print(f"    {int((worst > 0).sum())} of {len(rows)} groups of {GROUP} identical rows get advantages, up to {worst.max():.2f}")
    off = rounding.resolution(score, found, rounding.LOG_ODDS[precision])
    left = standardise(score(found), number, True, off).abs().reshape(-1, GROUP).amax(1)
    print(f"    with a resolution of {off.median():.1e} (median; {off.min():.1e} to {off.max():.1e}) {int((left > 0).sum())} do")


def main(arguments: list[str]) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    brief = build(Reading, toy_config()["reading"], "reading")
    kept = [REPOSITORY / "models" / name for name in ("toy", "toy_teacher")]
    for folder in [] if arguments == ["--deep"] else map(Path, arguments or kept):
        tokenizer, reading = AutoTokenizer.from_pretrained(folder), brief
        if arguments:
            sizes = dict(query_tokens=64, chunk_tokens=96, memory_tokens=128, window_tokens=1024, prompts="full")
            reading = build(Reading, toy_config()["reading"] | sizes, "reading")
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(DEVICE).eval()
        report(folder.name, model, Reader(Prompts(tokenizer, reading.prompts), reading), queries=64, passes=12)
    if arguments == ["--deep"]:
        tokenizer = AutoTokenizer.from_pretrained(REPOSITORY / "models" / "toy")
        model = new_model(Shape(1024, 28, 16, 3072, 8, 128), tokenizer, 128, seed=0).eval().to(DEVICE)
        model.model.norm.weight.data *= 4  # mean probability of what it samples about 0.7
        report("28 layers of 1,024", model, Reader(Prompts(tokenizer, "brief"), brief), queries=8, passes=4)


if __name__ == "__main__":
    main(sys.argv[1:])
