"""Questions and engines."""

import collections
import random

from tamtrl.training.routing import QuestionsDealtRound


def test_groups_stay_together_and_questions_are_dealt_round():
    """10 questions x 8 rollouts x 4 turns in any order over 4 engines: 3 questions at most on one, 2 at least, in each step."""
    router, draw = QuestionsDealtRound({f"engine {n}": n for n in range(4)}, {}), random.Random(0)
    for step in (1, 2):
        requests = [f"{step}-{question}" for question in range(10) for _ in range(32)]
        draw.shuffle(requests)
        engines = collections.defaultdict(set)
        for request in requests:
            engine, handle = router.acquire_server(request)
            assert engine == f"engine {handle}"
            engines[request].add(engine)
            if draw.random() < 0.5:
                router.release_server(engine)
        assert all(len(own) == 1 for own in engines.values())
        assert sorted(collections.Counter(engine for own in engines.values() for engine in own).values()) == [2, 2, 3, 3]
        router.acquire_server("of a validation")
        assert router.pairs(step) == 10 and router.pairs(step) == 0
