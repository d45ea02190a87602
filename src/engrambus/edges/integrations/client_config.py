"""The entries that each client's configuration files should have: the MCP server, the hooks, the skill."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from engrambus.edges.integrations.tool_call_hook import OUR_TOOLS
from engrambus.errors import FileNotFound
from engrambus.settings import Settings

SERVER = "engrambus"
PROGRAM = "engrambus"
CLIENTS = ("claude-code", "codex", "cursor", "vscode", "gemini")
SPAWN_TOOL = "Agent"
"""Matches the tool that starts a sub-agent; Codex accepts this name as well."""
CHILD_TOOLS = "Agent|TaskOutput|.*wait_agent"
"""Matches the tools in whose result a sub-agent answers: of Claude Code, and of Codex, which adds its own prefix."""

EDITING_TOOLS = "Edit|Write|MultiEdit|NotebookEdit|apply_patch"
"""Matches the tools that edit files, of Claude Code and of Codex."""

SUBAGENT_STOP_TIMEOUT_SECONDS = 10
HOOK_TIMEOUT_SECONDS = 5
_EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "SubagentStart", "SubagentStop", "PreToolUse", "PostToolUse")
_MATCHERS = {"PreToolUse": (SPAWN_TOOL, OUR_TOOLS, EDITING_TOOLS), "PostToolUse": (CHILD_TOOLS,)}
"""Events of every tool; without a matcher each tool call would start a process of ours."""
_CLAUDE_EVENTS = (*_EVENTS, "SessionEnd")
"""Events of Claude Code: Codex does not report the end of a session."""
SESSION_TURNS = ("--session-turns", "4")
"""Where no hook tells agents apart, those of a session share the lead of its server: it has four turns' worth."""
_GEMINI_EVENTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("SessionStart", {}),
    ("BeforeAgent", {}),
    ("BeforeTool", {"matcher": "write_file|replace"}),
)
_GEMINI_FORMER_EVENTS = ("AfterAgent",)


class ConfigEntry(NamedTuple):
    """An entry of a configuration file: the value at a path, or an item of the list there."""

    path: tuple[str, ...]
    value: Any
    is_item: bool = False


class ClientFile(NamedTuple):
    """A client's configuration file and the entries it should have."""

    path: Path
    format: Literal["json", "toml"]
    entries: tuple[ConfigEntry, ...]
    former: tuple[tuple[str, ...], ...] = ()
    """Lists that had an item of ours in earlier versions; `install` and `uninstall` remove it."""


class ClientSetup(NamedTuple):
    """Everything a client needs."""

    files: tuple[ClientFile, ...]
    skill: Path
    """The folder of the skill."""


def installed_command(settings: Settings) -> list[str]:
    """Return `engrambus` where PATH finds this installation, otherwise its absolute path."""
    running = _running_program()
    # decision 41: a foreign program of this name on PATH must never run inside a hook, so the files are compared.
    on_path = shutil.which(PROGRAM, path=settings.environment.get("PATH"))
    if on_path is not None and os.path.samefile(on_path, running):
        return [PROGRAM]
    return [str(running)]


def _running_program() -> Path:
    # Under `python -m` or a test runner argv[0] is another program; the environment's own script is used then.
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


def setup_for(client: str, root: Path | None, settings: Settings, command: Sequence[str]) -> ClientSetup:
    """Return a client's setup for a project's folder, or for the home folder if `root` is None."""
    base = root or settings.home
    hook = shlex.join([*command, "hook"])
    return _SETUPS[client](base, root is None, list(command), hook, settings)


def _claude(base: Path, user: bool, command: list[str], hook: str, settings: Settings) -> ClientSetup:
    # Claude Code reads servers of the account and of the project from different files.
    servers = base / (".claude.json" if user else ".mcp.json")
    return ClientSetup(
        (
            ClientFile(servers, "json", (_server("mcpServers", command, "mcp", type="stdio"),)),
            ClientFile(base / ".claude" / "settings.json", "json", _hooks(hook, _CLAUDE_EVENTS)),
        ),
        base / ".claude" / "skills" / "less",
    )


def _codex(base: Path, user: bool, command: list[str], hook: str, settings: Settings) -> ClientSetup:
    return ClientSetup(
        (
            ClientFile(base / ".codex" / "config.toml", "toml", (_server("mcp_servers", command, "mcp"),)),
            ClientFile(base / ".codex" / "hooks.json", "json", _hooks(hook)),
        ),
        base / ".agents" / "skills" / "less",
    )


