"""What the environment says, read once. Nothing else in the package looks at it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec


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
