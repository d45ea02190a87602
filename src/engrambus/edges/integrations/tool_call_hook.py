"""Answers a client that is about to call one of our tools: `as` is set to the agent that calls (decision 44).

A client waits for this at every call, so it opens one file of the project and one key, and loads nothing else of the
product in the usual case. The agents themselves are looked up by the server that gets the call.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engrambus.edges.integrations.client_ids import agent_key, session_key
from engrambus.edges.integrations.tool_table import TOOLS
from engrambus.edges.integrations.usual_project import find_usual_project
from engrambus.edges.sdk.login_file import find_login, logins_folder
from engrambus.policy.marks import SIGN, Mark, MarkKey

OUR_TOOLS = r"mcp__(plugin_engrambus_)?engrambus__.*"
"""Matches the names that clients give to our tools: of a server in their configuration, and of the plugin's server."""
_TOOL = re.compile(r"mcp__(?:plugin_engrambus_)?engrambus__(\w+)")


def calls_our_tool(data: bytes) -> dict[str, Any] | None:
    """Return the event if a client is about to call one of our tools."""
    if b"PreToolUse" not in data or b"engrambus__" not in data:
        return None
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or event.get("hook_event_name") != "PreToolUse":
        return None
    return event if _tool_name(event) in TOOLS else None


def answer_tool_call(event: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the client's answer: the call's whole input with `as` set, or nothing if that cannot be done."""
    arguments, session, agent = event.get("tool_input"), event.get("session_id"), event.get("agent_id")
    if not isinstance(arguments, dict) or not isinstance(session, str) or not session:
        return {}
    asks = _asks_permission(_tool_name(event), arguments)
    # Codex rewrites a call only together with `allow`, which skips the user's permission prompt.
    needs_allow = "turn_id" in event and "mcp_server" not in event
    if asks and needs_allow:
        return {}
    name = "" if agent else _named_descendant(arguments)
    made = _marked(session, str(agent) if agent else None, name, event.get("cwd"), environment)
    if made is None:
        return {}
    decision = {"permissionDecision": "allow"} if needs_allow else {}
    rewritten = {"hookEventName": "PreToolUse", **decision, "updatedInput": {**arguments, "as": made}}
    return {"hookSpecificOutput": rewritten}


def _tool_name(event: dict[str, Any]) -> str:
    match = _TOOL.fullmatch(str(event.get("tool_name")))
    return match[1] if match else ""


def _asks_permission(tool: str, arguments: dict[str, Any]) -> bool:
    actions = TOOLS[tool]
    return actions if isinstance(actions, bool) else arguments.get("action") in actions


def _named_descendant(arguments: dict[str, Any]) -> str:
    """Return the descendant that the main agent names; what follows the sign would be a mark the model wrote."""
    name = arguments.get("as")
    return name.partition(SIGN)[0] if isinstance(name, str) else ""


def _marked(session: str, agent: str | None, name: str, folder: object, environment: Mapping[str, str]) -> str | None:
    """Return the marked `as` of an agent; None in a folder without a project."""
    now_us = time.time_ns() // 1000
    client_id = agent_key(session, agent) if agent else ""
    place = Path(folder) if isinstance(folder, str) and folder else Path.cwd()
    own = session_key(session)
    if token := environment.get("ENGRAMBUS_TOKEN") or _login_token(place, environment):
        # decision 120: a person's session has a lead of its own, as on the person's own machine
        mark_place = own if _is_persons(token) else ""
        return MarkKey.of_token(token).make(Mark(mark_place, client_id, name), now_us)
    key_folder = _key_folder(place, environment)
    if key_folder is None:
        return None
    run = environment.get("ENGRAMBUS_RUN")
    mark = Mark(run, client_id or own, name) if run else Mark(own, client_id, name)
    return MarkKey.load(key_folder).make(mark, now_us)


def _login_token(folder: Path, environment: Mapping[str, str]) -> str | None:
    """Return the token of the login of the repository around a folder, unless the environment names a server."""
    if environment.get("ENGRAMBUS_URL"):
        return None
    login = find_login(folder, logins_folder(environment))
    return login.token if login is not None else None


def _is_persons(token: str) -> bool:
    """True if a token says that its bearer is a person, which only the gateway can check."""
    payload = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))).get("person") is True
    except (ValueError, AttributeError):
        return False


def _key_folder(folder: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the folder of the project's keys."""
    project = find_usual_project(folder, environment)
    if project is not None:
        return project.key_folder
    from engrambus.errors import ProjectNotFound, Trouble
    from engrambus.policy import find_project
    from engrambus.settings import Settings

    try:
        settings = Settings.from_environment(environment)
        return settings.key_folder(find_project(folder, settings.private_home).project_id)
    except (ProjectNotFound, Trouble):
        return None
