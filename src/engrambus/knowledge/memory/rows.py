"""A record as one line of text: sorted as texts, rows stand in the order in which the package lists them.

A row is, without anything between them but a tab after the id:
- what became of the record, one of `INVALID`, `DENIED` and `RANKED`, and its score, the highest first;
- its moment, the latest first, those without one last;
- the number of its store;
- its id, the least first, and its hash;
- its place: where the stretch begins in the store, and where the line begins and ends in the stretch.
All but the id have a fixed length. Of what is not ranked, where the line stands comes before everything else. Text has
neither tabs nor line feeds elsewhere.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from operator import itemgetter

import msgspec

INVALID, DENIED, RANKED = "0", "1", "2"
_RANK, _WHEN, _STORE = 1 + 16, len("2026-01-31T12:00:00.000000Z"), 8
_HEAD = _RANK + _WHEN + _STORE
_PLACE = 12 + 8 + 8
_identity = itemgetter(slice(_HEAD, -_PLACE))
"""The id of a row, a tab and the hash."""

_LATEST_FIRST = str.maketrans("0123456789", "9876543210")
_NO_TIME = "~"
_TAKEN = re.compile(r"[\0-\x1f]")
"""What an id is seldom made of: it is written as two characters that come before all others but the tab."""
_LEAD = "\v"
_ORDERED = {code: f"{_LEAD}{chr(code + ord(' '))}" for code in range(ord(" "))}
_WRITTEN = {text: chr(code) for code, text in _ORDERED.items()}
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
    store: int
    """The number of its store."""
    score: float
    start: int
    """Where its line begins in the store."""
    end: int


def order_times(times: Sequence[str | None]) -> list[str]:
    """Timestamps in their normal form as rows have them."""
    joined = "\n".join([time.ljust(_WHEN) if time else _NO_TIME.ljust(_WHEN) for time in times])
    return joined.translate(_LATEST_FIRST).split("\n") if times else []


def time_of(when: str) -> str | None:
    """The timestamp that a row has so."""
    return None if when[0] == _NO_TIME else when.rstrip().translate(_LATEST_FIRST)


def print_spans(starts: Sequence[int], ends: Sequence[int]) -> list[str]:
    """Where lines begin and end in a stretch, as rows have it."""
    places = [0] * (2 * len(starts))
    places[::2], places[1::2] = starts, ends
    return struct.pack(f">{len(places)}I", *places).hex("\n", 8).split("\n") if places else []


def make_rows(
    scores: Sequence[float],
    whens: Sequence[str],
    ids: Sequence[str],
    hashes: Sequence[str],
    spans: Sequence[str],
    store: Store,
    offset: int,
) -> list[str]:
    """The rows of ranked records, given what `order_times` and `print_spans` made."""
    ranks = {score: f"{RANKED}{_SIGN - int.from_bytes(_FLOAT.pack(score)):016x}" for score in set(scores)}
    number, stretch = f"{store.number:08x}", f"{offset:012x}"
    if _TAKEN.search("".join(ids)):
        ids = [name.translate(_ORDERED) for name in ids]
    return [
        f"{ranks[score]}{when}{number}{name}\t{digits}{stretch}{span}"
        for score, when, name, digits, span in zip(scores, whens, ids, hashes, spans, strict=True)
    ]


def denied_row(row: str) -> str:
    """The row of a record that is left out, of the one that it would have had."""
    return _unranked(DENIED, row[_HEAD - _STORE : _HEAD], row[-_PLACE:]) + row[_HEAD:]


def invalid_row(store: Store, offset: int, start: int, end: int, digits: str) -> str:
    """The row of a line that holds no record."""
    number, place = f"{store.number:08x}", f"{offset:012x}{start:08x}{end:08x}"
    return f"{_unranked(INVALID, number, place)}\t{digits}{place}"


def _unranked(kind: str, number: str, place: str) -> str:
    return f"{kind}{number}{place}".ljust(_RANK + _WHEN) + number


def read_row(row: str) -> Row:
    """A ranked row, read again."""
    name, digits = _identity(row).split("\t")
    place = row[-_PLACE:]
    offset = int(place[:12], 16)
    bits = _SIGN - int(row[1:_RANK], 16)
    return Row(
        memory_id=_written(name),
        record_hash=digits,
        store=int(row[_HEAD - _STORE : _HEAD], 16),
        score=_FLOAT.unpack(bits.to_bytes(8))[0],
        start=offset + int(place[12:20], 16),
        end=offset + int(place[20:], 16),
    )


def _written(name: str) -> str:
    """An id, of what rows have."""
    return re.sub(f"{_LEAD}.", lambda found: _WRITTEN[found[0]], name) if _LEAD in name else name


def print_dropped(rows: list[str], reason: str, paths: Sequence[str]) -> bytes:
    """The entries that rows get in the package's `dropped`, with commas between them."""
    identities = list(map(_identity, rows))
    bare = "".join(identities)
    if '"' in bare or "\\" in bare or _LEAD in bare:
        identities = [_escaped(identity) for identity in identities]
    ends = [f'","store_path":{_encode(path).decode()}}}' for path in paths]
    if len(paths) == 1:
        printed = f'{ends[0]},{{"memory_id":"'.join(identities) + ends[0]
    else:
        stores = [int(row[_HEAD - _STORE : _HEAD], 16) for row in rows]
        entries = [identity + ends[store] for identity, store in zip(identities, stores, strict=True)]
        printed = ',{"memory_id":"'.join(entries)
    return ('{"memory_id":"' + printed.replace("\t", f'","reason":"{reason}","record_hash":"')).encode()


def _escaped(identity: str) -> str:
    """What stands between the quotes of JSON."""
    name, tab, digits = identity.partition("\t")
    return _encode(_written(name)).decode()[1:-1] + tab + digits
