"""Filters of the page's templates: pointers, counts, durations and times as people read them."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec
from markupsafe import Markup

from engrambus.core import SECOND_US, is_digest, is_hex, parse_duration
from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import BodyAddress, RepoAddress, parse_ref
from engrambus.visible_text import make_visible

SHORT_HASH = 7
SHORT_DIGEST = len("sha256:") + SHORT_HASH
BODY_NAME = len("sha256:") + 12
"""Number of characters of its digest that name a stored body, which has no other name."""
SAFE_LINKS = ("https://", "vscode://file/")
"""Beginnings that a link out of the page may have."""

_SHORT_REF = re.compile(r"(?P<folder>(?:[^:@]*/)?)(?P<name>[^:@/]+)(?P<lines>(?::\d+(?:-\d+)?)?)@(?P<pin>[0-9a-f]{7})")


class PointerLabel(NamedTuple):
    """A pointer in parts, as the page shows it."""

    name: str
    """Name of the file, or of the thing pointed at."""
    folder: str
    """Everything that comes before the name, with a trailing slash."""
    lines: str
    """`:10-20`, or nothing."""
    pin: str
    """Shortened commit or digest, or nothing if the name is the digest."""


def pointer_label(ref: str) -> PointerLabel:
    """Split a pointer's ref into the parts that the page shows; any text is accepted."""
    try:
        address = parse_ref(ref)
    except EngramBusError:
        short = _SHORT_REF.fullmatch(ref)
        return PointerLabel(*short.group("name", "folder", "lines", "pin")) if short else PointerLabel(ref, "", "", "")
    if isinstance(address, RepoAddress):
        folder, slash, name = address.path.rpartition("/")
        repository = f"{address.repository}:" if address.repository else ""
        return PointerLabel(
            name, repository + folder + slash, _line_range(address.lines), address.revision[:SHORT_HASH]
        )
    if isinstance(address, BodyAddress):
        return PointerLabel(address.digest[:BODY_NAME], "artifact:", _line_range(address.lines), "")
    scheme, _, address_text = ref.partition(":")
    body, separator, pin = address_text.rpartition("@")
    if not separator:
        body, pin = address_text, ""
    short_pin = pin[:SHORT_HASH] if is_hex(pin, 40, 64) else pin[:SHORT_DIGEST] if is_digest(pin) else pin
    folder, slash, name = body.rpartition("/")
    return PointerLabel(name or body, f"{scheme}:{folder}{slash}", "", short_pin)


def _line_range(lines: tuple[int, int] | None) -> str:
    if lines is None:
        return ""
    first, last = lines
    return f":{first}" + (f"-{last}" if last != first else "")


def format_count(number: float) -> str:
    """Write a number in few characters: `950`, `12.4k`, `24k`, `3.1M`."""
    text = f"{number:,.0f}" if number == int(number) else f"{number:,.2f}"
    for unit, minimum, size in (("k", 10_000, 1000), ("M", 1_000_000, 1_000_000)):
        if abs(number) >= minimum:
            text = f"{number / size:.1f}".removesuffix(".0") + unit
    return text.replace("-", "−")


def format_duration(duration: str) -> str:
    """Write an ISO 8601 duration in words: `P14D` is `14 days`, `PT90M` is `1 hour 30 minutes`."""
    seconds = parse_duration(duration) // SECOND_US
    words = []
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1)):
        number, seconds = divmod(seconds, size)
        if number:
            words.append(f"{number:,} {unit}{'s' * (number > 1)}")
    return " ".join(words) or duration


def format_time(time: str) -> str:
    """Write a time to the second: `2026-11-15 16:38:35 UTC`."""
    return f"{time[:10]} {time[11:19]} UTC"


def safe_link(link: str | None) -> str | None:
    """Return a link that can only open a web page or an editor; None for any other."""
    return link if link and link.startswith(SAFE_LINKS) else None


def escape_invisible(value: Any) -> Any:
    """Replace invisible characters in a text with their escapes; return any other value unchanged (decision 72)."""
    # With direction marks, code that is displayed would not be the code that runs.
    if not isinstance(value, str):
        return value
    visible = make_visible(value)
    return Markup(visible) if isinstance(value, Markup) else visible  # noqa: S704  # the input was markup already


def to_json(value: Any) -> str:
    """Encode a value as JSON for the page's script."""
    return msgspec.json.encode(value).decode()
