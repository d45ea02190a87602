"""A stretch of a store taken apart at once: what is worth keeping of each line.

The lines of a stretch are decoded together into values whose printed form is the canonical one, so that most of the
work is done by a few calls over all of them. Where that cannot be proven to be right, the stretch is halved, down to
the one line that goes through `read_record`. The property tests hold both ways against each other.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stigmergy.knowledge.memory.records import (
    MAX_DEPTH,
    Record,
    are_normal,
    as_record,
    print_moment,
    read_moment,
    read_record,
)
from stigmergy.knowledge.memory.rows import draft_rows

PIECE = 128 * 1024

_Scalar = (
    str
    | Annotated[int, Meta(ge=-(2**53), le=2**53)]
    | Annotated[float, Meta(ge=1e-4, lt=1e16)]  # those that are never printed with an exponent
    | bool
    | None
)


class _Line(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A line as most are. Its fields stand in the order of the canonical form."""

    memory_id: str
    refs: Sequence[dict[str, _Scalar | list[_Scalar]]] = ()
    tags: tuple[str, ...] | UnsetType = UNSET
    text: str
    ts_utc: str | UnsetType | None = UNSET


class _Text(msgspec.Struct, gc=False):
    text: str


_decode = msgspec.json.Decoder().decode
_decode_line = msgspec.json.Decoder(_Line).decode
_decode_texts = msgspec.json.Decoder(_Text).decode_lines
_encode = msgspec.json.Encoder(order="sorted").encode


class Texts(msgspec.Struct, kw_only=True):
    """The lower-cased texts of a stretch, one after the other with a line feed behind each."""

    lowered: bytes
    sizes: list[int]
    """How many bytes each has."""


class Block(msgspec.Struct, kw_only=True):
    """The records of a stretch, in the order of its lines."""

    drafts: str = ""
    """A row for each record, to be completed with what only the reader knows; see `rows`."""
    tags: list[tuple[str, ...]] = []
    """The different tags that records have."""
    tagged: list[int] = []
    """Which of these each record has."""
    texts: Texts | None = None
    """The texts, where they cannot simply be decoded from the lines again."""
    invalid: list[tuple[int, int, str]] = []
    """Where each line that holds no record begins and ends, and its hash."""


class _Read(msgspec.Struct, kw_only=True):
    """What has been taken in so far."""

    ids: list[str] = []
    hashes: list[str] = []
    times: list[str | None] = []
    """In the normal form of `ts_utc`."""
    tags: list[tuple[str, ...]] = []
    lowered: bytearray = msgspec.field(default_factory=bytearray)
    sizes: list[int] = []
    """The texts, as in `Texts`."""
    starts: list[int] = []
    """Where each line begins in the stretch."""
    ends: list[int] = []
    invalid: list[tuple[int, int, str]] = []


def read_block(data: bytes) -> tuple[Block, Texts]:
    """What is worth keeping of a stretch of whole lines, and its texts."""
    read, at_once = _Read(), True
    for start, piece in _pieces(data):
        at_once &= _take_lines(read, piece.removesuffix(b"\n").split(b"\n"), start)
    kinds = {tags: number for number, tags in enumerate(dict.fromkeys(read.tags))}
    texts = Texts(lowered=bytes(read.lowered), sizes=read.sizes)
    block = Block(
        drafts=draft_rows(read.ids, read.hashes, read.times, read.starts, read.ends),
        tags=list(kinds),
        tagged=[kinds[tags] for tags in read.tags],
        texts=None if at_once else texts,
        invalid=read.invalid,
    )
    return block, texts


def read_texts(block: Block, data: bytes) -> Texts:
    """The texts of the stretch a block was made from."""
    if block.texts is not None:
        return block.texts
    read = _Read()
    for _, piece in _pieces(data):
        _take_texts(read, [line.text for line in _decode_texts(piece)])
    return Texts(lowered=bytes(read.lowered), sizes=read.sizes)


