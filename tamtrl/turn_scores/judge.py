"""The LLM judge: its prompt, the form of its request, and how a grade becomes a score.

The prompt is ours: the paper's isn't public. It shows neither the gold answer nor which paragraphs are relevant: the paper
doesn't say that its judge was told. What the rollouts of a question share stands first, so that its server reads it once.
Grades are whole numbers, so that a grammar can list all of them.
"""

from collections.abc import Callable
from typing import Any

from tamtrl.reading.texts import break_up_anything
from tamtrl.settings import Scorer
from tamtrl.turn_scores.grades import BEST, grade
from tamtrl.turn_scores.updates import Update

ROUTE = "/chat/completions"
PROMPT = """\
A reader answers a question about a long text that it reads section by section. It keeps only a short memory, which it \
rewrites after each section; what it does not write down is lost. Grade one rewriting of the memory.

Question: {question}

Section:
{section}

Memory before:
{before}

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


def prompt(update: Update, break_up: Callable[[str], str] = break_up_anything) -> str:
    """``break_up`` puts spaces into control tokens that a text spells out: the judge's server would take them for its own. What
    they are its tokenizer says (``Texts.broken_up``), where that is at hand; ``<|``, which begins those of most, in any case."""
    texts = {name: break_up(getattr(update, name)).replace("<|", "< |") for name in ("question", "before", "section", "after")}
    return PROMPT.format(**texts)


def body(update: Update, scorer: Scorer, break_up: Callable[[str], str] = break_up_anything) -> dict:
    """A chat request in OpenAI's form; greedy, and held to the schema."""
    return {
        "model": scorer.model,
        "messages": [{"role": "user", "content": prompt(update, break_up)}],
        "temperature": 0,
        "max_tokens": scorer.answer_tokens,
        "response_format": {"type": "json_schema", "json_schema": {"name": "grade", "schema": SCHEMA, "strict": True}},
        **scorer.request,
    }


def score(reply: Any) -> float:
    """grade / 10, in [0, 1], of the answer's only choice. Raises ValueError, which says what it is, for anything else."""
    try:
        (choice,) = reply["choices"]
        content = choice["message"]["content"]
    except (KeyError, TypeError, ValueError, IndexError):
        raise ValueError("it has not one choice with a message") from None
    return grade(content, cut=choice.get("finish_reason") == "length") / BEST
