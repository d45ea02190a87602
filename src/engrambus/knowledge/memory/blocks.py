"""A stretch of a store taken apart at once: what is worth keeping of each line.

The lines of a stretch are decoded together into values whose printed form is the canonical one, so that most of the
work is done by a few calls over all of them. Where that cannot be proven to be right, the stretch is halved, down to
the one line that goes through `read_record`. The property tests hold both ways against each other.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from stringzilla import translate

from engrambus.knowledge.memory.records import (
    MAX_DEPTH,
    Record,
    are_normal,
    as_record,
    print_moment,
    read_moment,
    read_record,
)
from engrambus.knowledge.memory.rows import order_times, print_spans

PIECE = 128 * 1024
LINE_FEED, OPENING, CLOSING = b"\n{}"
LOWER = bytes(range(256)).lower()
"""Of ASCII."""

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
_decode_lines = msgspec.json.Decoder(_Line).decode_lines
_decode_texts = msgspec.json.Decoder(_Text).decode_lines
_encode = msgspec.json.Encoder(order="sorted").encode


class Texts(msgspec.Struct, kw_only=True):
    """The lower-cased texts of a stretch, one after the other with a line feed behind each."""

    lowered: bytes
    sizes: list[int]
    """How many bytes each has."""


class Block(msgspec.Struct, kw_only=True):
    """The records of a stretch, in the order of its lines; of each what is worth keeping."""

    ids: list[str] = []
    hashes: list[str] = []
    whens: list[str] = []
    """When each was made, and where its line stands, as rows have it; see `rows`."""
    spans: list[str] = []
    tags: list[tuple[str, ...]] = []
    """All tags that records have, in their normal form."""
    tagged: list[int] = []
    """Which of these each record has."""
    texts: Texts | None = None
    """The texts, where they cannot simply be decoded from the lines again."""
    invalid: list[tuple[int, int, str]] = []
    """Where each line that holds no record begins and ends, and its hash."""


class _Tags:
    """The tags of a stretch: most records have the same as others. Each kind is brought into its normal form once."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, ...] | UnsetType, int] = {}
        self.normal: list[tuple[str, ...]] = []
        self.printed: list[str] = []
        """The normal form."""
        self.given: list[bytes] = []
        """What stands in the line for it, where that differs."""
        self.added: list[bytes] = []
        """What stands in the normal form instead."""

    def number(self, kinds: list[tuple[str, ...] | UnsetType]) -> list[int]:
        """The number of each kind."""
        numbers = self._numbers
        try:
            return [numbers[tags] for tags in kinds]
        except KeyError:
            for tags in kinds:
                if tags not in numbers:
                    self._add(tags)
            return [numbers[tags] for tags in kinds]

    def compare(self, tagged: list[int], added: list[bytes], removed: list[bytes]) -> None:
        """Add what the normal form of lines that are tagged so adds to their print, and what it removes."""
        for number, count in Counter(tagged).items():
            added.append(self.added[number] * count)
            removed.append(self.given[number] * count)

    def _add(self, tags: tuple[str, ...] | UnsetType) -> None:
        normal = tuple(sorted({tag.lower() for tag in tags or ()}))
        printed = _encode(normal)
        self._numbers[tags] = len(self.normal)
        self.normal.append(normal)
        self.printed.append(printed.decode())
        self.given.append(b"" if tags is UNSET else _encode(tags))
        self.added.append(b'"tags":[],' if tags is UNSET else printed)


class _Read:
    """What has been taken in so far."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.hashes: list[str] = []
        self.times: list[str | None] = []
        """In the normal form of `ts_utc`."""
        self.tags = _Tags()
        self.tagged: list[int] = []
        self.starts: list[int] = []
        """Where each line begins in the stretch."""
        self.ends: list[int] = []
        self.lowered: list[bytes] = []
        self.sizes: list[int] = []
        """The texts, as in `Texts`."""
        self.invalid: list[tuple[int, int, str]] = []

    def texts(self) -> Texts:
        return Texts(lowered=b"".join(self.lowered), sizes=self.sizes)


def read_block(data: bytes) -> tuple[Block, Texts]:
    """What is worth keeping of a stretch of whole lines, and its texts."""
    read, at_once = _Read(), True
    for start, piece in _pieces(data):
        at_once &= _take_lines(read, piece, start)
    texts = read.texts()
    block = Block(
        ids=read.ids,
        hashes=read.hashes,
        whens=order_times(read.times),
        spans=print_spans(read.starts, read.ends),
        tags=read.tags.normal,
        tagged=read.tagged,
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
    return read.texts()


def _pieces(data: bytes) -> Iterator[tuple[int, bytes]]:
    """A stretch piece by piece, whole lines each: as much as a processor has at hand, and where it begins."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + PIECE) + 1 or len(data)
        yield start, data[start:end] if data[end - 1] == LINE_FEED else data[start:end] + b"\n"
        start = end


