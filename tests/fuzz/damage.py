"""What is done to records and files: odd values, damaged bytes, other encodings; and the containers that files come in."""

import bz2
import copy
import gzip
import io
import json
import lzma
import random
import tarfile
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq


def streams(compress, data: bytes, padding: int = 0) -> bytes:
    """Two compressed streams on end, as tools that append or work in parallel write them."""
    middle = len(data) // 2
    return compress(data[:middle]) + bytes(padding) + compress(data[middle:]) + bytes(padding)


def archived(kind: str, data: bytes) -> bytes:
    stream = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("data/qasper.jsonl", data)
        return stream.getvalue()
    with tarfile.open(fileobj=stream, mode="w:gz" if kind == "tgz" else "w") as archive:
        member = tarfile.TarInfo("data/qasper.jsonl")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    whole = stream.getvalue()
    return streams(lzma.compress, whole, 4) if kind == "tar.xz" else streams(bz2.compress, whole) if kind == "tar.bz2" else whole


def parquet(rows: list) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), stream, write_page_checksum=True)
    return stream.getvalue()


def lines(rows: list) -> bytes:
    return "\n".join(json.dumps(one, ensure_ascii=False) for one in rows).encode()


PACKED = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "two.gz": lambda data: streams(gzip.compress, data),
    "two.bz2": lambda data: streams(bz2.compress, data),
    "two.xz": lambda data: streams(lzma.compress, data),
    "padded.xz": lambda data: streams(lzma.compress, data, 8),
    **{kind: lambda data, kind=kind: archived(kind, data) for kind in ("zip", "tgz", "tar.xz", "tar.bz2", "tar")},
}
PLAIN = {
    "json": lambda rows: json.dumps(rows).encode(),
    "utf8.json": lambda rows: json.dumps(rows, ensure_ascii=False, indent=1).encode(),
    "jsonl": lines,
    "lines.json": lines,
    "mapping.json": lambda rows: json.dumps({f"key{n}": one for n, one in enumerate(rows)}).encode(),
    "lists.json": lambda rows: b" ".join(json.dumps([one]).encode() for one in rows),
    "mappings.json": lambda rows: b"\n".join(json.dumps({f"key{n}": one}).encode() for n, one in enumerate(rows)),
}
ODD_VALUES = (
    None, "", " ", "\u200b", "None", "False", "text", "\0", "\ufeffx", 0, 1, -1, 1.5, 10**30, True, False, [], {}, [None], [[]],
    ["a"], {"a": "b"},
)  # fmt: skip


def places(value: object, here: tuple = ()) -> list[tuple]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in inside for place in [(*here, key), *places(inner, (*here, key))]]


def change_values(rows: list, rng: random.Random) -> list:
    """One or two values of another type, missing, repeated, wrapped or deep."""
    rows = json.loads(json.dumps(rows))
    for _ in range(rng.choice((1, 1, 2))):
        *parents, last = rng.choice(places(rows))
        target = rows
        for part in parents:
            target = target[part]
        match rng.randrange(6):
            case 0:
                del target[last]
            case 1:
                target[last] = [target[last]]
            case 2:
                target[last] = {"0": target[last]}
            case 3 if isinstance(target, list):
                target.append(target[last])
            case 4:
                for _ in range(rng.choice((3, 80))):
                    target[last] = [target[last]]
            case _:
                target[last] = copy.deepcopy(rng.choice(ODD_VALUES))
        if not places(rows):
            break
    return rows


def change_bytes(data: bytes, rng: random.Random) -> bytes:
    """Cut, flipped, dropped, doubled or foreign bytes."""
    start = rng.randrange(len(data))
    stop = min(len(data), start + rng.choice((1, 2, 16, 300)))
    match rng.randrange(9):
        case 0:
            return data[:start]
        case 1 | 2 | 3:
            return data[:start] + bytes([data[start] ^ 1 << rng.randrange(8)]) + data[start + 1 :]
        case 4:
            return data[:start] + data[stop:]
        case 5:
            return data[:stop] + data[start:]
        case 6:
            return data[:start] + bytes(stop - start) + data[stop:]
        case 7:
            return data[:start] + rng.randbytes(stop - start) + data[stop:]
    return (
        data[:start]
        + rng.choice((b"\xff", b"\\ud800", b"\\", b'"', b"[" * 200_000, b'{"a":' * 40_000, b"\xef\xbb\xbf"))
        + data[start:]
    )


def recode(data: bytes, rng: random.Random) -> bytes:
    """The same text otherwise encoded, or a page in its place."""
    page = b"<!DOCTYPE html><html><body>Quota exceeded</body></html>"
    whole = data.decode()
    return rng.choice(
        (whole.encode("utf-16"), whole.encode("utf-16-le"), whole.encode("latin-1", "replace"), page, b"\xef\xbb\xbf" + data, b"")
    )
