"""One line of a memory store: the record it holds, its hash, and the part of it that ranking needs."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from engrambus.core import canonical
from engrambus.errors import EngramBusError
from engrambus.knowledge.memory.line_json import decode_line
from engrambus.knowledge.memory.moments import parse_moment, print_moment

_encode = msgspec.json.Encoder().encode


# gc=False in this module: these values form no cycles, and there may be a hundred thousand of them.


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A valid record in its normal form."""

    memory_id: str
    moment_us: int | None
    """`ts_utc` in microseconds since 1970; None when it is missing or not in UTC."""
    text: str
    tags: tuple[str, ...]
    """Lower-cased, sorted, without duplicates."""
    record_hash: str
    """sha256 of the canonical normal form."""


class StoreLine(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A line of a store without its text: the part that ranking needs and that may be cached."""

    start: int
    """Offset in bytes from the beginning of the segment."""
    end: int
    record_hash: str
    memory_id: str | None = None
    """None when the line holds no valid record; `record_hash` is then the hash of the raw line."""
    moment_us: int | None = None
    tags: tuple[str, ...] = ()


class Segment(msgspec.Struct, frozen=True):
    """Consecutive whole lines of a store. The data is there until the next segment of the store is read."""

    offset: int
    """Offset in bytes from the beginning of the file."""
    data: bytes | memoryview
    lines: list[StoreLine]
    """The lines that are not blank, in file order."""
    is_full: bool
    """True if it stays the same when the store grows."""

    def line(self, line: StoreLine) -> bytes:
        """Return the bytes of a line."""
        return bytes(self.data[line.start : line.end])


class _Text(msgspec.Struct, frozen=True, gc=False):
    text: str


_decode_text = msgspec.json.Decoder(_Text).decode


def read_lines(data: bytes) -> list[StoreLine]:
    """Read every line of a segment that is not blank."""
    lines: list[StoreLine] = []
    start = 0
    for line in data.split(b"\n"):
        end = start + len(line)
        if line and not line.isspace():
            record = read_record(line)
            if record is None:
                lines.append(StoreLine(start, end, hashlib.sha256(line).hexdigest()))
            else:
                lines.append(StoreLine(start, end, record.record_hash, record.memory_id, record.moment_us, record.tags))
        start = end + 1
    return lines


def read_text(line: bytes) -> str:
    """Return the text of a line that holds a valid record."""
    try:
        return _decode_text(line).text
    except (msgspec.DecodeError, RecursionError):  # a deep field that is not ours
        record = read_record(line)
        return "" if record is None else record.text


def read_record(line: bytes) -> Record | None:
    """Return the record of a line; None when it is not a valid record."""
    try:
        return _to_record(decode_line(line))
    except (ValueError, EngramBusError):
        return None


def _to_record(value: Any) -> Record | None:
    if type(value) is not dict:
        return None
    # decision 40: a field that is null counts as left out; any other wrong type makes the record invalid.
    memory_id, text, ts_utc = value.get("memory_id"), value.get("text"), value.get("ts_utc")
    tags, refs = value.get("tags"), value.get("refs")
    if type(memory_id) is not str or type(text) is not str or not (ts_utc is None or type(ts_utc) is str):
        return None
    if not (tags is None or _is_list_of(str, tags)) or not (refs is None or _is_list_of(dict, refs)):
        return None
    moment_us = parse_moment(ts_utc) if ts_utc else None
    sorted_tags = sorted({tag.lower() for tag in tags or ()})
    normal = {
        "memory_id": memory_id,
        "refs": refs or [],
        "tags": sorted_tags,
        "text": text,
        "ts_utc": None if moment_us is None else print_moment(moment_us),
    }
    # Texts alone print the same in every encoder; only numbers, which stand in `refs`, need the canonical printer.
    body = canonical(normal) if refs else _encode(normal)
    return Record(
        memory_id=memory_id,
        moment_us=moment_us,
        text=text,
        tags=tuple(sorted_tags),
        record_hash=hashlib.sha256(body).hexdigest(),
    )


def _is_list_of(kind: type, value: Any) -> bool:
    return type(value) is list and all(type(item) is kind for item in value)


def normalise(text: str) -> str:
    """Trim, lower-case and collapse every run of white space into one space."""
    return " ".join(text.split()).lower()
