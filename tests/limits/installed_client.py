"""A client wired exactly as `engrambus install` wires it: server and hooks are the commands that were written."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from anyio.from_thread import BlockingPortal, start_blocking_portal

from mcp import Client, StdioServerParameters
from tests.cli.runner import Shell

SESSION = "6f0f2b8e-2f0e-4d0c-9b1d-0a9c5c1f7e11"


class ToolAnswer(NamedTuple):
    """The answer to a tool call, as the model reads it."""

    text: str
    is_error: bool

    @property
    def code(self) -> str:
        """The error code of a refused call."""
        assert self.is_error, self.text
        return re.split(r"[^A-Z_]", self.text, maxsplit=1)[0]


class Subagent(NamedTuple):
    """A sub-agent of the session, as the client names it to its hooks."""

    agent_id: str
    agent_type: str = "general-purpose"


class InstalledClient:
    """Plays a client's part: runs the installed hooks around the calls that a model asks for."""

    def __init__(self, shell: Shell, hooks: dict[str, Any], client: Client, portal: BlockingPortal) -> None:
        self._shell = shell
        self._hooks = hooks
        self._client = client
        self._portal = portal

    def call(self, tool: str, agent: Subagent | None = None, **arguments: Any) -> ToolAnswer:
        """Call a tool for the main agent or a sub-agent; the hook rewrites the arguments first."""
        return self.call_unhooked(tool, self.rewritten(tool, agent, **arguments))

    def rewritten(self, tool: str, agent: Subagent | None = None, **arguments: Any) -> dict[str, Any]:
        """Return the arguments of a call as the hook leaves them."""
        event = {"tool_name": f"mcp__engrambus__{tool}", "tool_input": arguments, "tool_use_id": "toolu_01"}
        answer = self.tell("PreToolUse", agent, **event).get("hookSpecificOutput", {})
        assert answer.get("permissionDecision") != "deny", answer
        result: dict[str, Any] = answer.get("updatedInput", arguments)
        return result

    def call_unhooked(self, tool: str, arguments: dict[str, Any]) -> ToolAnswer:
        """Call a tool as it arrives when no hook ran."""
        result = self._portal.call(self._client.call_tool, tool, arguments)
        text = "\n".join(block.text for block in result.content if block.type == "text")
        return ToolAnswer(text, bool(result.is_error))

    def tell(self, event: str, agent: Subagent | None = None, **members: Any) -> dict[str, Any]:
        """Report an event to every hook that matches it, and return the last answer."""
        payload = {"session_id": SESSION, "cwd": str(self._shell.path), "hook_event_name": event, **members}
        if agent is not None:
            payload |= agent._asdict()
        answer: dict[str, Any] = {}
        for group in self._hooks.get(event, ()):
            if re.fullmatch(group.get("matcher") or ".*", members.get("tool_name", "")):
                for hook in group["hooks"]:
                    answer = _run_hook(hook["command"], payload, self._shell.path) or answer
        return answer

    def start_subagent(self, number: int) -> Subagent:
        """Start a sub-agent: the client reports it to the hooks."""
        agent = Subagent(f"agent-{number}")
        self.tell("SubagentStart", agent)
        return agent

    def tools(self) -> list[dict[str, Any]]:
        """Return the tools that the server lists, as they are sent."""
        listed = self._portal.call(self._client.list_tools).tools
        return [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed]


@contextmanager
def installed(shell: Shell, name: str = "claude-code") -> Iterator[InstalledClient]:
    """Install a client in the shell's repository and start a session of it."""
    shell.ok("install", name)
    servers, hooks = _configuration(shell.path, name)
    variables = {"${workspaceFolder}": str(shell.path)}
    arguments = [variables.get(word, word) for word in servers["engrambus"]["args"]]
    server = StdioServerParameters(
        command=servers["engrambus"]["command"], args=arguments, cwd=shell.path, env=dict(os.environ)
    )
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(server)) as client:
        session = InstalledClient(shell, hooks, client, portal)
        session.tell("SessionStart", source="startup")
        yield session


def _configuration(folder: Path, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the servers and the hooks that were written for a client."""
    if name == "claude-code":
        servers = json.loads((folder / ".mcp.json").read_bytes())["mcpServers"]
        return servers, json.loads((folder / ".claude" / "settings.json").read_bytes())["hooks"]
    return json.loads((folder / ".cursor" / "mcp.json").read_bytes())["mcpServers"], {}


def _run_hook(command: str, payload: dict[str, Any], folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        shlex.split(command), input=json.dumps(payload).encode(), cwd=folder, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout or b"{}")
    return answer
