"""What a scheduler or a container lets this process use of the machine: limits of its control groups, of version 1 or 2."""

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's groups and of all their parents. In a container the outermost is the container's own, and
    those within have other paths than the kernel says."""
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            top = root / "sys/fs/cgroup" / controllers  # version 2 names no controller, and has one tree for all
            inner = top / path.strip("/")
            yield from (folder for folder in (inner, *inner.parents) if folder.is_relative_to(top))


def _words(file: Path) -> list[str]:
    with suppress(OSError):
        return file.read_text(encoding="utf-8").split()
    return []


def memory(root: Path = Path("/")) -> tuple[int, Path] | None:
    """The lowest limit in bytes, and the file that sets it. (Version 1 writes no limit as a number larger than any machine.)"""
    limits = []
    for group in _groups(root, "memory"):
        for file in (group / "memory.max", group / "memory.limit_in_bytes"):
            limits += [(int(word), file) for word in _words(file) if word != "max"]
    return min(limits, default=None)


def cores(root: Path = Path("/")) -> int | None:
    """How many cores' time a quota allows at least, a part of one counted whole."""
    limits = []
    for group in _groups(root, "cpu"):
        one = _words(group / "cpu.max") or _words(group / "cpu.cfs_quota_us") + _words(group / "cpu.cfs_period_us")
        if len(one) == 2 and one[0] not in ("max", "-1"):
            limits.append(math.ceil(int(one[0]) / int(one[1])))
    return min(limits, default=None)
