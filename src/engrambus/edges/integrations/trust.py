"""Whether a client reads the files of a folder at all: two ask first, and pass over what stands there until then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from engrambus.edges.integrations import jsonc, toml


def is_read(client: str, root: Path, home: Path) -> bool:
    """Whether the client would heed its files in a project's folder; what cannot be read says nothing against it."""
    asks = _ASKING.get(client)
    try:
        return asks is None or asks(root.resolve(), home)
    except (OSError, ValueError):
        return True


def _codex(root: Path, home: Path) -> bool:
    """Codex trusts the one folder it was asked about, the checkout's."""
    projects = _held(home / ".codex" / "config.toml", toml.read).get("projects")
    entry = projects.get(str(root)) if isinstance(projects, dict) else None
    return isinstance(entry, dict) and entry.get("trust_level") == "trusted"


def _gemini(root: Path, home: Path) -> bool:
    """Gemini trusts a folder with everything below it, unless it was told to ask no more."""
    settings = _held(home / ".gemini" / "settings.json", _json)
    security = settings.get("security")
    asking = security.get("folderTrust") if isinstance(security, dict) else None
    if isinstance(asking, dict) and asking.get("enabled") is False:
        return True
    trusted = _held(home / ".gemini" / "trustedFolders.json", _json)
    return any(trusted.get(str(folder)) == "TRUST_FOLDER" for folder in (root, *root.parents))


def _held(path: Path, read: Callable[[str], Any]) -> dict[str, Any]:
    try:
        found = read(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        return {}
    return found if isinstance(found, dict) else {}


def _json(text: str) -> Any:
    node = jsonc.read(text)
    return node.value if node else {}


_ASKING = {"codex": _codex, "gemini": _gemini}
