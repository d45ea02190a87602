"""What each client is to find in its own files: the MCP server, the hooks it has, the skill."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from engrambus.errors import FileNotFound
from engrambus.settings import Settings

SERVER = "engrambus"
CLIENTS = ("claude-code", "codex", "cursor", "vscode", "gemini")
PROGRAM = "engrambus"
SPAWN_TOOL = "Agent"
"""What a matcher calls the tool that starts a sub-agent; Codex knows it under this name too."""

STOP_SECONDS = 10
SECONDS = 5
_EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "SubagentStart", "SubagentStop", "PreToolUse")
_GEMINI_EVENTS = ("SessionStart", "BeforeAgent", "AfterAgent")


class Wish(NamedTuple):
    """One entry a file is to hold: a member under its path, or an item of the list there."""

    path: tuple[str, ...]
    value: Any
    item: bool = False


class File(NamedTuple):
    """One file of a client and what it is to hold."""

    path: Path
    format: Literal["json", "toml"]
    wishes: tuple[Wish, ...]


class Setup(NamedTuple):
    """Everything a client is to find."""

    files: tuple[File, ...]
    skill: Path
    """The folder the skill goes to."""


def installed_command(settings: Settings) -> list[str]:
    """Return `engrambus` where PATH finds this installation, otherwise its absolute path."""
    running = _running_program()
    on_path = shutil.which(PROGRAM, path=settings.environment.get("PATH"))
    if on_path is not None and os.path.samefile(on_path, running):
        return [PROGRAM]
    return [str(running)]


def _running_program() -> Path:
    started = Path(os.path.abspath(sys.argv[0]))
    if started.name == PROGRAM and started.is_file():
        return started
    sibling = Path(sys.executable).with_name(PROGRAM)
    if not sibling.is_file():
        raise FileNotFound(f"There is no {sibling}.", hint="Install Engram Bus into this Python environment.")
    return sibling


def is_absolute(command: Sequence[str]) -> bool:
    """True if the command holds a path of this machine, which must not be committed."""
    return os.path.isabs(command[0])


def setup_for(client: str, root: Path | None, settings: Settings, command: Sequence[str]) -> Setup:
    """What a client is to find in a project's folder, or in the home folder when there is no root."""
    base = root or settings.home
    hook = shlex.join([*command, "hook"])
    return _SETUPS[client](base, root is None, list(command), hook, settings)


def _claude(base: Path, user: bool, command: list[str], hook: str, settings: Settings) -> Setup:
    servers = base / (".claude.json" if user else ".mcp.json")
    return Setup(
        (
            File(servers, "json", (_server("mcpServers", command, "mcp", type="stdio"),)),
            File(base / ".claude" / "settings.json", "json", _hooks(hook)),
        ),
        base / ".claude" / "skills" / "less",
    )


def _codex(base: Path, user: bool, command: list[str], hook: str, settings: Settings) -> Setup:
    return Setup(
        (
            File(base / ".codex" / "config.toml", "toml", (_server("mcp_servers", command, "mcp"),)),
            File(base / ".codex" / "hooks.json", "json", _hooks(hook)),
        ),
        base / ".agents" / "skills" / "less",
    )


def _cursor(base: Path, user: bool, command: list[str], hook: str, settings: Settings) -> Setup:
    here = ("--project", "${workspaceFolder}")  # it starts servers where it likes
    return Setup(
        (
            File(base / ".cursor" / "mcp.json", "json", (_server("mcpServers", command, "mcp", *here),)),
            File(
                base / ".cursor" / "hooks.json",
                "json",
                (Wish(("version",), 1), Wish(("hooks", "stop"), {"command": hook}, item=True)),
            ),
        ),
        base / ".cursor" / "skills" / "less",
    )


def _vscode(base: Path, user: bool, command: list[str], hook: str, settings: Settings) -> Setup:
    place = settings.vscode_home if user else base / ".vscode"
    here = ("--project", "${workspaceFolder}")
    return Setup(
        (File(place / "mcp.json", "json", (_server("servers", command, "mcp", *here, type="stdio"),)),),
        base / (".copilot" if user else ".github") / "skills" / "less",
    )


def _gemini(base: Path, user: bool, command: list[str], hook: str, settings: Settings) -> Setup:
    run = {"name": SERVER, "type": "command", "command": hook, "timeout": SECONDS * 1000}
    events = [Wish(("hooks", event), {"hooks": [run]}, item=True) for event in _GEMINI_EVENTS]
    return Setup(
        (File(base / ".gemini" / "settings.json", "json", (_server("mcpServers", command, "mcp"), *events)),),
        base / ".gemini" / "skills" / "less",
    )


_SETUPS = {"claude-code": _claude, "codex": _codex, "cursor": _cursor, "vscode": _vscode, "gemini": _gemini}


def _server(servers: str, command: list[str], *words: str, **more: str) -> Wish:
    return Wish((servers, SERVER), {**more, "command": command[0], "args": [*command[1:], *words]})


def _hooks(command: str) -> tuple[Wish, ...]:
    return tuple(Wish(("hooks", event), each, item=True) for event, each in hook_groups(command).items())


def hook_groups(command: str) -> dict[str, dict[str, Any]]:
    """What Claude Code and Codex have under each event."""
    groups: dict[str, dict[str, Any]] = {}
    for event in _EVENTS:
        seconds = STOP_SECONDS if event == "SubagentStop" else SECONDS
        group: dict[str, Any] = {"hooks": [{"type": "command", "command": command, "timeout": seconds}]}
        groups[event] = {"matcher": SPAWN_TOOL, **group} if event == "PreToolUse" else group
    return groups


def is_ours(value: Any) -> bool:
    """Whether an entry runs Engram Bus, wherever it was installed."""
    if not isinstance(value, dict):
        return False
    inner = value.get("hooks")
    if isinstance(inner, list) and inner:
        return all(map(is_ours, inner))
    command, more = value.get("command"), value.get("args", [])
    if not isinstance(command, str) or not isinstance(more, list):
        return False
    try:
        words = ([command] if more else shlex.split(command)) + [str(word) for word in more]
    except ValueError:
        return False
    return len(words) > 1 and Path(words[0]).name == PROGRAM and words[1] in ("mcp", "hook")
