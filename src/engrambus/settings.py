"""Settings from the environment, read once. Nothing else in the package reads environment variables."""

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
    """The exporters of OpenTelemetry; its SDK reads its other variables itself."""

    traces: str | None = None
    """OTEL_TRACES_EXPORTER: `otlp`, `console`, or another that is installed."""
    metrics: str | None = None
    """OTEL_METRICS_EXPORTER: the same for metrics."""
    protocol: str | None = None
    """OTEL_EXPORTER_OTLP_PROTOCOL: `grpc` or `http/protobuf`."""
    service: str = "engrambus"
    """OTEL_SERVICE_NAME."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Exports | None:
        """Return the exporters that the variables name; None if they name none."""
        if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return None
        endpoint = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        chosen = {}
        for signal in ("traces", "metrics"):
            named = environment.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT") or endpoint
            name = environment.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip() or ("otlp" if named else "none")
            chosen[signal] = None if name == "none" else name
        if not any(chosen.values()):
            return None
        protocol = environment.get("OTEL_EXPORTER_OTLP_PROTOCOL") or None
        return cls(**chosen, protocol=protocol, service=environment.get("OTEL_SERVICE_NAME") or "engrambus")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of this process."""

    url: str | None = None
    """ENGRAMBUS_URL: call the server there instead of opening the project's files."""
    store_url: str | None = None
    """ENGRAMBUS_STORE: the database that keeps the project, `postgresql://…`; without it, files do."""
    token: str | None = None
    """ENGRAMBUS_TOKEN: the token of the agent to act as."""
    run: str | None = None
    """ENGRAMBUS_RUN: the run to act in, for the local admin."""
    private_home: Path | None = None
    """ENGRAMBUS_HOME: the folder of private state of all projects; without it, each project keeps it in `.catalog`."""
    home: Path
    """HOME: the folder where coding agents keep their configuration for all projects."""
    state_home: Path
    """XDG_STATE_HOME: the folder of keys."""
    data_home: Path
    """XDG_DATA_HOME: the folder of the stores that projects share."""
    config_home: Path
    """XDG_CONFIG_HOME: the folder where some coding agents keep their configuration for all projects."""
    no_color: bool = False
    """NO_COLOR: print without colours, even on a terminal."""
    semantic: bool = False
    """ENGRAMBUS_SEMANTIC: answer questions by meaning, too, with the model of the extra `engrambus[semantic]`."""
    bodies: str | None = None
    """ENGRAMBUS_BODIES: where bodies are kept, s3://bucket/prefix or a folder that several hosts share."""
    lock_seconds: float = 30.0
    """ENGRAMBUS_LOCK_SECONDS: how long a write waits for another process that holds the lock."""
    hook_modules: tuple[str, ...] = ()
    """ENGRAMBUS_HOOKS: modules with hooks of the primitives of work, separated by commas."""
    hook_seconds: float = 2.0
    """ENGRAMBUS_HOOK_SECONDS: how long such a hook may take."""
    exports: Exports | None = None
    """OTEL_*: where spans and metrics are sent; None sends none."""
    environment: dict[str, str] = {}
    """All variables; a step gets only those that its yool names."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Return the settings of an environment, by default this process's own."""
        environment = os.environ if environment is None else environment
        home = Path(environment.get("HOME") or _account_home())
        return cls(
            url=environment.get("ENGRAMBUS_URL") or None,
            store_url=environment.get("ENGRAMBUS_STORE") or None,
            token=environment.get("ENGRAMBUS_TOKEN") or None,
            run=environment.get("ENGRAMBUS_RUN") or None,
            private_home=_private_home(environment.get("ENGRAMBUS_HOME")),
            home=home,
            config_home=_folder(environment.get("XDG_CONFIG_HOME"), home / ".config"),
            state_home=_folder(environment.get("XDG_STATE_HOME"), home / ".local" / "state"),
            data_home=_folder(environment.get("XDG_DATA_HOME"), home / ".local" / "share"),
            no_color=bool(environment.get("NO_COLOR")),
            bodies=environment.get("ENGRAMBUS_BODIES") or None,
            semantic=_switch("ENGRAMBUS_SEMANTIC", environment.get("ENGRAMBUS_SEMANTIC")),
            lock_seconds=_seconds(_LOCK_SECONDS, environment[_LOCK_SECONDS]) / 1_000_000
            if environment.get(_LOCK_SECONDS)
            else 30.0,
            hook_modules=_names("ENGRAMBUS_HOOKS", environment.get("ENGRAMBUS_HOOKS")),
            hook_seconds=_seconds(_HOOK_SECONDS, environment[_HOOK_SECONDS]) / 1_000_000
            if environment.get(_HOOK_SECONDS)
            else 2.0,
            exports=Exports.from_environment(environment),
            environment=dict(environment),
        )

    @property
    def ci(self) -> bool:
        """CI: true if this process is part of an automated build."""
        return self.environment.get("CI", "").lower() in ("1", "true", "yes")

    def space(self) -> SpaceSettings:
        """Return the settings of the tuple space: `YOOL_TUPLE_*`, with the defaults of the specification."""
        from engrambus.space.tuples import STAMPED_FIELDS, SpaceSettings, check_lane

        values: dict[str, Any] = {}
        for name, field in _INTEGERS.items():
            if (text := self.environment.get(name)) is not None and field not in values:
                values[field] = _integer(name, text)
        for name, field in _SECONDS.items():
            if (text := self.environment.get(name)) is not None:
                values[field] = _seconds(name, text)
        for name, field in _TEXTS.items():
            if text := self.environment.get(name):
                values[field] = _text(name, text)
        if (lane := values.get("alarm_lane")) is not None:
            check_lane(lane, field="YOOL_TUPLE_ALARM_LANE")
        if listed := self.environment.get(_INDEXED):
            paths = {path.strip() for path in _text(_INDEXED, listed).split(",")} - {""}
            if stamped := sorted(paths & STAMPED_FIELDS):
                raise FieldValue(
                    f"{_INDEXED} lists fields that a tuple is created with; '{stamped[0]}' is set later.",
                    field=_INDEXED,
                    used=stamped[0],
                )
            values["indexed_fields"] = tuple(sorted(paths))
        return SpaceSettings(**values)

    def key_folder(self, project: str) -> Path:
        """Return the folder of a project's keys, which is outside the project."""
        return self.state_home / "engrambus" / project

    @property
    def claude_home(self) -> Path:
        """CLAUDE_CONFIG_DIR: the folder where Claude Code keeps its state, by default `.claude` in the home folder."""
        return _folder(self.environment.get("CLAUDE_CONFIG_DIR"), self.home / ".claude")

    @property
    def vscode_home(self) -> Path:
        """The folder of VS Code's configuration for all projects."""
        application_support = self.home / "Library" / "Application Support"
        return (application_support if sys.platform == "darwin" else self.config_home) / "Code" / "User"

    @property
    def client_records(self) -> Path:
        """The folder with records of what was written into coding agents' files."""
        return self.state_home / "engrambus" / "clients"

    def shared_folder(self, scope: str) -> Path:
        """Return the folder of the store of a scope wider than the project."""
        return (self.data_home / "engrambus").resolve() / scope


