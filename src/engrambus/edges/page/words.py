"""How values are written on the page: counts, and pointers in few words."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec
from markupsafe import Markup

from engrambus.core import SECOND, is_digest, is_hex, parse_duration
from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import BodyAddress, RepoAddress, parse_ref

SHORT = 7
BODY = 12
"""How many digits name a stored body, which has no name of its own."""
LINKS = ("https://", "vscode://file/")
"""What a link off the page may begin with."""


_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Characters that turn the direction of what follows: with them a text, or code, can read as what it is not."""


class Place(NamedTuple):
    """A pointer taken apart for its readers."""

    name: str
    """The file's name, or what stands for it."""
    folder: str
    """What comes before the name, with its slash."""
    lines: str
    """`:10-20`, or nothing."""
    pin: str
    """The commit or digest, shortened; nothing for what is named by its digest."""


def place(ref: str) -> Place:
    """A pointer for people: its name first, so that it can be cut at the end."""
    try:
        address = parse_ref(ref)
    except EngramBusError:
        return Place(ref, "", "", "")
    if isinstance(address, RepoAddress):
        folder, slash, name = address.path.rpartition("/")
        home = f"{address.repository}:" if address.repository else ""
        return Place(name, home + folder + slash, _lines(address.lines), address.revision[:SHORT])
    if isinstance(address, BodyAddress):
        return Place(address.digest[: 7 + BODY], "artifact:", _lines(address.lines), "")
    scheme, _, rest = ref.partition(":")
    body, mark, pin = rest.rpartition("@")
    if not mark:
        body, pin = rest, ""
    short = pin[:SHORT] if is_hex(pin, 40, 64) else pin[: 7 + SHORT] if is_digest(pin) else pin
    folder, slash, name = body.rpartition("/")
    return Place(name or body, f"{scheme}:{folder}{slash}", "", short)


def _lines(span: tuple[int, int] | None) -> str:
    if span is None:
        return ""
    first, last = span
    return f":{first}" + (f"-{last}" if last != first else "")


def count(number: float) -> str:
    """A count that stays short: `950`, `12.4k`, `24k`, `3.1M`."""
    text = f"{number:,.0f}" if number == int(number) else f"{number:,.2f}"
    for unit, least, size in (("k", 10_000, 1000), ("M", 1_000_000, 1_000_000)):
        if abs(number) >= least:
            text = f"{number / size:.1f}".removesuffix(".0") + unit
    return text.replace("-", "−")


def lasting(duration: str) -> str:
    """A duration in words: `P14D` is `14 days`, `PT90M` is `1 hour 30 minutes`."""
    left = parse_duration(duration) // SECOND
    words = []
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1)):
        number, left = divmod(left, size)
        if number:
            words.append(f"{number:,} {unit}{'s' * (number > 1)}")
    return " ".join(words) or duration


def moment(time: str) -> str:
    """A time as the journal has it, to the second: `2026-11-15 16:38:35 UTC`."""
    return f"{time[:10]} {time[11:19]} UTC"


def outward(link: str | None) -> str | None:
    """A link off the page, if it is of a kind that can only open a page or an editor."""
    return link if link and link.startswith(LINKS) else None


def shown(value: Any) -> Any:
    """A value as it goes into the page: what would make it read as something else is shown as its escape."""
    if not isinstance(value, str) or not _TURNS.search(value):
        return value
    plain = _TURNS.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
    return Markup(plain) if isinstance(value, Markup) else plain  # noqa: S704  # it was markup, and no mark was added


def as_json(value: Any) -> str:
    """A value for a script to read."""
    return msgspec.json.encode(value).decode()
