"""Fetching pinned files: data by address and sha256, models by revision from the Hugging Face hub. Nothing else in the package
touches the network."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tamtrl.errors import UserError
from tamtrl.files import sha256

if TYPE_CHECKING:
    from requests import Response

ATTEMPTS = 3  # at each address, when a connection breaks off
TIMEOUT = (20, 120)  # seconds to connect, and without a byte


class Refused(Exception):
    """What an address gave is not the file; another address may do better."""


def fetch_file(urls: list[str], expected: str, output: Path, say: Callable[[str], None]) -> None:
    """Download ``output`` from the first address that has it. It appears only whole and with the expected sha256.

    A broken download is kept beside it and continued, by another address if need be.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(f".partial.{output.name}")
    reasons = []
    for url in urls:
        try:
            continued = partial.exists()
            _download(url, partial, say)
            if continued and sha256(partial) != expected:
                say(f"What an earlier attempt left of {output.name} does not fit; from the beginning.")
                partial.unlink()
                _download(url, partial, say)
            if (found := sha256(partial)) != expected:
                partial.unlink()
                raise Refused(f"its sha256 is {found[:12]}…, not {expected[:12]}…: another version, or damaged on the way")
            partial.rename(output)
            say(f"{output.name}: {output.stat().st_size:,} bytes from {url}, sha256 as pinned")
            return
        except Refused as reason:
            reasons.append(f"{url}: {reason}")
            say(reasons[-1])
    raise UserError(
        f"Could not fetch {output.name}. {'; '.join(reasons)}. Download it elsewhere and give it with `--config NAME=FILE` "
        "(names: config/sources.yaml)."
    )


def _download(url: str, partial: Path, say: Callable[[str], None]) -> None:
    """Fill ``partial`` from ``url``, going on where an earlier attempt stopped."""
    import requests

    for attempt in range(1, ATTEMPTS + 1):
        start = partial.stat().st_size if partial.exists() else 0
        headers = {"Range": f"bytes={start}-", "Accept-Encoding": "identity"} if start else {"Accept-Encoding": "identity"}
        try:
            with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
                if answer.status_code == 416:  # nothing is left to send
                    return
                if not answer.ok:
                    raise Refused(f"HTTP {answer.status_code} {answer.reason}")
                if answer.headers.get("Content-Type", "").startswith("text/html"):
                    raise Refused("it sent a web page (an error, a licence or a quota notice), not the file")
                continues = answer.status_code == 206
                _save(answer, partial, start if continues else 0, say)
                return
        except requests.RequestException as error:
            if attempt == ATTEMPTS:
                raise Refused(f"{type(error).__name__} after {ATTEMPTS} attempts") from None
            time.sleep(attempt)


def _save(answer: "Response", partial: Path, start: int, say: Callable[[str], None]) -> None:
    """Append to (or begin) ``partial``; a body shorter than promised raises in requests, and is continued later."""
    total = start + int(answer.headers.get("Content-Length", 0))
    done, spoken = start, time.monotonic()
    with partial.open("ab" if start else "wb") as stream:
        for block in answer.iter_content(1 << 16):
            stream.write(block)
            done += len(block)
            if time.monotonic() - spoken > 10:
                spoken = time.monotonic()
                say(f"{done / 2**20:,.0f} of {total / 2**20:,.0f} MiB" if total else f"{done / 2**20:,.0f} MiB")


def fetch_model(repository: str, revision: str, patterns: list[str], output: Path) -> None:
    """Download the matching files of one revision into the folder ``output``, which appears only when complete.

    An interrupted download continues where it stopped.
    """
    from huggingface_hub import snapshot_download

    partial = output.with_name(f".partial.{output.name}")
    try:
        snapshot_download(repository, revision=revision, allow_patterns=patterns, local_dir=partial)
    except Exception as error:  # the hub's client raises a dozen unrelated types
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"Could not fetch {repository} at {revision[:8]} from the hub ({type(error).__name__}: {reason}). On a machine "
            "without network, fetch it elsewhere and give its folder as `path:` in models.yaml."
        ) from None
    shutil.rmtree(partial / ".cache", ignore_errors=True)
    if not any(partial.rglob("*")):
        raise UserError(f"{repository} at {revision[:8]} has no file matching {', '.join(patterns)}.")
    if output.exists():
        shutil.rmtree(output)
    partial.rename(output)
