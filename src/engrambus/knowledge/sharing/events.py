"""The lines of exported files: one signed event each, written one way only.

A file holds the events of one engram and is named by its id. Lines are only added, so merging two versions is the union
of their lines: neither their order nor a repeated line changes what they say (decision 119).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from engrambus.core import SECOND_US, canonical_id, is_ulid, parse_time
from engrambus.errors import EngramBusError, EventInvalid, TimeInvalid
from engrambus.evidence.pointers import Pointer
from engrambus.policy import SigningKey

EventName = Literal["put", "confirmed", "replaced", "withdrawn", "contradicted", "pinned", "unpinned"]

SHARED_FOLDER = "engrams"
"""The folder of exported files, in a worktree and in the tree of a shared ref."""
SHARED_SUFFIX = ".jsonl"
ATTRIBUTES_FILE = ".gitattributes"
ATTRIBUTES = b"""\
# Each line is an event of its own: git may merge two versions of a file by keeping the lines of both, in any order.
*.jsonl text eol=lf merge=union
"""
MAX_LINE_BYTES = 32_768
MAX_CLOCK_LEAD_US = 86_400 * SECOND_US
"""How far an event may lie ahead of our clock: clocks that are a time zone apart are common."""
_LATEST_US = 253_402_300_799 * SECOND_US
_DOMAIN = b"engrambus event 1\n"
"""Begins what is signed, so that no signature of another format can be taken for one of an event."""


class SharedEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One thing that happened to an engram; the order of its fields is the order on the line."""

    event: EventName
    id: str
    """The engram."""
    at: str
    by: str
    """Full name of the agent or person in its project."""
    kind: str = ""
    claim: str = ""
    pointers: tuple[Pointer, ...] = ()
    confidence: float | None = None
    ttl: str = ""
    expires: str = ""
    """End of its ttl: of the put, or from a confirmation on."""
    tags: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    """Ids of the engrams that this one was put in place of."""
    other: str = ""
    """The engram, or the memory, that replaced or contradicts it."""
    project: str = ""
    """Id of the project that the event comes from."""
    key: str = ""
    """Public key of its author."""
    signature: str = ""

    def signed_bytes(self) -> bytes:
        """Return what the signature covers: a fixed first line, then the event's line without its signature."""
        return _DOMAIN + _encode(msgspec.structs.replace(self, signature=""))

    def line(self) -> bytes:
        """Return the line of a file, without its line feed."""
        return _encode(self)

    def sign(self, key: SigningKey) -> SharedEvent:
        """Return the event with the signature of its author."""
        event = msgspec.structs.replace(self, key=key.public, signature="")
        return msgspec.structs.replace(event, signature=key.sign(event.signed_bytes()))


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(SharedEvent).decode


def read_event(line: bytes) -> SharedEvent:
    """Return the event on a line of a file; refuse a line that is written in any other way than ours."""
    if len(line) > MAX_LINE_BYTES:
        raise EventInvalid("The line is too long.", limit=MAX_LINE_BYTES, used=len(line))
    try:
        event = _decode(line)
        is_ours = event.line() == line
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:  # a ValueError: bytes that are no text
        raise EventInvalid(f"The line is not an event: {str(problem)[:200]}.") from None
    if not is_ours:  # one event has one line, or a flood of spellings would count as so many events
        raise EventInvalid("The line is not written as `engrambus export` writes it.")
    return event


def check_event(event: SharedEvent, engram_id: str, now_us: int) -> None:
    """Refuse an event that stands in another engram's file, names no project or lies in the future."""
    if event.id != engram_id or canonical_id(event.id) != event.id:
        raise EventInvalid("The event is about another engram than the file.", field="id", used=event.id[:64])
    if not is_ulid(event.project):
        raise EventInvalid("The event names no project.", field="project", used=event.project[:64])
    at_us = time_us(event.at)
    if at_us is None:
        raise TimeInvalid("The event has no time.", field="at", used=event.at[:64])
    if at_us > now_us + MAX_CLOCK_LEAD_US:
        raise TimeInvalid("The event lies in the future.", field="at", used=event.at)
    if event.event in ("put", "confirmed") and time_us(event.expires) is None:
        raise TimeInvalid("The event does not say when the engram ends.", field="expires", used=event.expires[:64])


def time_us(text: str) -> int | None:
    """Return a time in microseconds; None if a stranger wrote something else there."""
    try:
        moment_us = parse_time(text)
    except (ValueError, OverflowError, EngramBusError):
        return None
    return moment_us if 0 <= moment_us <= _LATEST_US else None


def file_name(engram_id: str) -> str:
    """Return the name of an engram's file."""
    return engram_id + SHARED_SUFFIX


def engram_of_file(name: str) -> str | None:
    """Return the engram that a file is named by; None if it is no such file."""
    engram_id = name.removesuffix(SHARED_SUFFIX)
    return engram_id if name.endswith(SHARED_SUFFIX) and canonical_id(engram_id) == engram_id else None
