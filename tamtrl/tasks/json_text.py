"""JSON text as records, streamed: a list, a mapping of records, or records one after the other."""

import io
import itertools
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import ijson

from tamtrl.errors import UserError, shown

YAJL = ijson.get_backend("yajl2_c")  # by name: IJSON_BACKEND may name another, which reads otherwise
BLOCK = 1 << 20  # yajl reads a text again from its beginning for each block that it goes on in
MAX_RECORD = 1 << 24  # bytes of one record; the longest known (whole books) have 3 MiB
MAX_DEPTH = 64  # of lists and mappings within each other; the deepest public layout (Qasper on the hub) has 8
WHITE = b" \t\r\n"
PAGE = re.compile(rb"\s*<(?:!doctype|html|head|body|\?xml)", re.IGNORECASE)


class TwoValues:
    """Stands for the value of a key that a mapping has twice: of no type that a field may have."""


def too_long(where: str) -> UserError:
    return UserError(f"{where} takes more than {MAX_RECORD >> 20} MiB; a record is one question, paper or text, not a whole set.")


def plain_text(stream: io.BufferedReader, where: str) -> bytes:
    """The first bytes of UTF-8 text, whose stream is left just behind a byte order mark. What is something else is refused."""
    if stream.peek(3).startswith(b"\xef\xbb\xbf"):
        stream.read(3)
    start = stream.peek(4096)[:4096]
    if not start:
        raise UserError(f"{where} is empty.")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in start:
        raise UserError(f"{where} is not UTF-8 text but UTF-16 or binary; save it as UTF-8.")
    if PAGE.match(start):
        raise UserError(f"{where} is a web page, not data: an error, a licence or a quota notice was saved under its name.")
    return start


def json_records(stream: io.BufferedReader, where: str, lines: bool) -> Iterator[tuple[str, Any]]:
    """(place, record) of each; ``lines``: a mapping of mappings is one record."""
    start = plain_text(stream, where)
    while start and not start.strip(WHITE):
        stream.read(len(start))
        start = stream.peek(4096)[:4096]
    if start.lstrip(WHITE)[:1] not in (b"[", b"{"):
        raise UserError(f"{where} is not valid JSON: it must begin with [ or {{.")
    text = _Unicode(stream, where)
    try:
        events = YAJL.basic_parse(text, multiple_values=True, buf_size=BLOCK)
        for place, record in _values(events, where, lines):
            yield place, record
            text.done, text.since = text.done + 1, 0
    except (ijson.JSONError, UnicodeDecodeError) as error:
        first = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        reason = first.strip().splitlines()[0]
        if "UTF8" in reason or isinstance(error, UnicodeDecodeError):
            raise UserError(f"{where} is not UTF-8 text (after record {text.done}); save it as UTF-8.") from None
        raise UserError(f"{where} is not valid JSON after record {text.done} ({reason}); is the download complete?") from None
    except (ArithmeticError, ValueError, SystemError):  # Python's own limits, of which the parser passes on this or that
        raise UserError(f"{where} has a number after record {text.done} that is too long to be one.") from None
    except MemoryError:
        raise UserError(f"{where} takes more memory than there is after record {text.done}; is it what it should be?") from None
    except RecursionError:
        raise UserError(f"{where} nests deeper than {MAX_DEPTH} levels after record {text.done}; no known layout does.") from None
    while stream.read(1 << 20):
        pass


def _values(events: Iterator[tuple[str, Any]], where: str, lines: bool) -> Iterator[tuple[str, Any]]:
    """The records among the events of one or more JSON values: the items if they are lists, the entries if they are mappings of
    mappings, else the values themselves. What the first is the others must be."""
    numbers, keys, form = itertools.count(1), set(), ""
    for event, value in events:
        found, rest = "a list" if event == "start_array" else "a record", events
        if event == "start_map" and not lines and form != "a record":
            # A record begins with its id or text, a mapping of records with a record.
            start = [next(events)]
            start += [next(events)] if start[0][0] == "map_key" else []
            found, rest = "a mapping of records" if start[-1][0] == "start_map" else found, itertools.chain(start, events)
        form = form or found
        if found != form:
            raise UserError(f"{where} has {found} after {form}; give lists, mappings of records, or records one after the other.")
        if form == "a list":
            for event, value in iter(events.__next__, ("end_array", None)):
                yield f"record {next(numbers)}", _value(event, value, events)
        elif form == "a mapping of records":
            for key, record in _entries(rest):
                if key in keys:
                    raise UserError(f"{where} has the entry {shown(key, 80)} twice; which of them is right?")
                keys.add(key)
                yield f"entry {shown(key, 80)}", {"id": key} | record if isinstance(record, dict) else record
        else:
            yield f"record {next(numbers)}", _value(event, value, rest)


def _entries(events: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for event, key in events:
        if event == "end_map":
            return
        yield key, _value(*next(events), events)


def _value(event: str, value: Any, events: Iterator[tuple[str, Any]], depth: int = 1) -> Any:
    if depth > MAX_DEPTH and event in ("start_map", "start_array"):
        raise RecursionError
    if event == "start_map":
        mapping: dict[str, Any] = {}
        for event, key in events:
            if event == "end_map":
                break
            found = _value(*next(events), events, depth + 1)
            mapping[key] = TwoValues() if key in mapping else found
        return mapping
    if event == "start_array":
        return [_value(event, value, events, depth + 1) for event, value in iter(events.__next__, ("end_array", None))]
    return float(value) if isinstance(value, Decimal) else value


class _Unicode:
    """JSON text on its way to the parser, which turns half a surrogate pair into a question mark and says nothing; and the limit
    of what lies between two records."""

    ESCAPE = re.compile(rb"\\(?:u(?:([dD][89abAB]..)(\\u[dD][c-fC-F]..)?|([dD][c-fC-F]..))|.|\Z)", re.DOTALL)
    LONGEST = 12  # bytes of an escaped pair

    def __init__(self, stream: io.BufferedReader, where: str):
        self.stream, self.where, self.pending = stream, where, b""
        self.done, self.since = 0, 0  # records, and bytes since the last of them was whole

    def read(self, size: int = -1) -> bytes:
        block = self.stream.read(max(size, 1 << 16)) if size else b""
        if not size or not (text := self.pending + block):
            return b""
        self.since += len(block)
        if self.since > MAX_RECORD + BLOCK:
            raise too_long(f"What follows record {self.done} of {self.where}")
        end = len(text)
        for escape in self.ESCAPE.finditer(text):
            if block and escape.start() > len(text) - self.LONGEST:
                end = escape.start()
                break
            if escape[3] or (escape[1] and not escape[2]):
                half = escape[0][:6].decode(errors="replace")
                raise UserError(f"{self.where} has half a surrogate pair ({half}), which is no character.")
        self.pending = text[end:]
        return text[:end] or self.read(size)
