"""Compressed streams, read to their last byte. Python's own files of bzip2 and xz drop what follows the first stream where that
is damaged or padded, and say nothing."""

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from typing import Any

BLOCK = 1 << 16
XZ_MEMORY = 1 << 29  # a header may ask for 4 GiB; `xz -9` needs 65 MiB
BZIP2 = tuple(b"BZh%d%s" % (level, mark) for level in range(1, 10) for mark in (b"1AY&SY", b"\x17rE8P\x90"))


def decompressed(stream: io.BufferedIOBase, start: bytes) -> io.BufferedIOBase:
    """``stream`` decompressed if its ``start`` says that it is compressed, else itself."""
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=stream)
    if start.startswith(BZIP2):
        return io.BufferedReader(_Streams(stream, bz2.BZ2Decompressor, 0))
    if start.startswith(b"\xfd7zXZ\x00"):
        make = lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, XZ_MEMORY)  # noqa: E731
        return io.BufferedReader(_Streams(stream, make, 4))
    return stream


class _Streams(io.RawIOBase):
    """One stream or several on end, with zeros behind each in multiples of ``padding`` (0: none); anything else raises."""

    def __init__(self, inner: io.BufferedIOBase, make: Callable, padding: int):
        self.inner, self.make, self.padding = inner, make, padding
        self.decoder, self.waiting, self.place = make(), b"", 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            raise io.UnsupportedOperation("the end is known only once it was read")
        place += self.place if whence == io.SEEK_CUR else 0
        if place < self.place:
            self.inner.seek(0)
            self.decoder, self.waiting, self.place = self.make(), b"", 0
        while self.place < place and self.read(min(BLOCK, place - self.place)):
            pass
        return self.place

    def readinto(self, buffer: Any) -> int:
        while not self.decoder.eof or self._next():
            block = self.waiting
            if not block and self.decoder.needs_input and not (block := self.inner.read(BLOCK)):
                raise EOFError("the compressed stream breaks off")
            self.waiting = b""
            if data := self.decoder.decompress(block, len(buffer)):
                buffer[: len(data)] = data
                self.place += len(data)
                return len(data)
        return 0

    def _next(self) -> bool:
        """Begin the stream behind the one that ended; False where there is none."""
        rest, zeros = self.decoder.unused_data, 0
        while rest := rest or self.inner.read(BLOCK):
            left = rest.lstrip(b"\0") if self.padding else rest
            zeros += len(rest) - len(left)
            rest = left
            if left:
                break
        if self.padding and zeros % self.padding:
            raise lzma.LZMAError("zeros between streams that are no multiple of four")
        if rest:
            self.decoder, self.waiting = self.make(), rest
        return bool(rest)