def _take_texts(read: _Read, texts: list[str]) -> None:
    joined = "\n".join([*texts, ""])
    if joined.isascii():
        read.sizes += map(len, texts)
        read.lowered.append(translate(joined.encode(), LOWER))
    else:
        lowered = [text.lower().encode() for text in texts]
        read.sizes += map(len, lowered)
        read.lowered.append(b"\n".join([*lowered, b""]))


def _take_lines(read: _Read, piece: bytes, start: int) -> bool:
    """Take in lines that begin somewhere in the stretch; whether it could be done at once."""
    ends = _line_ends(piece)
    if _take_at_once(read, piece, ends, start):
        return True
    if len(ends) == 1:
        _take_alone(read, piece[:-1], start)
    else:
        cut = ends[len(ends) // 2 - 1] + 1
        _take_lines(read, piece[:cut], start)
        _take_lines(read, piece[cut:], start + cut)
    return False


def _line_ends(piece: bytes) -> list[int]:
    ends, find = [], piece.find
    end = find(b"\n")
    while end >= 0:
        ends.append(end)
        end = find(b"\n", end + 1)
    return ends


def _take_at_once(read: _Read, piece: bytes, ends: list[int], start: int) -> bool:
    """Take in lines if they are certainly all records in which no key stands twice."""
    starts = [0, *[end + 1 for end in ends[:-1]]]
    try:
        said, refs = _one_a_line(piece, starts, ends)
    except (ValueError, RecursionError):  # more to one of them, or no record
        return False
    tagged = read.tags.number([line.tags for line in said])
    times, added, removed = _normalise(said)
    read.tags.compare(tagged, added, removed)
    if refs or b"\\" in piece:
        for line, number, time in zip(said, tagged, times, strict=True):
            line.tags, line.ts_utc = read.tags.normal[number], time
        printed = list(map(_encode, said))
    else:
        printed = _print_plainly(said, tagged, read.tags.printed, times)
    if not _none_twice([piece, *added], [*printed, b"\n" * len(said), *removed], numbers=refs):
        return False
    sha256 = hashlib.sha256
    read.hashes += [sha256(line).hexdigest() for line in printed]
    read.ids += [line.memory_id for line in said]
    read.times += times
    read.tagged += tagged
    _take_texts(read, [line.text for line in said])
    read.starts += [start + at for at in starts]
    read.ends += [start + at for at in ends]
    return True


def _one_a_line(piece: bytes, starts: list[int], ends: list[int]) -> tuple[list[_Line], bool]:
    """The values of lines, one each, and whether there are any `refs`.

    They are decoded together if that is the same: within a value, a brace follows a line feed only in `refs`, and even
    there not if another brace comes before that.
    """
    said = _decode_lines(piece)
    refs = [line.refs for line in said]
    begun, ended = [piece[at] for at in starts].count(OPENING), len(starts)
    if any(refs):
        ended = [piece[at - 1] for at in ends].count(CLOSING)
    if not len(said) == len(starts) == begun == ended:
        said = list(map(_decode_line, piece[:-1].split(b"\n")))
    return said, any(refs)


def _normalise(said: list[_Line]) -> tuple[list[str | None], list[bytes], list[bytes]]:
    """Their timestamps in the normal form; what that and `refs` adds to the print of lines, and what it removes."""
    added = [b'"refs":[],' * [line.refs for line in said].count(())]
    removed: list[bytes] = []
    given = [line.ts_utc for line in said]
    if are_normal(given):
        return given, added, removed
    times: list[str | None] = []
    for when in given:
        moment = read_moment(when) if when else None
        times.append(None if moment is None else print_moment(moment))
        if when is UNSET:
            added.append(b',"ts_utc":null')
        else:
            added.append(_encode(times[-1]))
            removed.append(_encode(when))
    return times, added, removed


def _print_plainly(said: list[_Line], tagged: list[int], tags: list[str], times: list[str | None]) -> list[bytes]:
    """Lines in their canonical form, where nothing in them is escaped."""
    whens = [f'"{time}"' if time else "null" for time in times]
    return [
        f'{{"memory_id":"{line.memory_id}","refs":[],"tags":{tags[number]},"text":"{line.text}","ts_utc":{when}}}'.encode()
        for line, number, when in zip(said, tagged, whens, strict=True)
    ]


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
    read.tagged += read.tags.number([tuple(record.tags)])
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
