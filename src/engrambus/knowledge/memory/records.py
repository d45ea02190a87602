"""One line of a store, read by the letter of the contract."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any, TypeGuard

import msgspec

from engrambus.core import canonical, check_depth
from engrambus.errors import EngramBusError

MAX_DEPTH = 64

_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|[+-]00:00)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000
SHORT_TIME = len("2026-01-31T12:00:00Z")
"""A timestamp of this length is in its normal form, if its day and time were found in these."""
_DAYS: dict[str, int] = {}
_TIMES: dict[str, int] = {}
_NORMAL = re.compile(
    r"(?:[12]\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    r"|02-(?:0[1-9]|1\d|2[0-8]))T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ\n)*",
    re.ASCII,
)


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A record in its normal form."""

    memory_id: str
    moment: int | None
    """Microseconds since 1970, when the record says in UTC when it was made."""
    text: str
    tags: list[str]
    """Lower-cased, each once, sorted."""
    refs: list[dict[str, Any]]
    hash: bytes
    """sha256 of the canonical normal form."""


def read_record(line: bytes) -> Record | None:
    """The record a line holds; None when it holds none."""
    try:
        check_depth(line, MAX_DEPTH)
        return as_record(_DECODER.decode(line.decode()))
    except (ValueError, EngramBusError):
        return None


def as_record(said: Any) -> Record | None:
    """The record a value is; None when it is none. A null is a field left out."""
    if type(said) is not dict:
        return None
    memory_id, text = said.get("memory_id"), said.get("text")
    moment, tags, refs = said.get("ts_utc"), said.get("tags"), said.get("refs")
    if type(memory_id) is not str or type(text) is not str:
        return None
    if moment is not None and type(moment) is not str:
        return None
    if tags is None:
        tags = []
    elif type(tags) is not list or not all(type(tag) is str for tag in tags):
        return None
    if refs is None:
        refs = []
    elif type(refs) is not list or not all(type(ref) is dict for ref in refs):
        return None
    record = Record(
        memory_id=memory_id,
        moment=read_moment(moment) if moment else None,
        text=text,
        tags=sorted({tag.lower() for tag in tags}),
        refs=refs,
        hash=b"",
    )
    normal = {
        "memory_id": memory_id,
        "ts_utc": None if record.moment is None else print_moment(record.moment),
        "text": text,
        "tags": record.tags,
        "refs": refs,
    }
    try:
        return msgspec.structs.replace(record, hash=hashlib.sha256(canonical(normal)).digest())
    except EngramBusError:  # half a surrogate pair, or a number that has no canonical form
        return None


def read_moment(text: str) -> int | None:
    """The moment a UTC timestamp names, in microseconds; None when it names none."""
    if len(text) == SHORT_TIME:  # days and times of day come again and again
        try:
            return _DAYS[text[:10]] + _TIMES[text[10:]]
        except KeyError:
            pass
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction = found.groups()
    try:
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC)
    except ValueError:
        return None
    whole = (moment - _EPOCH) // _MICROSECOND
    if len(text) == SHORT_TIME and text[10] == "T":
        within = whole % _DAY
        _DAYS[text[:10]], _TIMES[text[10:]] = whole - within, within
    return whole + (int(fraction[:6].ljust(6, "0")) if fraction else 0)


def are_normal(times: list[Any]) -> TypeGuard[list[str | None]]:
    """Whether all values are certainly timestamps in their normal form. It takes less time than to read them."""
    try:
        joined = "\n".join([*times, ""])
    except TypeError:
        return False
    return len(joined) == len(times) * (SHORT_TIME + 1) and _NORMAL.fullmatch(joined) is not None


def print_moment(moment: int) -> str:
    """A moment in the normal form of `ts_utc`: a fraction only where there is one."""
    return (_EPOCH + moment * _MICROSECOND).isoformat()[:-6] + "Z"


def normalise(text: str) -> str:
    """Trimmed, runs of white space as one space, lower-cased."""
    return " ".join(text.split()).lower()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands twice")
    return value


def _float(digits: str) -> float:
    value = float(digits)
    if value - value != 0.0:
        raise ValueError("an infinity")
    return value


def _constant(name: str) -> Any:
    raise ValueError(name)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)
