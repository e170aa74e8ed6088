"""What a data file is wrapped in: compressed or in an archive, told by its content and not by its name. Everything is read to its
end, where checksums stand: until then damaged text looks like other text."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tamtrl.errors import UserError

TEXT = (".json", ".jsonl", ".txt")
COMPRESSED = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
FOREIGN = {b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive", b"Rar!": "a RAR archive", b"\x28\xb5\x2f\xfd": "compressed with Zstandard"}
DESCRIPTIONS = ("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "id_aliases.json")
BLOCK = 1 << 20


def damaged(where: str | Path, error: Exception) -> UserError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return UserError(f"{where} is damaged ({reason}); is the download complete?")


class _Guarded(io.RawIOBase):
    """A stream whose faults are one sentence. Decompressors raise a dozen unrelated types for damaged input."""

    def __init__(self, inner: BinaryIO, where: str):
        self.inner, self.where = inner, where

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        try:
            block = self.inner.read(len(buffer))
        except Exception as error:
            raise damaged(self.where, error) from None
        buffer[: len(block)] = block
        return len(block)


def head(path: Path, size: int = 512) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(size)
    except OSError as error:
        raise UserError(f"{path} can't be read ({error.strerror}).") from None


@dataclass(frozen=True)
class Archive:
    """``member`` gives the bytes of one; ``folders`` and ``links`` have none of their own."""

    names: list[str]
    folders: list[str]
    links: list[str]
    member: Callable[[str], BinaryIO]


@contextmanager
def opened(path: Path, member: str | None = None) -> Iterator[tuple[str, io.BufferedReader]]:
    """What a file holds, decompressed, and where it stands. Of an archive: one ``member``, the only data file when None.

    Whoever reads the stream to its end has its checksum verified; tar archives are verified here.
    """
    with ExitStack() as stack:
        inner, where = _unwrapped(stack, path), str(path)
        if isinstance(inner, Archive):
            name = _choose(path, inner, member)
            inner, where = inner.member(name), f"{path}:{name}"
        yield where, stack.enter_context(io.BufferedReader(_Guarded(inner, where), BLOCK))


def members(path: Path) -> list[str]:
    """What an archive or a folder holds; nothing where it is neither."""
    if path.is_dir():
        return sorted(p.relative_to(path).as_posix() for p in path.rglob("*"))
    if not path.exists():
        return []
    with ExitStack() as stack:
        inner = _unwrapped(stack, path)
        return inner.names if isinstance(inner, Archive) else []


def _unwrapped(stack: ExitStack, path: Path) -> BinaryIO | Archive:
    start = head(path)
    for magic, what in FOREIGN.items():
        if start.startswith(magic):
            raise UserError(f"{path} is {what}, which isn't read here; unpack it and give what it holds.")
    if start.startswith(ZIP):
        return _zip(stack, path)
    stream: BinaryIO = stack.enter_context(path.open("rb"))
    for magic, opener in COMPRESSED.items():
        if start.startswith(magic):
            stream = stack.enter_context(opener(stream))
    try:
        start = stream.read(512)
        stream.seek(0)
    except Exception as error:
        raise damaged(path, error) from None
    return _tar(stack, stream, path) if start[257:262] == b"ustar" else stream


def _zip(stack: ExitStack, path: Path) -> Archive:
    try:
        archive = stack.enter_context(zipfile.ZipFile(path))
        entries = {info.filename.rstrip("/"): info for info in archive.infolist()}
        folders = [name for name, info in entries.items() if info.is_dir()]
        links = [name for name, info in entries.items() if info.external_attr >> 28 == 0xA]  # S_IFLNK; nothing follows it here
    except Exception as error:
        raise damaged(path, error) from None

    def open_member(name: str) -> BinaryIO:
        info = entries[name]
        if info.flag_bits & 1:
            raise UserError(f"{path}:{name} is encrypted; unpack it with its password and give what it holds.")
        try:
            return stack.enter_context(archive.open(info))
        except NotImplementedError:
            kind = zipfile.compressor_names.get(info.compress_type, f"method {info.compress_type}")
            raise UserError(f"{path}:{name} is compressed with {kind}, which isn't read here; unpack it.") from None
        except Exception as error:
            raise damaged(f"{path}:{name}", error) from None

    return Archive(list(entries), folders, links, open_member)


def _tar(stack: ExitStack, stream: BinaryIO, path: Path) -> Archive:
    try:
        archive = stack.enter_context(tarfile.TarFile(fileobj=stream))
        entries = {info.name: info for info in archive.getmembers()}
        # The list ends well with a block of zeros, badly with whatever isn't a header. Behind it stands the checksum.
        stream.seek(archive.offset)
        end = stream.read(512)
        while stream.read(BLOCK):
            pass
        if end.strip(b"\0") or not end:
            raise tarfile.ReadError("its list of members breaks off")
    except Exception as error:
        raise damaged(path, error) from None

    def open_member(name: str) -> BinaryIO:
        try:
            return archive.extractfile(entries[name])
        except KeyError:
            raise UserError(f"{path}:{name} is a link to {entries[name].linkname}, which the archive does not hold.") from None
        except Exception as error:
            raise damaged(f"{path}:{name}", error) from None

    folders = [name for name, info in entries.items() if not (info.isfile() or info.issym() or info.islnk())]
    return Archive(list(entries), folders, [], open_member)


def _choose(path: Path, archive: Archive, member: str | None) -> str:
    """The wanted member's name. Where several could be meant, they are listed and none is taken."""
    data = [name for name in archive.names if name.endswith(TEXT) and not hidden(Path(name)) and name not in archive.folders]
    chosen = data if member is None else [name for name in archive.names if name == member or name.endswith(f"/{member}")]
    if not chosen:
        raise UserError(f"{path} holds no {member or 'data file'}; there are {', '.join(data[:20]) or 'no data files'}.")
    if len(chosen) > 1:
        raise UserError(f"{path} holds {', '.join(chosen[:20])}; say which with `member`.")
    (name,) = chosen
    if name in archive.folders or name in archive.links:
        kind = "folder" if name in archive.folders else "link"
        raise UserError(f"{path}:{name} is a {kind}, not a file; say with `member` which file to take.")
    return name


def hidden(name: Path) -> bool:
    """What isn't records: what archivers and hubs add for themselves (._name, .cache, __MACOSX) and descriptions of data."""
    return any(part.startswith((".", "__MACOSX")) for part in name.parts) or name.name in DESCRIPTIONS
