"""Yool names: `agent.lint.ruff`, two to five segments, optionally followed by the version: `agent.lint.ruff.v3`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from heapq import nsmallest
from typing import NamedTuple

from engrambus.errors import LaneName, YoolName, YoolReserved

MAX_NAME = 120
MAX_LANE = 64
MAX_VERSION_DIGITS = 6
MAX_BASE = MAX_NAME - len(".v") - MAX_VERSION_DIGITS
"""Length limit of a name without its version, so that every version of it fits into MAX_NAME (decision 21)."""
RESERVED = "catalog"
"""The domain of the yools that describe the catalog itself."""
MAX_SUGGESTIONS = 3

_SEGMENT = "[a-z][a-z0-9_]{0,39}"
_SEGMENT_PATTERN = re.compile(_SEGMENT)
_NUMBER = f"[1-9][0-9]{{0,{MAX_VERSION_DIGITS - 1}}}"
# The base is matched lazily (`{1,4}?`), or the version would be taken for its last segment.
_NAME = re.compile(rf"(?P<base>{_SEGMENT}(?:\.{_SEGMENT}){{1,4}}?)(?:\.v(?P<version>{_NUMBER}))?")
_VERSION = re.compile(r"v[0-9]+")
_LANE = re.compile(r"[a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*)*")

_HINT = "Write it like agent.lint.ruff or agent.lint.ruff.v2: two to five segments of a-z, 0-9 and _, then vN."


class ParsedName(NamedTuple):
    """A yool's name, split into base and version."""

    base: str
    """The name without its version: `agent.lint.ruff`."""
    version: int | None
    """None for the newest version."""


def parse_name(text: str, field: str = "name", line: int | None = None) -> ParsedName:
    """Parse a yool name; `field` and `line` say where it was written, for the error."""
    if len(text) > MAX_NAME:
        raise YoolName("The name is too long.", field=field, limit=MAX_NAME, used=len(text), line=line, hint=_HINT)
    match = _NAME.fullmatch(text)
    if match is None:
        raise YoolName(_explain(text), field=field, used=text, line=line, hint=_HINT)
    base, version = match["base"], match["version"]
    if any(_VERSION.fullmatch(segment) for segment in base.split(".")):
        raise YoolName(_explain(text), field=field, used=text, line=line, hint=_HINT)
    if len(base) > MAX_BASE:
        raise YoolName(
            "The name without its version is too long.", field=field, limit=MAX_BASE, used=len(base), line=line
        )
    return ParsedName(base, int(version) if version else None)


def is_segment(text: str) -> bool:
    """True if a text can be one segment of a name."""
    return _SEGMENT_PATTERN.fullmatch(text) is not None and not _VERSION.fullmatch(text)


def check_not_reserved(base: str, field: str = "name", line: int | None = None) -> None:
    """Refuse a name of the domain that is reserved for the catalog's own yools."""
    if base.partition(".")[0] == RESERVED:
        raise YoolReserved(
            f"'{base}' cannot be declared: names under '{RESERVED}' are reserved for the catalog itself.",
            field=field,
            used=base,
            line=line,
        )


def read_lane(lane: str, field: str = "lane", line: int | None = None) -> str:
    """Return the lane of a yool, like `build` or `gc.urgent`, or refuse it."""
    if not 0 < len(lane) <= MAX_LANE or not _LANE.fullmatch(lane):
        raise LaneName(
            "A lane is written in a-z, 0-9, '_' and '-'; parts are joined by dots and each begins with a letter.",
            field=field,
            limit=MAX_LANE,
            used=lane[: MAX_LANE + 1],
            line=line,
        )
    return lane


def nearest_names(name: str, names: Sequence[str]) -> list[str]:
    """Return up to three similar names, the most similar first.

    All names are ranked by shared trigrams, since a typing error may be anywhere in a name; only the best few are then
    compared exactly, which is slow.
    """
    from difflib import SequenceMatcher

    padded = f" {name} "
    trigrams = {padded[index : index + 3] for index in range(len(padded) - 2)}

    def rank(candidate: str) -> tuple[float, str]:
        padded = f" {candidate} "
        return -sum([trigram in padded for trigram in trigrams]) / (len(trigrams) + len(candidate)), candidate

    best = nsmallest(12, names, key=rank)
    rated = [(SequenceMatcher(None, name, candidate, autojunk=False).ratio(), candidate) for candidate in best]
    rated.sort(key=lambda pair: (-pair[0], pair[1]))
    return [candidate for ratio, candidate in rated if ratio >= 0.6][:MAX_SUGGESTIONS]


def _explain(text: str) -> str:
    """Explain why `text` is not a valid yool name."""
    segments = text.split(".")
    if any(not segment for segment in segments):
        return f"'{text}' has an empty segment."
    versions = [segment for segment in segments if _VERSION.fullmatch(segment)]
    if versions and segments[-1] in versions and len(versions) == 1:
        if segments[-1][1] == "0" or len(segments[-1]) > MAX_VERSION_DIGITS + 1:
            return f"'{text}' has an invalid version '{segments[-1]}': versions are v1, v2 and so on, up to v999999."
        segments.pop()
    elif versions:
        return f"'{text}' has a version, '{versions[0]}', in the wrong place: a version comes once, at the end."
    invalid = [segment for segment in segments if not _SEGMENT_PATTERN.fullmatch(segment)]
    if invalid:
        return f"'{text}' has a segment, '{invalid[0]}', that is not a letter followed by up to 39 of a-z, 0-9 and _."
    count = len(segments)
    return f"'{text}' has {count} segment{'s' * (count != 1)} besides the version; a name has two to five."
