"""A record as one line of text: sorted as texts, rows stand in the order in which the package lists them.

A row is its key, a space, the entry that `dropped` gets if it is not selected, and its place. A key is, without spaces:
- what became of the record, one of `INVALID`, `DENIED` and `RANKED`;
- its score, the highest first (of what is not ranked: where its line stands);
- its moment, the latest first, those without one last;
- the number of its store, and its id, the least first. The entry, which follows, settles the rest: it holds the hash.

An entry is canonical JSON with a tab where the reason will stand. Text has neither tabs nor line feeds elsewhere.
A place is where the stretch begins in the store, and where the line begins and ends in the stretch.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

import msgspec

INVALID, DENIED, RANKED = "0", "1", "2"
REASON = "\t"
PLACE = 12 + 8 + 8

_LATEST_FIRST = str.maketrans("0123456789", "9876543210")
_NO_TIME = "~"
_TAKEN = re.compile(r'[\0-"\\]')
"""What an id is seldom made of. Without these it is printed as it is, and sorts before all that begin with it."""
_ORDERED = {code: f"!{chr(code + ord('#'))}" for code in range(ord("#"))}
_FLOAT = struct.Struct(">d")
_SIGN = 1 << 63

_encode = msgspec.json.Encoder().encode


class Store(msgspec.Struct, frozen=True):
    """A store among those that are read."""

    number: int
    """Its position in the order of their paths."""
    path: str


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row, read again."""

    memory_id: str
    record_hash: str
    store_path: str
    score: float
    start: int
    """Where its line begins in the store."""
    end: int


class _Entry(msgspec.Struct, frozen=True):
    memory_id: str
    record_hash: str
    store_path: str


_decode = msgspec.json.Decoder(_Entry).decode


def order_times(times: Sequence[str | None]) -> list[str]:
    """Timestamps in their normal form as keys have them."""
    return "\n".join([time or _NO_TIME for time in times]).translate(_LATEST_FIRST).split("\n") if times else []


def time_of(when: str) -> str | None:
    """The timestamp that a key has so."""
    return None if when == _NO_TIME else when.translate(_LATEST_FIRST)


def print_spans(starts: Sequence[int], ends: Sequence[int]) -> list[str]:
    """Where lines begin and end in a stretch, as rows have it."""
    places = [0] * (2 * len(starts))
    places[::2], places[1::2] = starts, ends
    return struct.pack(f">{len(places)}I", *places).hex("\n", 8).split("\n") if places else []


def _print_ids(ids: list[str]) -> tuple[list[str], list[str]]:
    """Ids as keys have them, and as JSON prints them, without their quotes."""
    if not _TAKEN.search("".join(ids)):
        return ids, ids
    return [name.translate(_ORDERED) for name in ids], [_encode(name).decode()[1:-1] for name in ids]


def make_rows(
    keys: Sequence[str],
    whens: Sequence[str],
    ids: list[str],
    hashes: Sequence[str],
    spans: Sequence[str],
    store: Store,
    offset: int,
) -> list[str]:
    """The rows of records, given what they begin with and what `order_times` and `print_spans` made."""
    number, path = f"{store.number:08x}", f"{_encode(store.path).decode()}}}{offset:012x}"
    ordered, printed = _print_ids(ids)
    return [
        f'{key}{when}{number}{order} {{"memory_id":"{name}","reason":"\t","record_hash":"{digits}","store_path":{path}{span}'
        for key, when, order, name, digits, span in zip(keys, whens, ordered, printed, hashes, spans, strict=True)
    ]


def invalid_row(store: Store, offset: int, start: int, end: int, digits: str) -> str:
    """The row of a line that holds no record."""
    entry = f'{{"memory_id":"","reason":"\t","record_hash":"{digits}","store_path":{_encode(store.path).decode()}}}'
    return f"{INVALID}{store.number:08x}{offset:012x}{start:08x} {entry}{offset:012x}{start:08x}{end:08x}"


def denied_key(store: Store, offset: int, span: str) -> str:
    """What a row begins with if its record is left out."""
    return f"{DENIED}{store.number:08x}{offset:012x}{span[:8]}"


def ranked_key(score: float) -> str:
    """What a row begins with if its record has a score."""
    return f"{RANKED}{_SIGN - int.from_bytes(_FLOAT.pack(score)):016x}"


def entries_of(rows: list[str]) -> list[str]:
    """The entries of rows."""
    return [row[row.index(" ") + 1 : -PLACE] for row in rows]


def read_row(row: str) -> Row:
    """A ranked row, read again."""
    entry = _decode(entries_of([row])[0].replace(REASON, ""))
    bits = _SIGN - int(row[1:17], 16)
    place = row[-PLACE:]
    offset = int(place[:12], 16)
    return Row(
        memory_id=entry.memory_id,
        record_hash=entry.record_hash,
        store_path=entry.store_path,
        score=_FLOAT.unpack(bits.to_bytes(8))[0],
        start=offset + int(place[12:20], 16),
        end=offset + int(place[20:], 16),
    )
