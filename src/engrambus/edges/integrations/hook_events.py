"""Events that clients report to their hooks, translated from each client's JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from engrambus.edges.integrations.client_ids import agent_key, session_key, task_key
from engrambus.edges.integrations.edited_files import EDIT_TOOLS, edited_paths
from engrambus.errors import BadJson, EngramBusError, FieldType, FieldValue

EventKind = Literal[
    "session_start",
    "session_end",
    "prompt",
    "stop",
    "subagent_start",
    "subagent_stop",
    "spawn",
    "child_returned",
    "edit",
]

_KINDS: dict[str, EventKind] = {
    "SessionStart": "session_start",  # Claude Code, Codex, Gemini
    "SessionEnd": "session_end",  # Claude Code
    "UserPromptSubmit": "prompt",
    "Stop": "stop",
    "SubagentStart": "subagent_start",
    "SubagentStop": "subagent_stop",
    "PreToolUse": "spawn",
    "PostToolUse": "child_returned",
    "BeforeAgent": "prompt",  # Gemini
    "BeforeTool": "edit",
    "AfterAgent": "stop",
    "stop": "stop",  # Cursor
}
_SPAWN_TOOLS = frozenset({"Agent", "Task", "spawn_agent"})
"""Names of the tool that starts a sub-agent: Claude Code now and formerly, Codex."""
_CHILD_TOOLS = ("Agent", "Task", "TaskOutput", "wait_agent")
"""Ends of the names of tools in whose result a sub-agent answers; Codex writes `multi_agent_v1wait_agent`."""

_USUAL_KINDS = {"Agent": "general-purpose", "Task": "general-purpose", "spawn_agent": "default"}
"""The kind of sub-agent that a client starts if its model names none."""
_HOOK_CONTEXT = re.compile(r"\A\s*(?:<hook_context>.*?</hook_context>\s*)+", re.S)
_CHILD_ROLES = ("director", "manager", "programmer")


class _EventHead(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a client's JSON that tells the kind of event."""

    hook_event_name: str = ""
    tool_name: str | None = None

    @property
    def kind(self) -> EventKind | None:
        """The kind of event, or None for one that needs no answer."""
        kind = _KINDS.get(self.hook_event_name)
        if kind == "spawn" and self.tool_name in EDIT_TOOLS:
            return "edit"
        if kind == "spawn" and self.tool_name not in _SPAWN_TOOLS:
            return None
        if kind == "edit" and self.tool_name not in EDIT_TOOLS:
            return None
        if kind == "child_returned" and not (self.tool_name or "").endswith(_CHILD_TOOLS):
            return None
        return kind


class _ClientEvent(_EventHead, frozen=True, kw_only=True):
    """The members of a client's JSON that are read."""

    session_id: str | None = None
    conversation_id: str | None = None
    """Cursor's name for a session."""
    cwd: str | None = None
    workspace_roots: list[str] | None = None
    agent_id: str | None = None
    agent_type: str | None = None
    last_assistant_message: str | None = None
    stop_hook_active: bool | None = None
    prompt: Any = None
    tool_input: Any = None
    source: Any = None
    timestamp: str | None = None


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a client reports."""

    kind: EventKind
    name: str
    """The client's own name of the event, which answers repeat."""
    session: str
    """The session's id on the bus, and its main agent's."""
    folder: Path | None
    """The client's working folder, if it reports one."""
    child: str | None = None
    """The sub-agent's id on the bus, if the event is about a sub-agent."""
    role: str = "programmer"
    """The sub-agent's role."""
    text: str = ""
    """The sub-agent's last message, the prompt, or the task of a sub-agent that is to be started."""
    task: str = ""
    """Digest of the kind of a sub-agent, by which its start is matched with the call that asked for it."""
    paths: list[str] = []
    """Files that a tool is about to edit, with lines where they are known."""
    is_new_context: bool = False
    """True if the client has compacted or cleared the agent's context."""
    is_retry: bool = False
    """True if the sub-agent's answer was blocked once already."""
    sets_caller: bool = True
    """True if the client's hook sets `as` on our tools: Claude Code's and Codex's."""


def read_event(data: bytes, current_folder: Path | None = None) -> HookEvent | None:
    """Parse a client's JSON; return None for an event that needs no answer."""
    event = _decode(data, _ClientEvent)
    kind = event.kind
    if kind is None:
        return None
    session, agent = event.session_id or event.conversation_id, event.agent_id
    if not session:
        raise FieldValue("The client sent no session id.", field="session_id")
    if not agent and kind in ("subagent_start", "subagent_stop"):
        raise FieldValue("The client sent no sub-agent id.", field="agent_id")
    agent_type = (event.agent_type or "").lower()
    folder = _folder(event)
    return HookEvent(
        kind=kind,
        name=event.hook_event_name,
        session=session_key(session),
        folder=folder,
        child=agent_key(session, agent) if agent else None,
        role=agent_type if agent_type in _CHILD_ROLES else "programmer",
        text=_text(event, kind),
        task=_task(event, kind),
        paths=edited_paths(event.tool_name or "", event.tool_input, folder or current_folder or Path.cwd())
        if kind == "edit"
        else [],
        is_new_context=event.source in ("compact", "clear"),
        is_retry=bool(event.stop_hook_active),
        # Gemini sends a time with every event, Cursor a conversation instead of a session.
        sets_caller=event.timestamp is None and event.conversation_id is None,
    )


def _text(event: _ClientEvent, kind: EventKind) -> str:
    """Return the words of an event, as long as they are words."""
    arguments = event.tool_input if isinstance(event.tool_input, dict) else {}
    texts = {
        "prompt": event.prompt,
        "spawn": arguments.get("prompt") or arguments.get("message") or arguments.get("items"),
    }
    text = texts.get(kind, event.last_assistant_message)
    if not isinstance(text, str):
        return ""
    # Gemini puts what hooks have said before into the prompt that it tells the next hook.
    return _HOOK_CONTEXT.sub("", text) if kind == "prompt" else text


def _task(event: _ClientEvent, kind: EventKind) -> str:
    """Return what a sub-agent's start and the call that asked for it have in common: the kind of sub-agent."""
    if kind == "subagent_start":
        return task_key(event.agent_type or "")
    arguments = event.tool_input if kind == "spawn" and isinstance(event.tool_input, dict) else {}
    named = arguments.get("subagent_type") or arguments.get("agent_type") or _USUAL_KINDS.get(event.tool_name or "")
    return task_key(named) if isinstance(named, str) else ""


def asks_to_spawn(data: bytes) -> bool:
    """True if a client wants to start a sub-agent, even if the rest of its JSON is invalid."""
    try:
        return _decode(data, _EventHead).kind == "spawn"
    except EngramBusError:
        return False


_Shape = TypeVar("_Shape", bound=_EventHead)


def _decode(data: bytes, shape: type[_Shape]) -> _Shape:
    try:
        try:
            return msgspec.json.decode(data, type=shape)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            # Clients cut texts in the middle of an emoji and send half of a surrogate pair.
            repaired = json.dumps(json.loads(data), ensure_ascii=False).encode("utf-8", "replace")
            return msgspec.json.decode(repaired, type=shape)
    except msgspec.ValidationError as problem:
        raise FieldType(f"The input is not a hook event: {problem}", field="stdin") from None
    except (ValueError, RecursionError):
        raise BadJson(field="stdin") from None


def _folder(event: _ClientEvent) -> Path | None:
    folder = event.cwd or next(iter(event.workspace_roots or ()), "")
    return Path(folder) if folder.startswith("/") else None
