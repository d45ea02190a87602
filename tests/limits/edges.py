"""Calls over HTTP and over MCP to one running server, for the tests of the specifications."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote, urlencode

from engrambus.gateway import Credential
from engrambus.operations import OPERATIONS
from tests.http.running_server import Answer, RunningServer
from tests.limits.team import Team

EDGES = ("HTTP", "MCP")
LESS_CODES = {"BUDGET_EXCEEDED", "DEREF_DENIED"}
"""Codes that the tools of LESS prefix with `LESS_`."""
_PROTOCOL = "2025-06-18"


def _in_query(value: Any) -> str:
    """Return a value as a query string has it."""
    return ",".join(value) if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else str(value)


class Edge:
    """One way to call a server: over HTTP, or as a tool of MCP where the operation is one."""

    def __init__(self, name: str, team: Team, server: RunningServer) -> None:
        self.name = name
        self.team = team
        self.server = server
        self._sessions: dict[str, str] = {}

    def code(self, code: str) -> str:
        """Return an error code as this way of calling shows it."""
        return f"LESS_{code}" if self.name == "MCP" and code in LESS_CODES else code

    def call(self, operation: str, agent: Credential | None = None, /, **fields: Any) -> Any:
        """Return the answer of an operation, which must not be refused."""
        answer, refused = self._call(operation, agent, fields)
        assert not refused, answer
        return answer

    def refusal(self, operation: str, agent: Credential | None = None, /, **fields: Any) -> dict[str, Any]:
        """Return the problem with which an operation must be refused."""
        answer, refused = self._call(operation, agent, fields)
        assert refused, answer
        return dict(answer)

    def put(self, claim: str, agent: Credential | None = None, /, **fields: Any) -> Any:
        """Put an engram that points at two lines of the parser."""
        return self.call("put_engram", agent, claim=claim, **{"at": ["src/parser.py:1-2"], **fields})

    def mail(self, agent: Credential, kind: str) -> list[dict[str, Any]]:
        """Return the mail of a kind in an agent's inbox, whole."""
        rows = self.call("inbox", agent, short=False, unseen=False, max_tokens=4000)["mail"]
        return [row for row in rows if row["kind"] == kind]

    def _call(self, operation: str, agent: Credential | None, fields: dict[str, Any]) -> tuple[Any, bool]:
        token = self.server.token if agent is None else str(agent.token)
        if self.name == "MCP" and OPERATIONS[operation].tool is not None:
            return self._call_tool(operation, token, fields)
        answer = self._request(operation, token, fields)
        return answer.json, answer.status != 200

    def _request(self, operation: str, token: str, fields: dict[str, Any]) -> Answer:
        route = OPERATIONS[operation].route
        assert route is not None
        names = re.findall(r"\{(\w+)\}", route.path)
        path = re.sub(r"\{(\w+)\}", lambda field: quote(str(fields[field[1]]), safe=""), route.path)
        others = {name: value for name, value in fields.items() if name not in names}
        if route.method == "POST":
            return self.server.call("POST", path, others, token=token)
        query = urlencode({name: _in_query(value) for name, value in others.items()})
        return self.server.call(route.method, f"{path}?{query}" if query else path, token=token)

    def _call_tool(self, operation: str, token: str, fields: dict[str, Any]) -> tuple[Any, bool]:
        tool = OPERATIONS[operation].tool
        assert tool is not None
        name, arguments = OPERATIONS[operation].tool_name, {**fields, "full": True}
        if tool.part_of:
            name, arguments = tool.part_of, {"action": tool.action, **arguments}
        result = self._post(token, "tools/call", {"name": name, "arguments": arguments}).json["result"]
        texts = [block["text"] for block in result["content"]]
        return json.loads(texts[-1]), result["isError"]

    def _post(self, token: str, method: str, params: dict[str, Any]) -> Answer:
        if token not in self._sessions:
            client = {"name": "test", "version": "1"}
            opening = {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": client}
            self._sessions[token] = self._send(token, "initialize", opening).headers["mcp-session-id"]
            self._send(token, "notifications/initialized", None)
        return self._send(token, method, params)

    def _send(self, token: str, method: str, params: dict[str, Any] | None) -> Answer:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        message |= {} if params is None else {"id": 1, "params": params}
        headers = {"Accept": "application/json, text/event-stream"}
        if token in self._sessions:
            headers["Mcp-Session-Id"] = self._sessions[token]
        return self.server.call("POST", "/mcp", message, token=token, headers=headers)
