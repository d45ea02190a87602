"""What the environment says, read once. Nothing else in the package looks at it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stigmergy.errors import FieldValue

if TYPE_CHECKING:
    from stigmergy.space.tuples import SpaceSettings


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How this process was told to behave."""

    url: str | None = None
    """STIGMERGY_URL: speak to a gateway there instead of opening files."""
    token: str | None = None
    """STIGMERGY_TOKEN: the bearer token to act under."""
    run: str | None = None
    """STIGMERGY_RUN: the run to act in, for the local admin."""
    state_home: Path
    """XDG_STATE_HOME: where keys are kept."""
    data_home: Path
    """XDG_DATA_HOME: where the stores that projects share are kept."""
    environment: dict[str, str] = {}
    """All of it: steps are given what their yools name, and nothing else of it."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """The settings the environment gives."""
        given = os.environ if environment is None else environment
        home = Path(given.get("HOME") or "/")
        return cls(
            url=given.get("STIGMERGY_URL") or None,
            token=given.get("STIGMERGY_TOKEN") or None,
            run=given.get("STIGMERGY_RUN") or None,
            state_home=_folder(given.get("XDG_STATE_HOME"), home / ".local" / "state"),
            data_home=_folder(given.get("XDG_DATA_HOME"), home / ".local" / "share"),
            environment=dict(given),
        )

    @property
    def ci(self) -> bool:
        """CI: whether a build is at work here, and no person."""
        return self.environment.get("CI", "").lower() in ("1", "true", "yes")

    def space(self) -> SpaceSettings:
        """How the tuple space behaves: `YOOL_TUPLE_*`, with the published defaults."""
        from stigmergy.space.tuples import SpaceSettings

        said: dict[str, Any] = {}
        for name, field in _WHOLE.items():
            if (text := self.environment.get(name)) is not None and field not in said:
                said[field] = _whole(name, text)
        for name, field in _SECONDS.items():
            if (text := self.environment.get(name)) is not None:
                said[field] = _seconds(name, text)
        for name, field in _TEXTS.items():
            if text := self.environment.get(name):
                said[field] = text
        if listed := self.environment.get("YOOL_TUPLE_INDEXED"):
            said["indexed"] = tuple(sorted({each.strip() for each in listed.split(",") if each.strip()}))
        return SpaceSettings(**said)

    def key_folder(self, project: str) -> Path:
        """Where a project's keys are kept, apart from its files."""
        return self.state_home / "stigmergy" / project

    def shared_folder(self, scope: str) -> Path:
        """Where the store of a scope beyond the project is kept."""
        return self.data_home / "stigmergy" / scope


_WHOLE = {
    "YOOL_TUPLE_LANE_CONCURRENCY": "lane_concurrency",
    "YOOL_TUPLE_MAX_LANE_CONCURRENCY": "max_lane_concurrency",
    "YOOL_MAX_LANE_CONCURRENCY": "max_lane_concurrency",
    "YOOL_TUPLE_CPU_QUOTA_PCT": "cpu_quota_pct",
    "YOOL_TUPLE_QUEUE_MAXSIZE": "queue_maxsize",
    "YOOL_TUPLE_COMPRESSION_THRESHOLD": "compression_threshold",
    "YOOL_TUPLE_MAX_RETRIES": "max_retries",
    "YOOL_TUPLE_ALARM_PCT": "alarm_pct",
}
_SECONDS = {"YOOL_TUPLE_LEASE_SECONDS": "lease", "YOOL_TUPLE_BACKOFF_SECONDS": "backoff"}
_TEXTS = {"YOOL_TUPLE_ALARM_LANE": "alarm_lane", "YOOL_TUPLE_CACHE_SALT": "salt"}
_MOST = {"YOOL_TUPLE_CPU_QUOTA_PCT": 100, "YOOL_TUPLE_ALARM_PCT": 100}
_MAY_BE_NONE = frozenset({"YOOL_TUPLE_MAX_RETRIES", "YOOL_TUPLE_ALARM_PCT"})


def _whole(name: str, text: str) -> int:
    least, most = 0 if name in _MAY_BE_NONE else 1, _MOST.get(name, 1_000_000_000)
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise FieldValue(f"{name} is a whole number.", field=name, limit=f"{least}..{most}", used=text[:40])
    return int(text)


def _seconds(name: str, text: str) -> int:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.001 <= seconds <= 86_400:
        raise FieldValue(f"{name} is a number of seconds.", field=name, limit="0.001..86400", used=text[:40])
    return round(seconds * 1_000_000)


def _folder(given: str | None, default: Path) -> Path:
    """A folder the XDG way: what is not absolute is ignored."""
    return Path(given) if given and given.startswith("/") else default
