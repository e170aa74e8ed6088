"""What a data file is wrapped in: compressed or in an archive, told by its content and not by its name. Everything is read to its
end, where checksums stand: until then damaged text looks like other text."""

import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from tamtrl.errors import UserError, shown
from tamtrl.tasks.compression import BZIP2, decompressed
from tamtrl.tasks.folders import PACKED, files, foreign, hidden, is_folder, listed

TEXT = (".json", ".jsonl", ".ndjson", ".txt")
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
PARQUET = b"PAR1"
FOREIGN = {
    b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive",
    b"Rar!\x1a\x07": "a RAR archive",
    b"\x28\xb5\x2f\xfd": "compressed with Zstandard",
}
PACKED_AGAIN = (*ZIP, *FOREIGN, PARQUET, b"\x1f\x8b", *BZIP2, b"\xfd7zXZ\x00")
BLOCK = 1 << 20
MAX_MEMBERS = 100_000
MAX_HEADER = 1 << 24  # bytes of one member's name and the like


def damaged(where: str | Path, error: BaseException) -> UserError:
    """One sentence about what went wrong in ``where``; sentences stay as they are."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, MemoryError):
        return UserError(f"{where} takes more memory than there is; is it what it should be?")
    reason = " ".join(str(error).split()) or type(error).__name__
    return UserError(f"{where} is damaged ({shown(reason, 300)}); is the download complete?")


class _Guarded(io.RawIOBase):
    """A stream whose faults are one sentence. Decompressors raise a dozen unrelated types for damaged input."""

    def __init__(self, inner: io.BufferedIOBase | IO[bytes], where: str):
        self.inner, self.where = inner, where

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            block = self.inner.read(len(buffer))
        except Exception as error:
            raise damaged(self.where, error) from None
        buffer[: len(block)] = block
        return len(block)


class _Headers(io.BufferedReader):
    """A tar archive whose headers may not ask for more memory than ``MAX_HEADER``."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > MAX_HEADER:
            raise tarfile.ReadError(f"one of its headers has {size} bytes")
        return super().read(size)


def head(path: Path, size: int = 512) -> bytes:
    is_folder(path)  # a pipe would be waited for
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
    member: Callable[[str], IO[bytes]]


@contextmanager
def opened(path: Path, member: str | None = None) -> Iterator[tuple[str, str, io.BufferedReader]]:
    """Where a file's content stands, how it is called, and itself, decompressed. Of an archive: one ``member``, the only data
    file when None.

    Whoever reads the stream to its end has its checksum verified; tar archives are verified here.
    """
    with ExitStack() as stack:
        inner: io.BufferedIOBase | IO[bytes] | Archive = _unwrapped(stack, path)
        where, name = str(path), path.name
        if isinstance(inner, Archive):
            name = _choose(path, inner, member)
            inner, where = inner.member(name), f"{path}:{shown(name, 200)}"
        else:
            same_name(path, member)
        stream: io.BufferedReader = stack.enter_context(io.BufferedReader(_Guarded(inner, where), BLOCK))
        if where != str(path) and stream.peek(16).startswith(PACKED_AGAIN):
            raise UserError(
                f"{where} is parquet or packed once more, which isn't read here; unpack {path.name} and give that file."
            )
        yield where, name, stream


def same_name(path: Path, member: str | None) -> None:
    """Refuse a ``member`` of what is no archive, unless it is the file's own name: another split would be read in its place."""
    own = path.name
    if member is None or PurePosixPath(member).name in (own, *(own.removesuffix(suffix) for suffix in PACKED)):
        return
    raise UserError(f"{path} is one file and not {shown(member, 100)}; give that file, its folder or an archive with it.")


def members(path: Path) -> list[str]:
    """What an archive or a folder holds; nothing where it is neither."""
    if is_folder(path):
        return [file.relative_to(path).as_posix() for file in files(path)]
    with ExitStack() as stack:
        inner = _unwrapped(stack, path)
        return [name for name in inner.names if not foreign(PurePosixPath(name))] if isinstance(inner, Archive) else []


