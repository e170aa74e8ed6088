"""Judge and process reward model over the wire: answers that fail, and the job's own server."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from test_judgements import chat
from test_turn_scores import UPDATE, scorer

from tamtrl.errors import UserError
from tamtrl.settings import Resources
from tamtrl.turn_scores import server
from tamtrl.turn_scores.client import KEY, Client, Scored, probe
from tamtrl.turn_scores.updates import Update

GOOD = json.dumps(chat('{"score": 8}'))

# -- answers that fail -------------------------------------------------------------------------------------------------


@pytest.fixture
def endpoint():
    """A server on loopback whose answers a test decides: ``answer(number of the request, body)`` gives status, text and delay."""
    servers = []

    def start(answer: Callable[[int, dict], tuple[int, str, float]]):
        seen: list[dict] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                rank = self.headers.get("X-data-parallel-rank")
                seen.append({"path": self.path, "key": self.headers.get("Authorization"), "body": body, "rank": rank})
                status, text, delay = answer(len(seen), body)
                time.sleep(delay)
                if status == 0:
                    self.connection.close()  # as a server that dies
                    return
                try:
                    self.send_response(status)
                    self.end_headers()
                    self.wfile.write(text.encode())
                except OSError:
                    pass  # the client has given up

            def log_message(self, *arguments):
                pass

        one = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=one.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(one)
        return f"http://127.0.0.1:{one.server_port}/v1", seen

    yield start
    for one in servers:
        one.shutdown()
        one.server_close()


def ask(url: str, updates: list[Update], **changes) -> list[Scored]:
    async def all_of_them():
        client = Client(scorer(endpoint=url, **changes), url)
        try:
            return await asyncio.gather(*map(client.score, updates))
        finally:
            await client.close()

    return asyncio.run(all_of_them())


def updates(number: int) -> list[Update]:
    return [Update("Who?", "x", "", "", str(k)) for k in range(number)]


def test_good_answers_are_asked_for_once_and_remembered(endpoint):
    url, seen = endpoint(lambda number, body: (200, GOOD, 0.05))
    out = ask(url, updates(3) * 4)
    assert [one.score for one in out] == [0.8] * 12 and len(seen) == 3
    assert [one.requests for one in out] == [1] * 3 + [0] * 9 and all(one.end >= one.begin for one in out)
    assert {one["path"] for one in seen} == {"/v1/chat/completions"}


def test_a_question_goes_to_one_engine_of_the_server(endpoint):
    """Questions 0 to 4 of three engines, two turns each. With one engine there is nothing to say."""
    url, seen = endpoint(lambda number, body: (200, GOOD, 0))

    async def turns(ranks: int):
        client = Client(scorer(endpoint=url), url, ranks)
        for turn, question in enumerate([0, 1, 2, 3, 4] * 2):
            await client.score(updates(10)[turn], question)
        await client.close()

    asyncio.run(turns(3))
    assert [one["rank"] for one in seen] == ["0", "1", "2", "0", "1"] * 2
    asyncio.run(turns(1))
    assert {one["rank"] for one in seen[10:]} == {None}


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ((500, "overloaded\nsorry", 0), "status 500: overloaded sorry"),
        ((200, "<html>garbage</html>", 0), "not a score: '<html>garbage</html>' (no JSON)"),
        ((200, "", 0), "not a score: '' (no JSON)"),
        ((200, "[" * 100_000, 0), "(no JSON)"),  # nested deeper than a parser goes
        ((200, '{"score": ' + "9" * 5000 + "}", 0), "(no JSON)"),  # a number longer than Python reads
        ((200, " " * 2**20 + GOOD, 0), "(longer than 1048576 bytes)"),
        ((302, "moved", 0), "status 302: moved"),
        ((200, json.dumps(chat("excellent!")), 0), "('excellent!' is no whole number from 0 to 10)"),
        (
            (200, json.dumps({"choices": [{"message": {"content": None, "reasoning_content": "hm"}}]}), 0),
            "(the answer is None, not text)",
        ),
        ((200, GOOD, 1.5), "no answer within 0.5 s"),
        ((0, "", 0), "RemoteProtocolError"),
    ],
)
def test_a_failure_is_asked_again_once(endpoint, bad, error):
    limit = 0.5 if bad[2] else 30.0  # short only where the limit is what's tested: a busy machine is slow with a megabyte
    url, seen = endpoint(lambda number, body: bad if number == 1 else (200, GOOD, 0))
    (one,) = ask(url, updates(1), timeout_seconds=limit)
    assert one.score == 0.8 and one.requests == 2 and len(seen) == 2 and one.error == ""
    url, seen = endpoint(lambda number, body: bad)
    (one,) = ask(url, updates(1), timeout_seconds=limit)
    assert one.score is None and one.requests == 2 and len(seen) == 2 and error in one.error


def test_a_failure_is_not_remembered(endpoint):
    url, _ = endpoint(lambda number, body: (500, "", 0) if number <= 2 else (200, GOOD, 0))

    async def twice():
        client = Client(scorer(endpoint=url), url)
        out = [await client.score(UPDATE), await client.score(UPDATE)]
        await client.close()
        return out

    assert [one.score for one in asyncio.run(twice())] == [None, 0.8]


def test_nobody_listens():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        (one,) = ask(url, updates(1))
        assert one.score is None and "ConnectError" in one.error
        message = "The judge at http.* can't score a turn: ConnectError"
        with pytest.raises(RuntimeError, match=message), server.reachable(scorer(endpoint=url), None, None):
            pass


def test_no_more_requests_in_flight_than_allowed(endpoint):
    waiting, most = [], []

    def answer(number, body):
        waiting.append(number)
        most.append(len(waiting))
        time.sleep(0.05)
        waiting.remove(number)
        return 200, GOOD, 0

    url, _ = endpoint(answer)
    ask(url, updates(12), in_flight=3)
    assert 1 < max(most) <= 3


def test_the_key_comes_from_the_environment_and_goes_only_to_an_endpoint(endpoint, monkeypatch):
    url, seen = endpoint(lambda number, body: (200, GOOD, 0))
    ask(url, updates(1))
    monkeypatch.setenv(KEY, "secret-123")
    ask(url, updates(1))
    assert [one["key"] for one in seen] == [None, "Bearer secret-123"]
    # the job's own server needs none
    own = scorer(endpoint="")

    async def once():
        client = Client(own, url)
        await client.score(UPDATE)
        await client.close()

    asyncio.run(once())
    assert seen[-1]["key"] is None


def test_a_probe_says_what_is_wrong(endpoint):
    good, _ = endpoint(lambda number, body: (200, GOOD, 0))
    assert probe(scorer(endpoint=good), good) == ""
    strange, _ = endpoint(lambda number, body: (401, '{"error": "no key"}', 0))
    assert "status 401" in probe(scorer(endpoint=strange), strange)
    assert "InvalidURL" in probe(scorer(endpoint="http://host:port"), "http://host:port")


@pytest.mark.parametrize(
    ("endpoint_url", "message"),
    [("localhost:8000/v1", "must begin with http"), ("https://me:word@host/v1", "TAMTRL_JUDGE_KEY")],
)
def test_endpoints_that_are_refused(endpoint_url, message):
    with pytest.raises(UserError, match=message):
        scorer(endpoint=endpoint_url)


# -- the job's own server ----------------------------------------------------------------------------------------------


def test_vllm_accepts_the_servers_options():
    """By vLLM's own parser, for both devices and both kinds."""
    from vllm.entrypoints.openai.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = make_arg_parser(FlexibleArgumentParser())
    for kind in ("judge", "prm"):
        for where in (Resources("cpu", 1, 1, 2, 0), Resources("gpu", 8, 1, 64, 256)):
            command = server.command(scorer(kind=kind, path="somewhere", endpoint=""), where, "127.0.0.1", 8123)
            options = parser.parse_args(command[3:])
            assert options.model == "somewhere" and options.served_model_name == ["grader"] and options.max_model_len == 512
            if where.device == "gpu":
                assert options.gpu_memory_utilization == 0.3
                assert options.data_parallel_size == (8 if kind == "judge" else 1)