def _cursor(base: Path, user: bool, command: list[str], hook: str, settings: Settings) -> ClientSetup:
    # Cursor does not start servers in the project's folder.
    project = ("--project", "${workspaceFolder}")
    server = _server("mcpServers", command, "mcp", *SESSION_TURNS, *project)
    return ClientSetup(
        (
            ClientFile(base / ".cursor" / "mcp.json", "json", (server,)),
            # decision 44: the turns of a server's own lead end by themselves, so no hook is told of them
            ClientFile(base / ".cursor" / "hooks.json", "json", (), former=(("hooks", "stop"),)),
        ),
        base / ".cursor" / "skills" / "less",
    )


def _vscode(base: Path, user: bool, command: list[str], hook: str, settings: Settings) -> ClientSetup:
    folder = settings.vscode_home if user else base / ".vscode"
    # VS Code replaces the variable itself; the working folder of a server is not documented.
    project = ("--project", "${workspaceFolder}")
    server = _server("servers", command, "mcp", *SESSION_TURNS, *project, type="stdio")
    return ClientSetup(
        (ClientFile(folder / "mcp.json", "json", (server,)),),
        base / (".copilot" if user else ".github") / "skills" / "less",
    )


def _gemini(base: Path, user: bool, command: list[str], hook: str, settings: Settings) -> ClientSetup:
    # Gemini counts a hook's timeout in milliseconds, the other clients in seconds.
    run = {"name": SERVER, "type": "command", "command": hook, "timeout": HOOK_TIMEOUT_SECONDS * 1000}
    hooks = tuple(
        ConfigEntry(("hooks", event), {**matcher, "hooks": [run]}, is_item=True) for event, matcher in _GEMINI_EVENTS
    )
    former = tuple(("hooks", event) for event in _GEMINI_FORMER_EVENTS)
    # Gemini lets a hook change a tool's input, but does not say which sub-agent calls.
    server = _server("mcpServers", command, "mcp", *SESSION_TURNS)
    return ClientSetup(
        (ClientFile(base / ".gemini" / "settings.json", "json", (server, *hooks), former),),
        base / ".gemini" / "skills" / "less",
    )


_SETUPS = {"claude-code": _claude, "codex": _codex, "cursor": _cursor, "vscode": _vscode, "gemini": _gemini}


def _server(servers: str, command: list[str], *arguments: str, **members: str) -> ConfigEntry:
    return ConfigEntry((servers, SERVER), {**members, "command": command[0], "args": [*command[1:], *arguments]})


def _hooks(command: str, events: Sequence[str] = _EVENTS) -> tuple[ConfigEntry, ...]:
    return tuple(
        ConfigEntry(("hooks", event), group, is_item=True)
        for event, groups in hook_groups(command, events).items()
        for group in groups
    )


def hook_groups(command: str, events: Sequence[str] = _CLAUDE_EVENTS) -> dict[str, list[dict[str, Any]]]:
    """Return the hook entries of each event, as Claude Code and Codex write them; by default for Claude Code."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        seconds = SUBAGENT_STOP_TIMEOUT_SECONDS if event == "SubagentStop" else HOOK_TIMEOUT_SECONDS
        group: dict[str, Any] = {"hooks": [{"type": "command", "command": command, "timeout": seconds}]}
        matchers = [{"matcher": matcher} for matcher in _MATCHERS[event]] if event in _MATCHERS else [{}]
        groups[event] = [{**matcher, **group} for matcher in matchers]
    return groups


def runs_engrambus(value: Any) -> bool:
    """True if an entry runs Engram Bus, wherever it is installed."""
    if not isinstance(value, dict):
        return False
    # A group counts as ours only if all of its hooks are: removing it must not remove a hook of the user's.
    inner = value.get("hooks")
    if isinstance(inner, list) and inner:
        return all(map(runs_engrambus, inner))
    command, arguments = value.get("command"), value.get("args", [])
    if not isinstance(command, str) or not isinstance(arguments, list):
        return False
    try:
        words = ([command] if arguments else shlex.split(command)) + [str(word) for word in arguments]
    except ValueError:
        return False
    return len(words) > 1 and Path(words[0]).name == PROGRAM and words[1] in ("mcp", "hook")