def _unwrapped(stack: ExitStack, path: Path) -> io.BufferedIOBase | Archive:
    start = head(path)
    for magic, what in FOREIGN.items():
        if start.startswith(magic):
            raise UserError(f"{path} is {what}, which isn't read here; unpack it and give what it holds.")
    if start.startswith(ZIP):
        return _zip(stack, path)
    stream = stack.enter_context(decompressed(stack.enter_context(path.open("rb")), start))
    try:
        start = stream.read(512)
        stream.seek(0)
    except Exception as error:
        raise damaged(path, error) from None
    return _tar(stack, stream, path) if start[257:262] == b"ustar" else stream


def _zip(stack: ExitStack, path: Path) -> Archive:
    try:
        archive = stack.enter_context(zipfile.ZipFile(path))
        names = [info.filename.rstrip("/") for info in archive.infolist()]
        entries = dict(zip(names, archive.infolist(), strict=True))
        folders = [name for name, info in entries.items() if info.is_dir()]
        links = [name for name, info in entries.items() if info.external_attr >> 28 == 0xA]  # S_IFLNK; nothing follows it here
    except Exception as error:
        raise damaged(path, error) from None

    def open_member(name: str) -> IO[bytes]:
        info, where = entries[name], f"{path}:{shown(name, 200)}"
        if info.flag_bits & 1:
            raise UserError(f"{where} is encrypted; unpack it with its password and give what it holds.")
        try:
            return stack.enter_context(archive.open(info))
        except NotImplementedError:
            methods = getattr(zipfile, "compressor_names", {})  # undocumented
            method = methods.get(info.compress_type, f"method {info.compress_type}")
            raise UserError(f"{where} is compressed with {method}, which isn't read here; unpack it.") from None
        except Exception as error:
            raise damaged(where, error) from None

    return Archive(names, folders, links, open_member)


def _tar(stack: ExitStack, stream: io.BufferedIOBase, path: Path) -> Archive:
    entries: dict[str, tarfile.TarInfo] = {}
    names = []
    try:
        headers = _Headers(stream)
        archive = stack.enter_context(tarfile.TarFile(fileobj=headers))
        for info in archive:
            entries[info.name] = info
            names.append(info.name)
            if len(names) > MAX_MEMBERS:
                raise UserError(f"{path} has more than {MAX_MEMBERS:,} members; unpack it and give the file that is meant.")
        # The list ends well with a block of zeros, badly with whatever isn't a header. Behind it stands the checksum.
        headers.seek(archive.offset)
        end = headers.read(512)
        while headers.read(BLOCK):
            pass
        if end.strip(b"\0") or not end:
            raise tarfile.ReadError("its list of members breaks off")
    except Exception as error:
        raise damaged(path, error) from None

    def open_member(name: str) -> IO[bytes]:
        where = f"{path}:{shown(name, 200)}"
        try:
            inner = archive.extractfile(entries[name])
        except KeyError:
            target = shown(entries[name].linkname, 200)
            raise UserError(f"{where} is a link to {target}, which the archive does not hold.") from None
        except RecursionError:
            raise UserError(f"{where} is a link to itself; say with `member` which file to take.") from None
        except Exception as error:
            raise damaged(where, error) from None
        if inner is None:
            raise UserError(f"{where} is a link to a folder, not a file; say with `member` which file to take.")
        return inner

    folders = [name for name, info in entries.items() if not (info.isfile() or info.issym() or info.islnk())]
    return Archive(names, folders, [], open_member)


def _choose(path: Path, archive: Archive, member: str | None) -> str:
    """The wanted member's name. Where several could be meant, they are listed and none is taken."""
    held = [name for name in archive.names if name not in archive.folders and not foreign(PurePosixPath(name))]
    data = [name for name in held if name.lower().endswith(TEXT) and not hidden(PurePosixPath(name))]
    if member is None:
        chosen = data
    else:
        chosen = [name for name in archive.names if name == member]
        chosen = chosen or [name for name in archive.names if name.endswith(f"/{member}") and not foreign(PurePosixPath(name))]
    if not chosen:
        raise UserError(f"{path} holds no {shown(member, 100) if member else 'data file'}; it holds {listed(data or held, 20)}.")
    if len(chosen) > 1:
        raise UserError(f"{path} holds {listed(chosen, 20)}; say which with `member`.")
    (name,) = chosen
    if name in archive.folders or name in archive.links:
        what = "folder" if name in archive.folders else "link"
        raise UserError(f"{path}:{shown(name, 200)} is a {what}, not a file; say with `member` which file to take.")
    return name