def test_the_servers_environment(monkeypatch):
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    gpu = Resources("gpu", 4, 1, 32, 128)
    assert "VERL_PLATFORM" not in server.environment(scorer(), gpu)
    assert server.environment(scorer(), gpu)["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"
    assert server.environment(scorer(kind="prm"), gpu)["CUDA_VISIBLE_DEVICES"] == "4"


def test_a_server_that_does_not_start_says_why(tmp_path):
    missing = scorer(endpoint="", path=str(tmp_path / "nothing"))
    with (
        pytest.raises(RuntimeError, match=r"The judge did not start: .*Error"),
        server.serve(missing, Resources("cpu", 1, 1, 2, 0), tmp_path / "scorer.log"),
    ):
        pass


HEALTHY = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.mark.parametrize(
    ("inside", "expected", "absent"),
    [
        ("raise ValueError('training failed')", "ValueError: training failed", "server"),
        ("os.kill(children()[0].pid, 9); time.sleep(30)", "RuntimeError: The judge's server was killed by signal 9", "slept"),
    ],
)
def test_who_ended_first_is_the_cause(tmp_path, inside, expected, absent):
    """A training that fails stops its server, and must not then be told that the server has failed."""
    code = f"""
import os, sys, time
from pathlib import Path
import psutil
from test_turn_scores import scorer
from tamtrl.settings import Resources
from tamtrl.turn_scores import server
children = lambda: psutil.Process().children()
server.command = lambda scorer, resources, host, port: [sys.executable, "-c", {HEALTHY!r}, str(port)]
with server.serve(scorer(endpoint=""), Resources("cpu", 1, 1, 2, 0), Path({str(tmp_path)!r}) / "scorer.log"):
    {inside}
    print("slept", file=sys.stderr)
"""
    folder = Path(__file__).parent
    paths = os.pathsep.join(map(str, (folder, folder.parent)))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths}, timeout=120
    )
    assert done.returncode == 1 and done.stderr.strip().splitlines()[-1].startswith(expected), done.stderr
    assert absent not in done.stderr.strip().splitlines()[-1]
