"""Fetching over a real HTTP server on loopback that can misbehave."""

import hashlib
import http.server
import threading

import pytest
import yaml
from conftest import REPOSITORY

from tamtrl.errors import UserError
from tamtrl.tasks import sources

CONTENT = bytes(range(256)) * 4000
SHA = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """/file as asked for, ranges too; /other, /page, /broken (stops half way, once), /short (always), /gone."""

    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("Range")))
        name = self.path.strip("/")
        if name == "gone":
            return self.send_error(404)
        if name == "page":
            return self._send(200, b"<html>quota exceeded</html>", kind="text/html; charset=utf-8")
        body = CONTENT[::-1] if name == "other" else CONTENT
        start = 0
        if ranged := self.headers.get("Range"):
            start = int(ranged.removeprefix("bytes=").rstrip("-"))
            if start >= len(body):
                return self._send(416, b"")
        half = name == "short" or (name == "broken" and not ranged)
        self._send(206 if ranged else 200, body[start:], cut=len(body[start:]) // 2 if half else None)

    def _send(self, status, body, kind="application/octet-stream", cut=None):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:cut])

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(sources.time, "sleep", lambda seconds: None)
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.asked = []
    threading.Thread(target=running.serve_forever, daemon=True).start()
    running.url = f"http://127.0.0.1:{running.server_port}"
    yield running
    running.shutdown()
    running.server_close()


def fetch(server, output, *names, said=None):
    sources.fetch_file([f"{server.url}/{name}" for name in names], SHA, output, (said if said is not None else []).append)


def test_fetched_and_checked(server, tmp_path):
    said = []
    fetch(server, tmp_path / "raw" / "a.bin", "file", said=said)
    assert (tmp_path / "raw" / "a.bin").read_bytes() == CONTENT and "sha256 as pinned" in said[-1]
    assert [p.name for p in (tmp_path / "raw").iterdir()] == ["a.bin"]


def test_a_broken_download_goes_on_where_it_stopped(server, tmp_path):
    fetch(server, tmp_path / "a.bin", "broken")
    assert (tmp_path / "a.bin").read_bytes() == CONTENT
    (_, first), (_, second) = server.asked
    assert first is None and 0 < int(second.strip("bytes=-")) <= len(CONTENT) // 2
    # and in a later call, what was complete but not yet checked
    (tmp_path / "a.bin").rename(tmp_path / ".partial.a.bin")
    fetch(server, tmp_path / "a.bin", "file")
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("left", [b"the beginning of another version", CONTENT[:-1] + b"x"])
def test_what_a_wrong_address_left_does_not_spoil_the_right_one(server, tmp_path, left):
    (tmp_path / ".partial.a.bin").write_bytes(left)
    fetch(server, tmp_path / "a.bin", "file")
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


@pytest.mark.trap(1, 4)
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone", "HTTP 404"),
        ("page", "it sent a web page"),
        ("other", r"its sha256 is [0-9a-f]{12}…, not [0-9a-f]{12}…: another version, or damaged"),
    ],
)
def test_what_is_not_the_file_is_refused_and_the_next_address_tried(server, tmp_path, name, message):
    with pytest.raises(UserError, match=rf"Could not fetch a.bin. .*{message}.*--config NAME=FILE"):
        fetch(server, tmp_path / "a.bin", name)
    assert list(tmp_path.iterdir()) == []
    fetch(server, tmp_path / "a.bin", name, "file")
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


@pytest.mark.trap(1)
def test_a_truncated_file_never_appears(server, tmp_path):
    with pytest.raises(UserError, match="after 3 attempts"):
        fetch(server, tmp_path / "a.bin", "short")
    assert [p.name for p in tmp_path.iterdir()] == [".partial.a.bin"]
    fetch(server, tmp_path / "a.bin", "file")
    assert server.asked[-1][1] is not None and (tmp_path / "a.bin").read_bytes() == CONTENT


@pytest.mark.trap(1)
def test_an_address_that_does_not_answer(server, tmp_path):
    server.shutdown()
    server.server_close()
    with pytest.raises(UserError, match="ConnectionError after 3 attempts"):
        fetch(server, tmp_path / "a.bin", "file")


def test_every_source_is_pinned():
    listed = yaml.safe_load((REPOSITORY / "config" / "sources.yaml").read_text())
    for name, source in listed.items():
        assert len(source["sha256"]) == 64, name
        # what lies on the hub, by commit and not by branch
        assert not any("huggingface.co" in url and "/resolve/main/" in url for url in source["urls"]), name
