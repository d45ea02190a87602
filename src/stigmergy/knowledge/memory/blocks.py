"""A stretch of a store taken apart at once: what is worth keeping of each line, in columns.

Most lines are plain: ASCII with no escapes in them. For those, the text is searched where it stands in the store, and
the canonical form that is hashed is cut out of the line. Every other line goes through `read_record`. Both ways give
the same columns; the property tests hold one against the other.
"""

from __future__ import annotations

import hashlib

import msgspec

from stigmergy.knowledge.memory.records import (
    MAX_DEPTH,
    SHORT_TIME,
    Record,
    as_record,
    normalise,
    print_moment,
    read_moment,
    read_record,
)

QUOTE = ord('"')
MISSING = -(2**62)
"""The moment of a record that has none: before all others."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="sorted").encode


class _Plain(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A line with nothing in it but what most have."""

    memory_id: str
    text: msgspec.Raw
    """As it stands in the line, with its quotes if it is a text."""
    ts_utc: str | msgspec.UnsetType = msgspec.UNSET
    tags: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


_decode_plain = msgspec.json.Decoder(_Plain).decode
_TAGS: dict[tuple[str, ...], tuple[list[str], str]] = {(): ([], "")}
"""Tags as they are given, in their normal form, and as they stand in the canonical one: the same few come often."""
MAX_TAGS = 4096


class Block(msgspec.Struct, kw_only=True):
    """The records of a stretch, in the order of its lines."""

    ids: list[str] = []
    hashes: bytes = b""
    """32 bytes a record."""
    moments: list[int] = []
    starts: list[int] = []
    """Where each record's line begins in the stretch."""
    ends: list[int] = []
    text_starts: list[int] = []
    """Where a plain record's text begins; where its line begins, and nothing in between, for the others."""
    text_ends: list[int] = []
    tagged: dict[str, list[int]] = {}
    """Which records carry a tag."""
    folded: dict[int, bytes] = {}
    """The normalised text of records that are not plain."""
    invalid: bytes = b""
    """32 bytes for each line that holds no record."""


def read_block(data: bytes) -> Block:
    """The columns of a stretch of whole lines."""
    block, hashes, invalid = Block(), bytearray(), bytearray()
    sha256 = hashlib.sha256
    simple = _is_simple(data)
    start = 0
    for line in data.split(b"\n"):
        end = start + len(line)
        if line and not line.isspace():
            hashed = _read_plain(block, line, start) if simple or _is_simple(line) else None
            if hashed is None:
                hashed = _read_other(block, line, start)
            if hashed is None:
                invalid += sha256(line).digest()
            else:
                hashes += hashed
                block.starts.append(start)
                block.ends.append(end)
        start = end + 1
    block.hashes, block.invalid = bytes(hashes), bytes(invalid)
    return block


def _is_simple(text: bytes) -> bool:
    """Whether every string in it is written as it is."""
    return text.isascii() and b"\\" not in text


def _normal_tags(tags: tuple[str, ...]) -> tuple[list[str], str]:
    unique = sorted({tag.lower() for tag in tags})
    if len(_TAGS) >= MAX_TAGS:
        _TAGS.clear()
    found = unique, '"' + '","'.join(unique) + '"' if unique else ""
    _TAGS[tags] = found
    return found


def _read_plain(block: Block, line: bytes, start: int) -> bytes | None:
    """Take in a simple line if it is plain; its hash."""
    try:
        said = _decode_plain(line)
    except (ValueError, RecursionError):  # more to it, or no record; the other way tells
        return None
    memory_id, text, when, tags = said.memory_id, bytes(said.text), said.ts_utc, said.tags
    # Two quotes a string and nothing escaped: more quotes than there are strings means that a key stands twice.
    quotes = 8
    moment, stamp = MISSING, "null"
    if when is not msgspec.UNSET:
        quotes += 4
        found = read_moment(when)
        if found is not None:
            moment, stamp = found, f'"{when if len(when) == SHORT_TIME else print_moment(found)}"'
    if tags is msgspec.UNSET:
        tags = ()
    else:
        quotes += 2 + 2 * len(tags)
    unique, listed = _TAGS.get(tags) or _normal_tags(tags)
    begins = line.find(b'"', line.find(b":", line.find(b'"text"')) + 1)
    ends = begins + len(text)
    if line.count(b'"') != quotes or text[0] != QUOTE or line[begins:ends] != text:
        return None
    position = len(block.ids)
    for tag in unique:
        block.tagged.setdefault(tag, []).append(position)
    block.ids.append(memory_id)
    block.moments.append(moment)
    block.text_starts.append(start + begins + 1)
    block.text_ends.append(start + ends - 1)
    head = f'{{"memory_id":"{memory_id}","refs":[],"tags":[{listed}],"text":'.encode()
    return hashlib.sha256(b'%b%b,"ts_utc":%b}' % (head, text, stamp.encode())).digest()


def _read_other(block: Block, line: bytes, start: int) -> bytes | None:
    """Take in any other line; its hash."""
    record = _quickly(line) or read_record(line)
    if record is None:
        return None
    position = len(block.ids)
    for tag in record.tags:
        block.tagged.setdefault(tag, []).append(position)
    block.ids.append(record.memory_id)
    block.moments.append(MISSING if record.moment is None else record.moment)
    block.text_starts.append(start)
    block.text_ends.append(start)
    block.folded[position] = normalise(record.text).encode()
    return record.hash


def _quickly(line: bytes) -> Record | None:
    """The record of a line in which certainly no key stands twice; None for those to be read with more care.

    The decoder keeps the last of two equal keys, so the value printed again has fewer strings than the line.
    """
    if b"\\\\" in line or line.count(b"[") + line.count(b"{") > MAX_DEPTH:
        return None
    try:
        said = _decode(line)
    except ValueError:
        return None
    again = _encode(said)
    if b"\\\\" in again or _strings(again) != _strings(line):
        return None
    return as_record(said)


def _strings(text: bytes) -> int:
    """How many quotes begin or end a string, where no backslash is escaped."""
    return text.count(b'"') - text.count(b'\\"')
