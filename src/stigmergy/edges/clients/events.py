"""What a client's hook was told, from its own words to ours."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

import msgspec

from stigmergy.core import read_json
from stigmergy.errors import FieldType, FieldValue

MAX_BYTES = 16 * 1024 * 1024
"""More than any last answer; a client that sends more is not read."""

Kind = Literal["session_start", "prompt", "stop", "subagent_start", "subagent_stop", "spawn"]

_KINDS: dict[str, Kind] = {
    "SessionStart": "session_start",  # Claude Code, Codex, Gemini
    "UserPromptSubmit": "prompt",
    "Stop": "stop",
    "SubagentStart": "subagent_start",
    "SubagentStop": "subagent_stop",
    "PreToolUse": "spawn",
    "BeforeAgent": "prompt",  # Gemini
    "AfterAgent": "stop",
    "stop": "stop",  # Cursor
}
_SPAWNING = frozenset({"Agent", "Task", "spawn_agent"})
"""What clients call the tool that starts a sub-agent: Claude Code now and before, Codex."""

_ROLES = ("director", "manager", "programmer", "tool")
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
LONGEST_TYPE = 24


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something a client reports."""

    kind: Kind
    name: str
    """What the client calls it; answers name it so."""
    session: str
    """The client's session, in short: nothing of it can be read back."""
    folder: Path | None
    """Where the client works; none when it does not say."""
    child: str | None = None
    """The sub-agent's name on the bus, when the event is about one."""
    role: str = "programmer"
    """The sub-agent's role."""
    text: str = ""
    """What a sub-agent said last."""
    sent_back: bool = False
    """Whether it was sent back before."""

    @property
    def main(self) -> str:
        """The name of the session's own agent on the bus."""
        return f"main-{self.session[:8]}"


def read_event(data: bytes) -> Event | None:
    """What a client's JSON says; none for what is no business of ours."""
    said = read_json(data, max_bytes=MAX_BYTES)
    if not isinstance(said, dict):
        raise FieldType("A hook is told one JSON object.", field="stdin")
    name = _text(said, "hook_event_name")
    kind = _KINDS.get(name)
    if kind is None or (kind == "spawn" and said.get("tool_name") not in _SPAWNING):
        return None
    session = _text(said, "session_id") or _text(said, "conversation_id")
    if not session:
        raise FieldValue("The client does not say which session it is.", field="session_id")
    agent, agent_type = _text(said, "agent_id"), _text(said, "agent_type").lower()
    if not agent and kind in ("subagent_start", "subagent_stop"):
        raise FieldValue("The client does not say which sub-agent it is.", field="agent_id")
    return Event(
        kind=kind,
        name=name,
        session=_short(session, 24),
        folder=_folder(said),
        child=f"{_plain(agent_type)}-{_short(f'{session}/{agent}', 8)}" if agent else None,
        role=agent_type if agent_type in _ROLES else "programmer",
        text=_text(said, "last_assistant_message"),
        sent_back=said.get("stop_hook_active") is True,
    )


def _text(said: dict[str, Any], name: str) -> str:
    value = said.get(name)
    return value if isinstance(value, str) else ""


def _folder(said: dict[str, Any]) -> Path | None:
    roots = said.get("workspace_roots")
    given = _text(said, "cwd") or (roots[0] if isinstance(roots, list) and roots else "")
    return Path(given) if isinstance(given, str) and given.startswith("/") else None


def _plain(agent_type: str) -> str:
    """A kind of sub-agent as part of a name: `my-plugin:code reviewer` is `my-plugin-code-reviewer`."""
    plain = "".join(each if each in _NAME else "-" for each in agent_type)[:LONGEST_TYPE].strip("-")
    return plain or "agent"


def _short(text: str, size: int) -> str:
    """A digest in letters alone: a name without digits is nobody's idea of a secret."""
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest())
    letters = []
    for _ in range(size):
        number, letter = divmod(number, 26)
        letters.append(chr(ord("a") + letter))
    return "".join(letters)