_LOCK_SECONDS = "ENGRAMBUS_LOCK_SECONDS"
_HOOK_SECONDS = "ENGRAMBUS_HOOK_SECONDS"
_INTEGERS = {
    "YOOL_TUPLE_LANE_CONCURRENCY": "lane_concurrency",
    "YOOL_TUPLE_MAX_LANE_CONCURRENCY": "max_lane_concurrency",
    "YOOL_MAX_LANE_CONCURRENCY": "max_lane_concurrency",
    "YOOL_TUPLE_CPU_QUOTA_PCT": "cpu_quota_pct",
    "YOOL_TUPLE_MAX_PROCESSES": "max_processes",
    "YOOL_TUPLE_WORKER_CPU_QUOTA_PCT": "worker_cpu_quota_pct",
    "YOOL_TUPLE_WORKER_MEMORY_MB": "worker_memory_mb",
    "YOOL_TUPLE_WORKER_MAX_PROCESSES": "worker_max_processes",
    "YOOL_TUPLE_QUEUE_MAXSIZE": "queue_maxsize",
    "YOOL_TUPLE_COMPRESSION_THRESHOLD": "compression_threshold",
    "YOOL_TUPLE_MAX_RETRIES": "max_retries",
    "YOOL_TUPLE_ALARM_PCT": "alarm_pct",
}
_SECONDS = {
    "YOOL_TUPLE_LEASE_SECONDS": "lease_us",
    "YOOL_TUPLE_TASK_LEASE_SECONDS": "task_lease_us",
    "YOOL_TUPLE_BACKOFF_SECONDS": "backoff_us",
    "YOOL_TUPLE_ALARM_WAIT_SECONDS": "alarm_wait_us",
}
_TEXTS = {"YOOL_TUPLE_ALARM_LANE": "alarm_lane", "YOOL_TUPLE_CACHE_SALT": "cache_salt"}
_INDEXED = "YOOL_TUPLE_INDEXED"
_MAXIMA = {"YOOL_TUPLE_CPU_QUOTA_PCT": 100, "YOOL_TUPLE_ALARM_PCT": 100}
_MAY_BE_ZERO = frozenset({"YOOL_TUPLE_MAX_RETRIES", "YOOL_TUPLE_ALARM_PCT"})


