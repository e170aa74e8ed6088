"""Fetching pinned files from the Hugging Face hub. Nothing else in the package touches the network."""

import shutil
from pathlib import Path

from tamtrl.errors import UserError


def fetch_hub(repository: str, revision: str, patterns: list[str], output: Path, kind: str) -> None:
    """Download the matching files of one revision into the folder ``output``, which appears only when complete.

    ``kind`` is model or dataset. An interrupted download continues where it stopped.
    """
    from huggingface_hub import snapshot_download

    partial = output.with_name(f".partial.{output.name}")
    try:
        snapshot_download(repository, repo_type=kind, revision=revision, allow_patterns=patterns, local_dir=partial)
    except Exception as error:  # the hub's client raises a dozen unrelated types
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"Could not fetch {repository} at {revision[:8]} from the hub ({type(error).__name__}: {reason}). On a machine "
            "without network, fetch it elsewhere and give its folder: models.yaml takes `path:`, data takes `source:`."
        ) from None
    shutil.rmtree(partial / ".cache", ignore_errors=True)
    if not any(partial.rglob("*")):
        raise UserError(f"{repository} at {revision[:8]} has no file matching {', '.join(patterns)}.")
    if output.exists():
        shutil.rmtree(output)
    partial.rename(output)
