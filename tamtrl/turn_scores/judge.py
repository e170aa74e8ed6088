"""The LLM judge: its prompt, the form of its answer, and how a grade becomes a score.

The prompt is ours: the paper's isn't public. It shows neither the gold answer nor which paragraphs are relevant: the paper
doesn't say that its judge was told. Grades are whole numbers, so that a grammar can list all of them.
"""

import json

from tamtrl.settings import Scorer
from tamtrl.turn_scores.updates import Update

ROUTE = "/chat/completions"
BEST = 10
PROMPT = """\
A reader answers a question about a long text that it reads section by section. It keeps only a short memory, which it \
rewrites after each section; what it does not write down is lost. Grade one rewriting of the memory.

Question: {question}

Memory before:
{before}

Section:
{section}

Memory after:
{after}

Does the memory after keep what the memory before held that may help to answer, add what the section tells that may \
help, say nothing that neither of them says, and leave out what can't help? 10: nothing useful is missing and nothing is \
wrong. 5: something useful is missing, or something is doubtful. 0: useful information was lost, or replaced by \
something false. If the section tells nothing useful, a memory that stays as it was deserves 10.

Grade from 0 to 10, as JSON: {{"score": grade}}"""
SCHEMA = {
    "type": "object",
    "properties": {"score": {"enum": list(range(BEST + 1))}},
    "required": ["score"],
    "additionalProperties": False,
}


def prompt(update: Update) -> str:
    """Chat control tokens that a text spells out are broken up: the judge's server would take them for its own."""
    texts = {name: getattr(update, name).replace("<|", "< |") for name in ("question", "before", "section", "after")}
    return PROMPT.format(**texts)


def body(update: Update, scorer: Scorer) -> dict:
    """A chat request in OpenAI's form; greedy, and held to the schema."""
    return {
        "model": scorer.model,
        "messages": [{"role": "user", "content": prompt(update)}],
        "temperature": 0,
        "max_tokens": scorer.answer_tokens,
        "response_format": {"type": "json_schema", "json_schema": {"name": "grade", "schema": SCHEMA, "strict": True}},
        **scorer.request,
    }


def score(reply: dict) -> float:
    """grade / 10, in [0, 1]. Raises ValueError, KeyError, TypeError or IndexError for anything else than a grade."""
    grade = json.loads(reply["choices"][0]["message"]["content"])["score"]
    if isinstance(grade, bool) or grade not in range(BEST + 1):
        raise ValueError(f"grade {grade!r} is not a whole number from 0 to {BEST}")
    return grade / BEST
