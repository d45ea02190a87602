"""The resolver of `sam:` pointers: they name a version of an episode, or the one that was current on a day."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from engrambus.core import SECOND_US, parse_time
from engrambus.errors import EpisodeNotFound
from engrambus.evidence.pointers import Content, SamAddress
from engrambus.knowledge.cortex.ports import CortexReads

DAY_US = 86_400 * SECOND_US
MAX_VERSION_DIGITS = 9


class SamResolver:
    """Reads episodes of the project."""

    def __init__(self, read: Callable[[], AbstractContextManager[CortexReads]]) -> None:
        self._read = read

    def resolve(self, address: SamAddress) -> Content:
        """Return the text of the episode at the version or day that the address names."""
        version, before_us = None, None
        number = address.version.removeprefix("v")
        if number.isascii() and number.isdigit():
            version = int(number[:MAX_VERSION_DIGITS])
        else:
            before_us = _end_of_day_us(address.version)
        with self._read() as reads:
            episode = reads.episode(address.kind, address.slug, version=version, before_us=before_us)
        if episode is None:
            raise EpisodeNotFound(f"There is no episode {address.kind}:{address.slug} at '{address.version}'.")
        return Content.of(episode.text.encode())


def _end_of_day_us(day: str) -> int:
    try:
        return parse_time(f"{day}T00:00:00Z") + DAY_US
    except (ValueError, OverflowError):
        raise EpisodeNotFound(f"'{day}' is neither the version of an episode nor a day.") from None
