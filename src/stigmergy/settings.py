"""What the environment says, read once. Nothing else in the package looks at it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec


class Exports(msgspec.Struct, frozen=True, kw_only=True):
    """Where OpenTelemetry is told to send what it gathers; its SDK reads the rest of its environment itself."""

    traces: str | None = None
    """OTEL_TRACES_EXPORTER: `otlp`, `console`, or the name of another that is installed."""
    metrics: str | None = None
    """OTEL_METRICS_EXPORTER: the same for metrics."""
    protocol: str | None = None
    """OTEL_EXPORTER_OTLP_PROTOCOL: `grpc` or `http/protobuf`."""
    service: str = "stigmergy"
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
        return cls(**chosen, protocol=protocol, service=given.get("OTEL_SERVICE_NAME") or "stigmergy")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How this process was told to behave."""

    url: str | None = None
    """STIGMERGY_URL: speak to a gateway there instead of opening files."""
    token: str | None = None
    """STIGMERGY_TOKEN: the bearer token to act under."""
    run: str | None = None
    """STIGMERGY_RUN: the run to act in, for the local admin."""
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

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """The settings the environment gives."""
        given = os.environ if environment is None else environment
        home = Path(given.get("HOME") or "/")
        return cls(
            url=given.get("STIGMERGY_URL") or None,
            token=given.get("STIGMERGY_TOKEN") or None,
            run=given.get("STIGMERGY_RUN") or None,
            home=home,
            config_home=_folder(given.get("XDG_CONFIG_HOME"), home / ".config"),
            state_home=_folder(given.get("XDG_STATE_HOME"), home / ".local" / "state"),
            data_home=_folder(given.get("XDG_DATA_HOME"), home / ".local" / "share"),
            no_color=bool(given.get("NO_COLOR")),
            exports=Exports.from_environment(given),
        )

    def key_folder(self, project: str) -> Path:
        """Where a project's keys are kept, apart from its files."""
        return self.state_home / "stigmergy" / project

    @property
    def vscode_home(self) -> Path:
        """Where VS Code keeps what holds for all projects of an account."""
        application_support = self.home / "Library" / "Application Support"
        return (application_support if sys.platform == "darwin" else self.config_home) / "Code" / "User"

    @property
    def client_notes(self) -> Path:
        """Where it is noted what was put into clients' files."""
        return self.state_home / "stigmergy" / "clients"

    def shared_folder(self, scope: str) -> Path:
        """Where the store of a scope beyond the project is kept."""
        return self.data_home / "stigmergy" / scope


def _folder(given: str | None, default: Path) -> Path:
    """A folder the XDG way: what is not absolute is ignored."""
    return Path(given) if given and given.startswith("/") else default
