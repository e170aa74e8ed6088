"""HotpotQA records, official or the hub's layout, and 2WikiMultihopQA's, which have the same keys.

Only the distractor setting will do: the teacher needs the annotated supporting paragraphs, and in the fullwiki setting
they are often missing from the context.
"""

import warnings

from tamtrl.errors import UserError
from tamtrl.tasks.questions import Question


def parse(record: object, where: str) -> Question:
    """One record of either layout. ``where`` starts every error message."""
    try:
        identifier = record.get("_id") or record["id"]
        context, facts = record["context"], record["supporting_facts"]
        # The hub keeps dicts of lists where the official file has lists of pairs.
        if isinstance(context, dict):
            context = list(zip(context["title"], context["sentences"], strict=True))
        if isinstance(facts, dict):
            facts = list(zip(facts["title"], facts["sent_id"], strict=True))
        titles = {title for title, _ in facts}
        question, answer = record["question"].strip(), record["answer"].strip()
        # Sentences carry their own leading space, and some are empty: join with nothing between them.
        paragraphs = tuple(f"{title}\n{''.join(sentences)}" for title, sentences in context)
        lengths = {title: max(len(s) for t, s in context if t == title) for title, _ in context}
        beyond = any(number >= lengths.get(title, number + 1) for title, number in facts)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{where} is not a labelled HotpotQA record ({type(error).__name__}: {error}); the fields question, answer, "
            "context and supporting_facts are needed."
        ) from None
    # Titles are compared as they stand: HTML entities occur in both places alike.
    missing = sorted(titles - set(lengths))
    if missing:
        raise UserError(
            f"{where}: question {identifier} lacks its supporting paragraph {missing[0]!r}. This looks like the fullwiki "
            "setting; give the distractor file (hotpot_train_v1.1.json, hotpot_dev_distractor_v1.json)."
        )
    if not titles:
        raise UserError(f"{where}: question {identifier} has no supporting facts.")
    if beyond:  # said once, by Python's own filter
        warnings.warn(
            "Some supporting facts name a sentence that their paragraph does not have. Whole paragraphs are used, so "
            "nothing is lost.",
            stacklevel=1,
        )
    # Facts name titles. One that stands twice in a context can't be told apart by them: both paragraphs support.
    supporting = frozenset(index for index, (title, _) in enumerate(context) if title in titles)
    return Question(str(identifier), question, (answer,), paragraphs, supporting)
