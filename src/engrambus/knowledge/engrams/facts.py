"""What engrams write into the journal."""

from __future__ import annotations

import msgspec

from engrambus.knowledge.engrams.values import Engram


class EngramPut(msgspec.Struct, frozen=True, kw_only=True, tag="engram.put", tag_field="fact", omit_defaults=True):
    """An engram was put on the bus."""

    engram: Engram
    run: str
    """The run it was put in."""
    expires_at: int
    """When its ttl runs out, fixed at put; microseconds."""
    more_keys: tuple[str, ...] = ()
    """Keys it is also found by, beyond the thirty-two it shows."""
    pointed_tokens: int = 0
    """What stands behind its pointers, as far as it could be read here; for the figures."""


class EngramReceived(
    msgspec.Struct, frozen=True, kw_only=True, tag="engram.received", tag_field="fact", omit_defaults=True
):
    """A store that several projects share took an engram in."""

    engram: Engram
    run: str
    """The run it was put in."""
    expires_at: int
    origin: str
    """The project it came from."""
    more_keys: tuple[str, ...] = ()


class EngramDelivered(msgspec.Struct, frozen=True, kw_only=True, tag="engram.delivered", tag_field="fact"):
    """An engram on its way to a shared store has arrived there, and is kept here no more."""

    id: str


class EngramPromoted(msgspec.Struct, frozen=True, kw_only=True, tag="engram.promoted", tag_field="fact"):
    """An engram is seen further than before."""

    id: str
    space: str
    """Where it was."""
    scope: str
    """The scope it has now."""
    by: str


class EngramForgotten(msgspec.Struct, frozen=True, kw_only=True, tag="engram.forgotten", tag_field="fact"):
    """An engram was taken off the bus."""

    id: str
    space: str
    """Where it was."""
    by: str


class EngramConfirmed(msgspec.Struct, frozen=True, kw_only=True, tag="engram.confirmed", tag_field="fact"):
    """Somebody says again what an engram says: it lives on, and counts one more root of the hierarchy behind it."""

    id: str
    space: str
    by: str
    root: str
    """The agent at the top of the confirmer's line; it has one vote, however many speak below it."""
    expires_at: int


class EngramPinned(msgspec.Struct, frozen=True, kw_only=True, tag="engram.pinned", tag_field="fact"):
    """Somebody wants an engram to stand first in every brief."""

    id: str
    space: str
    by: str


class EngramUnpinned(msgspec.Struct, frozen=True, kw_only=True, tag="engram.unpinned", tag_field="fact"):
    """An engram takes its turn in the briefs again."""

    id: str
    space: str
    by: str