def _pieces(data: bytes) -> Iterator[tuple[int, bytes]]:
    """A stretch piece by piece, whole lines each: as much as a processor has at hand, and where it begins."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + PIECE) + 1 or len(data)
        yield start, data[start:end]
        start = end


def _take_texts(read: _Read, texts: list[str]) -> None:
    joined = "\n".join(texts)
    if joined.isascii():
        read.sizes += map(len, texts)
        read.lowered += joined.encode().lower()
    else:
        lowered = [text.lower().encode() for text in texts]
        read.sizes += map(len, lowered)
        read.lowered += b"\n".join(lowered)
    read.lowered += b"\n"


def _take_lines(read: _Read, lines: list[bytes], start: int) -> bool:
    """Take in lines that begin somewhere in the stretch; whether it could be done at once."""
    if _take_at_once(read, lines, start):
        return True
    if len(lines) == 1:
        _take_alone(read, lines[0], start)
    else:
        half = len(lines) // 2
        _take_lines(read, lines[:half], start)
        _take_lines(read, lines[half:], start + sum(map(len, lines[:half])) + half)
    return False


def _take_at_once(read: _Read, lines: list[bytes], start: int) -> bool:
    """Take in lines if they are certainly all records in which no key stands twice."""
    try:
        said = list(map(_decode_line, lines))
    except (ValueError, RecursionError):  # more to one of them, or no record
        return False
    added, removed = _normalise(said)
    printed = list(map(_encode, said))
    if not _none_twice([*lines, *added], [*printed, *removed], numbers=any(line.refs for line in said)):
        return False
    sha256 = hashlib.sha256
    read.hashes += [sha256(line).hexdigest() for line in printed]
    read.ids += [line.memory_id for line in said]
    read.times += [line.ts_utc or None for line in said]
    read.tags += [line.tags or () for line in said]
    _take_texts(read, [line.text for line in said])
    starts = list(accumulate([len(line) + 1 for line in lines], initial=start))
    read.starts += starts[:-1]
    read.ends += [after - 1 for after in starts[1:]]
    return True


def _normalise(said: list[_Line]) -> tuple[list[bytes], list[bytes]]:
    """Bring lines into their normal form; what this adds to their print, and what it removes."""
    added = [b'"refs":[],'] * [line.refs for line in said].count(())
    removed = []
    kinds = Counter([line.tags for line in said])
    normal = {tags: tuple(sorted({tag.lower() for tag in tags or ()})) for tags in kinds}
    for tags, count in kinds.items():
        if tags is UNSET:
            added.append(b'"tags":[],' * count)
        elif tags != normal[tags]:
            added.append(_encode(normal[tags]) * count)
            removed.append(_encode(tags) * count)
    for line in said:
        line.tags = normal[line.tags]
    if are_normal([line.ts_utc or "" for line in said]):
        return added, removed
    for line in said:
        when = line.ts_utc
        if when is UNSET:
            line.ts_utc = None
            added.append(b',"ts_utc":null')
        elif when is not None:
            moment = read_moment(when)
            line.ts_utc = None if moment is None else print_moment(moment)
            added.append(_encode(line.ts_utc))
            removed.append(_encode(when))
    return added, removed


def _none_twice(given: list[bytes], printed: list[bytes], *, numbers: bool) -> bool:
    """Whether certainly no key stands twice in texts, which are printed tersely beside them.

    The decoder keeps the last of two values, so a text that gives two is longer than it is printed, and has more
    strings; and none is shorter, or has fewer. (A number may be shorter: `1e5` is printed as `100000.0`.)
    """
    if not numbers and sum(map(len, given)) == sum(map(len, printed)):
        return True
    before, after = b"".join(given), b"".join(printed)
    return b"\\\\" not in before and b"\\\\" not in after and _quotes(before) == _quotes(after)


def _quotes(text: bytes) -> int:
    """How many quotes begin or end a string, where no backslash is escaped."""
    return text.count(b'"') - text.count(b'\\"')


def _take_alone(read: _Read, line: bytes, start: int) -> None:
    """Take in a line by itself, if it is not blank."""
    if not line or line.isspace():
        return
    record = _quickly(line) or read_record(line)
    if record is None:
        read.invalid.append((start, start + len(line), hashlib.sha256(line).hexdigest()))
        return
    read.ids.append(record.memory_id)
    read.hashes.append(record.hash.hex())
    read.times.append(None if record.moment is None else print_moment(record.moment))
    read.tags.append(tuple(record.tags))
    _take_texts(read, [record.text])
    read.starts.append(start)
    read.ends.append(start + len(line))


def _quickly(line: bytes) -> Record | None:
    """The record of a line in which certainly no key stands twice; None for those to be read with more care."""
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH:
        return None
    try:
        said = _decode(line)
    except ValueError:
        return None
    return as_record(said) if _none_twice([line], [_encode(said)], numbers=True) else None
