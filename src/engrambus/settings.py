"""What the environment says, read once. Nothing else in the package looks at it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from engrambus.errors import FieldValue

if TYPE_CHECKING:
    from engrambus.space.tuples import SpaceSettings


class Exports(msgspec.Struct, frozen=True, kw_only=True):
    """Where OpenTelemetry is told to send what it gathers; its SDK reads the rest of its environment itself."""

    traces: str | None = None
    """OTEL_TRACES_EXPORTER: `otlp`, `console`, or the name of another that is installed."""
    metrics: str | None = None
    """OTEL_METRICS_EXPORTER: the same for metrics."""
    protocol: str | None = None
    """OTEL_EXPORTER_OTLP_PROTOCOL: `grpc` or `http/protobuf`."""
    service: str = "engrambus"
    """OTEL_SERVICE_NAME."""

    @classmethod
    def from_environment(cls, given: Mapping[str, str]) -> Exports | None:
        """What the environment asks for; none when it asks for nothing."""
        if given.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return None
        endpoint = given.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        chosen = {}
        for signal in ("traces", "metrics"):
            named = given.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT") or endpoint
            name = given.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip() or ("otlp" if named else "none")
            chosen[signal] = None if name == "none" else name
        if not any(chosen.values()):
            return None
        protocol = given.get("OTEL_EXPORTER_OTLP_PROTOCOL") or None
        return cls(**chosen, protocol=protocol, service=given.get("OTEL_SERVICE_NAME") or "engrambus")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How this process was told to behave."""

    url: str | None = None
    """ENGRAMBUS_URL: speak to a gateway there instead of opening files."""
    token: str | None = None
    """ENGRAMBUS_TOKEN: the bearer token to act under."""
    run: str | None = None
    """ENGRAMBUS_RUN: the run to act in, for the local admin."""
    home: Path
    """HOME: where clients keep what holds for all projects."""
    state_home: Path
    """XDG_STATE_HOME: where keys are kept."""
    data_home: Path
    """XDG_DATA_HOME: where the stores that projects share are kept."""
    config_home: Path
    """XDG_CONFIG_HOME: where some clients keep what holds for all projects."""
    no_color: bool = False
    """NO_COLOR: print without colours, on a terminal too."""
    exports: Exports | None = None
    """OTEL_*: where spans and metrics go; nowhere unless said."""
    environment: dict[str, str] = {}
    """All of it: steps are given what their yools name, and nothing else of it."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """The settings the environment gives."""
        given = os.environ if environment is None else environment
        home = Path(given.get("HOME") or _account_home())
        return cls(
            url=given.get("ENGRAMBUS_URL") or None,
            token=given.get("ENGRAMBUS_TOKEN") or None,
            run=given.get("ENGRAMBUS_RUN") or None,
            home=home,
            config_home=_folder(given.get("XDG_CONFIG_HOME"), home / ".config"),
            state_home=_folder(given.get("XDG_STATE_HOME"), home / ".local" / "state"),
            data_home=_folder(given.get("XDG_DATA_HOME"), home / ".local" / "share"),
            no_color=bool(given.get("NO_COLOR")),
            exports=Exports.from_environment(given),
            environment=dict(given),
        )

    @property
    def ci(self) -> bool:
        """CI: whether a build is at work here, and no person."""
        return self.environment.get("CI", "").lower() in ("1", "true", "yes")

    def space(self) -> SpaceSettings:
        """How the tuple space behaves: `YOOL_TUPLE_*`, with the published defaults."""
        from engrambus.space.tuples import STAMPED_FIELDS, SpaceSettings, check_lane

        said: dict[str, Any] = {}
        for name, field in _WHOLE.items():
            if (text := self.environment.get(name)) is not None and field not in said:
                said[field] = _whole(name, text)
        for name, field in _SECONDS.items():
            if (text := self.environment.get(name)) is not None:
                said[field] = _seconds(name, text)
        for name, field in _TEXTS.items():
            if text := self.environment.get(name):
                said[field] = _text(name, text)
        if (lane := said.get("alarm_lane")) is not None:
            check_lane(lane, field="YOOL_TUPLE_ALARM_LANE")
        if listed := self.environment.get(_INDEXED):
            paths = {each.strip() for each in _text(_INDEXED, listed).split(",")} - {""}
            if said_elsewhere := sorted(paths & STAMPED_FIELDS):
                raise FieldValue(
                    f"{_INDEXED} names fields a tuple was created with; '{said_elsewhere[0]}' is none of them.",
                    field=_INDEXED,
                    used=said_elsewhere[0],
                )
            said["indexed_fields"] = tuple(sorted(paths))
        return SpaceSettings(**said)

    def key_folder(self, project: str) -> Path:
        """Where a project's keys are kept, apart from its files."""
        return self.state_home / "engrambus" / project

    @property
    def vscode_home(self) -> Path:
        """Where VS Code keeps what holds for all projects of an account."""
        application_support = self.home / "Library" / "Application Support"
        return (application_support if sys.platform == "darwin" else self.config_home) / "Code" / "User"

    @property
    def client_records(self) -> Path:
        """Where it is noted what was put into clients' files."""
        return self.state_home / "engrambus" / "clients"

    def shared_folder(self, scope: str) -> Path:
        """Where the store of a scope beyond the project is kept."""
        return self.data_home / "engrambus" / scope


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
_SECONDS = {"YOOL_TUPLE_LEASE_SECONDS": "lease_us", "YOOL_TUPLE_BACKOFF_SECONDS": "backoff_us"}
_TEXTS = {"YOOL_TUPLE_ALARM_LANE": "alarm_lane", "YOOL_TUPLE_CACHE_SALT": "cache_salt"}
_INDEXED = "YOOL_TUPLE_INDEXED"
_MOST = {"YOOL_TUPLE_CPU_QUOTA_PCT": 100, "YOOL_TUPLE_ALARM_PCT": 100}
_MAY_BE_NONE = frozenset({"YOOL_TUPLE_MAX_RETRIES", "YOOL_TUPLE_ALARM_PCT"})


MAX_DIGITS = 20


def _text(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of the environment that are no text
        raise FieldValue(f"{name} is not a text.", field=name) from None
    return text


def _whole(name: str, text: str) -> int:
    least, most = 0 if name in _MAY_BE_NONE else 1, _MOST.get(name, 1_000_000_000)
    digits = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
    if not digits or not least <= int(text) <= most:
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


def _account_home() -> str:
    """The home of the account, where the environment names none, as under a service manager."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # an account that nobody entered, as in some containers
        return "/"
