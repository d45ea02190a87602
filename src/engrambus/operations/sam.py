"""Where `sam:` pointers lead: a version of an episode, or the one that held on a day."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from engrambus.core import SECOND, parse_time
from engrambus.errors import EpisodeNotFound
from engrambus.evidence.pointers import Content, SamAddress
from engrambus.knowledge.cortex import CortexReads

DAY = 86_400 * SECOND
MAX_DIGITS = 9


class SamResolver:
    """Reads episodes of the project."""

    def __init__(self, read: Callable[[], AbstractContextManager[CortexReads]]) -> None:
        self._read = read

    def resolve(self, address: SamAddress) -> Content:
        """The text that was remembered."""
        version, before = None, None
        number = address.version.removeprefix("v")
        if number.isascii() and number.isdigit():
            version = int(number[:MAX_DIGITS])
        else:
            before = _end_of(address.version)
        with self._read() as reads:
            found = reads.episode(address.kind, address.slug, version=version, before=before)
        if found is None:
            raise EpisodeNotFound(f"Nothing was remembered as {address.kind}:{address.slug} then.")
        return Content.of(found.text.encode())


def _end_of(day: str) -> int:
    """The moment a day is over."""
    try:
        return parse_time(f"{day}T00:00:00Z") + DAY
    except (ValueError, OverflowError):
        raise EpisodeNotFound(f"'{day}' is neither a version of a memory nor a day.") from None
