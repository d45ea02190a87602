"""Yool names: `agent.lint.ruff`, two to five segments, then perhaps the version: `agent.lint.ruff.v3`."""

from __future__ import annotations

import re
from typing import NamedTuple

from engrambus.errors import LaneName, YoolName, YoolReserved

MAX_NAME = 120
MAX_LANE = 64
MAX_VERSION_DIGITS = 6
MAX_BASE = MAX_NAME - len(".v") - MAX_VERSION_DIGITS
"""A name without its version leaves room for any it may come to have."""
RESERVED = "catalog"
"""The domain of the yools that tell about the catalog itself."""

_SEGMENT = "[a-z][a-z0-9_]{0,39}"
_ONE = re.compile(_SEGMENT)
_NUMBER = f"[1-9][0-9]{{0,{MAX_VERSION_DIGITS - 1}}}"
_NAME = re.compile(rf"(?P<base>{_SEGMENT}(?:\.{_SEGMENT}){{1,4}}?)(?:\.v(?P<version>{_NUMBER}))?")
_VERSION = re.compile(r"v[0-9]+")
_LANE = re.compile(r"[a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*)*")

_HINT = "Write it like agent.lint.ruff or agent.lint.ruff.v2: two to five segments of a-z, 0-9 and _, then vN."


class Name(NamedTuple):
    """A yool's name taken apart."""

    base: str
    """Without the version: `agent.lint.ruff`."""
    version: int | None
    """None: whichever is the newest."""


def parse_name(text: str, field: str = "name", line: int | None = None) -> Name:
    """The name a text says, or a refusal that tells how names are written."""
    if len(text) > MAX_NAME:
        raise YoolName("The name is too long.", field=field, limit=MAX_NAME, used=len(text), line=line, hint=_HINT)
    found = _NAME.fullmatch(text)
    if found is None:
        raise YoolName(_wrong(text), field=field, used=text, line=line, hint=_HINT)
    base, version = found["base"], found["version"]
    if any(_VERSION.fullmatch(segment) for segment in base.split(".")):
        raise YoolName(_wrong(text), field=field, used=text, line=line, hint=_HINT)
    if len(base) > MAX_BASE:
        raise YoolName(
            "The name is too long without its version.", field=field, limit=MAX_BASE, used=len(base), line=line
        )
    return Name(base, int(version) if version else None)


def is_segment(text: str) -> bool:
    """Whether a text can stand between the dots of a name."""
    return _ONE.fullmatch(text) is not None and not _VERSION.fullmatch(text)


def check_not_reserved(base: str, field: str = "name", line: int | None = None) -> None:
    """Refuse a name that belongs to the catalog's own yools."""
    if base.partition(".")[0] == RESERVED:
        raise YoolReserved(
            f"'{base}' cannot be declared: the names under '{RESERVED}' are the catalog's own.",
            field=field,
            used=base,
            line=line,
        )


def check_lane(lane: str, field: str = "lane", line: int | None = None) -> str:
    """The lane if it can be one: `build`, `gc.urgent`."""
    if not 0 < len(lane) <= MAX_LANE or not _LANE.fullmatch(lane):
        raise LaneName(
            "A lane is written in a-z, 0-9, '_' and '-', its parts joined by dots, each beginning with a letter.",
            field=field,
            limit=MAX_LANE,
            used=lane[: MAX_LANE + 1],
            line=line,
        )
    return lane


def _wrong(text: str) -> str:
    """What is wrong with a name that is not one."""
    segments = text.split(".")
    if any(not segment for segment in segments):
        return f"'{text}' has an empty segment."
    versions = [segment for segment in segments if _VERSION.fullmatch(segment)]
    if versions and segments[-1] in versions and len(versions) == 1:
        if segments[-1][1] == "0" or len(segments[-1]) > MAX_VERSION_DIGITS + 1:
            return f"'{text}' has no version '{segments[-1]}': they are v1, v2 and so on, up to v999999."
        segments.pop()
    elif versions:
        return f"'{text}' has a version, '{versions[0]}', where a segment should stand: it comes once, at the end."
    odd = [segment for segment in segments if not _ONE.fullmatch(segment)]
    if odd:
        return f"'{text}' has a segment, '{odd[0]}', that is not a letter followed by up to 39 of a-z, 0-9 and _."
    return f"'{text}' has {len(segments)} segment{'s' * (len(segments) != 1)} beside the version; it takes two to five."
