"""What `tamtrl` can do: one module a stage, and in it each verb's arguments above the function that does it. What a verb needs is
imported in its function: `tamtrl --help`, and the refusal of a mistyped option, must not wait for torch."""

from tamtrl.commands import data, evaluation, models, paper, planning, record, training
from tamtrl.commands.declare import VERBS, Verb

# In the order of the work.
STAGES = {
    "planning": planning,
    "data": data,
    "models": models,
    "training": training,
    "evaluation": evaluation,
    "tables and figures": paper,
    "record and archive": record,
}


def by_stage() -> dict[str, list[Verb]]:
    """Verbs under the headings of `tamtrl --help`, in the order in which their files declare them."""
    return {
        heading: [verb for verb in VERBS.values() if verb.call.__module__ == module.__name__]
        for heading, module in STAGES.items()
    }