MAX_DIGITS = 20


def _text(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:  # a variable may hold any bytes
        raise FieldValue(f"{name} is not valid UTF-8 text.", field=name) from None
    return text


def _names(name: str, text: str | None) -> tuple[str, ...]:
    """Return the dotted names in a list that is separated by commas."""
    names = tuple(part.strip() for part in (text or "").split(",") if part.strip())
    for listed in names:
        if not all(part.isidentifier() for part in listed.split(".")):
            raise FieldValue(f"{name} lists full names of modules.", field=name, used=listed[:80])
    return names


def _integer(name: str, text: str) -> int:
    minimum, maximum = 0 if name in _MAY_BE_ZERO else 1, _MAXIMA.get(name, 1_000_000_000)
    digits = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
    if not digits or not minimum <= int(text) <= maximum:
        raise FieldValue(f"{name} must be a whole number.", field=name, limit=f"{minimum}..{maximum}", used=text[:40])
    return int(text)


def _seconds(name: str, text: str) -> int:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.001 <= seconds <= 86_400:
        raise FieldValue(f"{name} must be a number of seconds.", field=name, limit="0.001..86400", used=text[:40])
    return round(seconds * 1_000_000)


def _switch(name: str, text: str | None) -> bool:
    """Return whether a variable turns something on."""
    value = (text or "").strip().lower()
    if value not in ("", "0", "1", "false", "true", "no", "yes"):
        raise FieldValue(f"{name} must be 1 or 0.", field=name, limit="0, 1", used=value[:40])
    return value in ("1", "true", "yes")


def _folder(path: str | None, default: Path) -> Path:
    """Return the folder of an XDG variable; the XDG specification says to ignore a relative path."""
    return Path(path) if path and path.startswith("/") else default


def _private_home(path: str | None) -> Path | None:
    if path and not path.startswith("/"):
        raise FieldValue(
            "ENGRAMBUS_HOME must be an absolute path.", field="ENGRAMBUS_HOME", hint="Begin it with a slash."
        )
    # The folders above it are the machine's; only itself may not be a link.
    return Path(path).parent.resolve() / Path(path).name if path else None


def _account_home() -> str:
    """Return the account's home folder, for an environment without HOME, as under a service manager."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # an account without an entry, as in some containers
        return "/"
