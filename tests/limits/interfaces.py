"""One call of an agent through each interface, and what its caller learns from it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from mcp.types import CallToolResult

from engrambus import Bus
from engrambus.errors import EngramBusError
from engrambus.gateway import Gateway, to_request
from engrambus.gateway.limit_warnings import parse_warning_header
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings
from mcp import Client
from tests.cli.runner import Shell
from tests.http.running_server import run_server
from tests.limits.attempts import Step
from tests.mcp.transports import over_http, stdio_client
from tests.projects import Repository


class Outcome(NamedTuple):
    """What a caller is told."""

    refusal: str | None
    """The error code; None if the call was carried out."""
    warnings: list[str]
    """Codes of the warnings beside the answer."""


class Project(NamedTuple):
    """A project with the tokens of its agents."""

    gateway: Gateway
    repository: Repository
    settings: Settings
    tokens: dict[str, str]


@contextmanager
def calls_over(
    interface: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Step], Outcome]]:
    """Yield a function that makes a call through an interface, as its agent."""
    match interface:
        case "HTTP":
            with run_server(project.gateway, project.repository) as server:
                yield lambda step: _over_http(server.port, project, step)
        case "SDK":
            yield lambda step: _over_sdk(project, step)
        case "CLI":
            shell = Shell(project.repository, Path(str(project.repository.path.parent / "home")), monkeypatch)
            yield lambda step: _over_cli(shell, project, step)
        case "stdio MCP":
            with start_blocking_portal() as portal, ExitStack() as servers:
                clients: dict[str, Client] = {}

                def send(step: Step) -> Outcome:
                    """Call a tool of the agent's server, which runs until the end, as a client's does."""
                    if step.agent not in clients:
                        client = stdio_client(project.repository, "auto", project.tokens[step.agent])
                        clients[step.agent] = servers.enter_context(portal.wrap_async_context_manager(client))
                    return _over_mcp(lambda talk: portal.call(talk, clients[step.agent]), step)

                yield send
        case "/mcp":
            with run_server(project.gateway, project.repository) as server:
                yield lambda step: _over_mcp(
                    lambda talk: over_http(server, "auto", talk, project.tokens[step.agent]), step
                )
        case _:
            raise ValueError(interface)


def _over_http(port: int, project: Project, step: Step) -> Outcome:
    route = OPERATIONS[step.operation].route
    assert route is not None
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"Bearer {project.tokens[step.agent]}", "Content-Type": "application/json"}
    try:
        connection.request(route.method, route.path, json.dumps(step.fields).encode(), headers)
        answer = connection.getresponse()
        body = json.loads(answer.read())
        warnings = map(parse_warning_header, answer.headers.get_all("Engrambus-Warning", []))
        return Outcome(body["code"] if answer.status != 200 else None, [item.code for item in warnings if item])
    finally:
        connection.close()


def _over_sdk(project: Project, step: Step) -> Outcome:
    warned: list[EngramBusError] = []
    token = project.tokens[step.agent]
    operation = OPERATIONS[step.operation]
    with Bus.open(project.repository.path, token=token, settings=project.settings, on_warning=warned.append) as bus:
        try:
            bus.call(operation, to_request(step.fields, operation.request))
        except EngramBusError as refusal:
            return Outcome(refusal.code, [])
    return Outcome(None, [warning.code for warning in warned])


def _over_cli(shell: Shell, project: Project, step: Step) -> Outcome:
    command = OPERATIONS[step.operation].command
    assert command is not None
    fields = dict(step.fields)
    words = command.words.split()
    if "text" in fields:
        (shell.path / "message.yaml").write_text(fields.pop("text"))
        words.append("message.yaml")
    for given in (fields.pop(name) for name in command.arguments if name in fields):
        words += given if isinstance(given, list) else [given]
    for name, value in fields.items():
        for item in value if isinstance(value, list) else [value]:
            words += [f"--{name.replace('_', '-')}", str(item)]
    result = shell.run(*words, "--json", env={"ENGRAMBUS_TOKEN": project.tokens[step.agent]})
    problems = [json.loads(line) for line in result.err.splitlines() if line.startswith("{")]
    warnings = [problem["code"] for problem in problems if "mode" in problem]
    refusals = [problem["code"] for problem in problems if "mode" not in problem]
    assert (result.code == 1) == bool(refusals), result
    return Outcome(refusals[0] if refusals else None, warnings)


def _over_mcp(connect: Callable[[Any], None], step: Step) -> Outcome:
    results: list[CallToolResult] = []

    async def talk(client: Client) -> None:
        with anyio.fail_after(60):
            operation = OPERATIONS[step.operation]
            action = {"action": operation.tool.action} if operation.tool and operation.tool.action else {}
            results.append(await client.call_tool(operation.tool_name, {**step.fields, **action}))

    connect(talk)
    (result,) = results
    text = "\n".join(block.text for block in result.content if block.type == "text")
    if result.is_error:
        code = re.search(r"\b(LESS_)?([A-Z]+(?:_[A-Z]+)+)\b", text)
        assert code is not None, text
        return Outcome(code[2], [])
    return Outcome(None, re.findall(r"^warning: ([A-Z_]+):", text, re.MULTILINE))
