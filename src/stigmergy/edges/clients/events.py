"""What a client's hook was told, from its own words to ours."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import msgspec

from stigmergy.errors import BadJson, FieldType, FieldValue

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


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    """As much of a client's JSON as is read; what it says of tools and prompts is passed over."""

    hook_event_name: str = ""
    session_id: str | None = None
    conversation_id: str | None = None
    """What Cursor calls a session."""
    cwd: str | None = None
    workspace_roots: list[str] | None = None
    tool_name: str | None = None
    agent_id: str | None = None
    agent_type: str | None = None
    last_assistant_message: str | None = None
    stop_hook_active: bool | None = None


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
    try:
        said = msgspec.json.decode(data, type=_Told)
    except msgspec.ValidationError as problem:
        raise FieldType(f"That is not what a client tells a hook: {problem}", field="stdin") from None
    except (msgspec.DecodeError, RecursionError):
        raise BadJson(field="stdin") from None
    kind = _KINDS.get(said.hook_event_name)
    if kind is None or (kind == "spawn" and said.tool_name not in _SPAWNING):
        return None
    session, agent = said.session_id or said.conversation_id, said.agent_id
    if not session:
        raise FieldValue("The client does not say which session it is.", field="session_id")
    if not agent and kind in ("subagent_start", "subagent_stop"):
        raise FieldValue("The client does not say which sub-agent it is.", field="agent_id")
    agent_type = (said.agent_type or "").lower()
    return Event(
        kind=kind,
        name=said.hook_event_name,
        session=_short(session, 24),
        folder=_folder(said),
        child=f"{_plain(agent_type)}-{_short(f'{session}/{agent}', 8)}" if agent else None,
        role=agent_type if agent_type in _ROLES else "programmer",
        text=said.last_assistant_message or "",
        sent_back=bool(said.stop_hook_active),
    )


def _folder(said: _Told) -> Path | None:
    given = said.cwd or next(iter(said.workspace_roots or ()), "")
    return Path(given) if given.startswith("/") else None


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
