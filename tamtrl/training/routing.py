"""Which engine reads which question: all rollouts of a question go to one, where its first section is read once for all of them
(prefix caching), and questions are dealt round. verl's own balancer sends each rollout where there is least to do, and a group is
scattered over most engines. Loaded through verl's ``rollout.router_config_path`` (config/router.yaml)."""

from typing import Any

from verl.workers.rollout.router import GlobalRequestLoadBalancer


class QuestionsDealtRound(GlobalRequestLoadBalancer):
    """Requests are called by their question (agent_loop.py). Any number of questions in a row puts on no engine more than one
    above the mean."""

    def __init__(self, servers: dict[str, Any], config: dict) -> None:
        super().__init__(servers)
        self._dealt = 0
        self._pairs: set[tuple[str, str]] = set()

    def acquire_server(self, request_id: str) -> tuple[str, Any]:
        if request_id not in self._request_id_to_server and self._servers:
            servers = list(self._servers)
            self._request_id_to_server[request_id] = servers[self._dealt % len(servers)]
            self._dealt += 1
        server_id, handle = super().acquire_server(request_id)
        self._pairs.add((request_id, server_id))
        return server_id, handle

    def pairs(self, step: int) -> int:
        """How many pairs of a question of this step and an engine there were; as many as questions, if groups stay together."""
        found = sum(question.startswith(f"{step}-") for question, _ in self._pairs)
        self._pairs.clear()
        return found
