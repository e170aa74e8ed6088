"""Every random choice derives from a named seed, so no draw depends on the order of the others."""

import hashlib
import random


def derive(seed: int, *names: object) -> int:
    """A 63-bit seed for the choice called ``names`` under ``seed``; the same on every machine and Python version."""
    text = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: object) -> random.Random:
    """A generator of its own for the choice called ``names``, e.g. ``generator(0, "synthesis", question_id)``."""
    return random.Random(derive(seed, *names))
