"""What a client's hook was told, from its own words to ours."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from engrambus.errors import BadJson, EngramBusError, FieldType, FieldValue

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


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks about."""

    hook_event_name: str = ""
    tool_name: str | None = None

    @property
    def kind(self) -> Kind | None:
        """What it is to us; none for what is no business of ours."""
        kind = _KINDS.get(self.hook_event_name)
        return None if kind == "spawn" and self.tool_name not in _SPAWNING else kind


class _Told(_Asked, frozen=True, kw_only=True):
    """As much of a client's JSON as is read; what it says of tools and prompts is passed over."""

    session_id: str | None = None
    conversation_id: str | None = None
    """What Cursor calls a session."""
    cwd: str | None = None
    workspace_roots: list[str] | None = None
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
    said = _decode(data, _Told)
    kind = said.kind
    if kind is None:
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


def asks_to_spawn(data: bytes) -> bool:
    """Whether a client wants to start a sub-agent, though nothing else it says may make sense."""
    try:
        return _decode(data, _Asked).kind == "spawn"
    except EngramBusError:
        return False


_Shape = TypeVar("_Shape", bound=_Asked)


def _decode(data: bytes, shape: type[_Shape]) -> _Shape:
    try:
        try:
            return msgspec.json.decode(data, type=shape)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:  # clients cut texts in the middle of an emoji, and send the half
            whole = json.dumps(json.loads(data), ensure_ascii=False).encode("utf-8", "replace")
            return msgspec.json.decode(whole, type=shape)
    except msgspec.ValidationError as problem:
        raise FieldType(f"That is not what a client tells a hook: {problem}", field="stdin") from None
    except (ValueError, RecursionError):
        raise BadJson(field="stdin") from None


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
