"""Every edge offers every operation, unless the operation declares why not; and nothing else."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from engrambus.edges.cli.root import engrambus
from engrambus.edges.cli.table import COMMANDS
from engrambus.edges.http.sessions import SignInCodes, session_operations
from engrambus.edges.mcp.tools import tool_operations, tools
from engrambus.edges.sdk import Bus
from engrambus.edges.sdk.methods import Methods
from engrambus.gateway import Gateway, Operation
from engrambus.gateway.declare import Edge
from engrambus.operations import OPERATIONS
from engrambus.policy import ROLES
from tests.http.running_server import run_server
from tests.projects import Repository

EDGES = get_args(Edge)
LOCAL_COMMANDS = {
    "init",
    "up",
    "mcp",
    "hook",
    "install",
    "uninstall",
    "doctor",
    "demo",
    "recover",
    "worker",
    "resume",
    "catalog build",
    "catalog lint",
    "catalog diff",
}
"""Commands without an operation: they work on this machine's files, or start a server."""
HTTP_ONLY = {"events", "metrics", "tuple_events"}
"""Routes without an operation: a stream never ends, and Prometheus does not read JSON."""


def on_mcp() -> set[str]:
    """Return the operations that MCP offers as tools."""
    offered = tool_operations()
    assert [tool.name for tool in tools().values()] == list(tools()) == list(offered)
    return {operation.name for operation in offered.values()}


def on_cli() -> set[str]:
    """Return the operations that the command line offers."""
    by_words = {operation.command.words: name for name, operation in OPERATIONS.items() if operation.command}
    return {by_words[words] for words in COMMANDS if words in by_words}


def on_sdk() -> set[str]:
    """Return the operations that the SDK offers."""
    return {name for name in vars(Methods) if not name.startswith("_")}


def expected(edge: str) -> set[str]:
    """Return the operations that an edge should offer."""
    assert edge in EDGES
    return {name for name, operation in OPERATIONS.items() if edge not in operation.absent_from}


def test_mcp_the_command_line_and_the_sdk_offer_every_operation() -> None:
    assert on_mcp() == expected("mcp")
    assert on_cli() == expected("cli")
    assert on_sdk() == expected("client")


def test_http_offers_every_operation_and_the_sign_in_of_its_page(gateway: Gateway, repository: Repository) -> None:
    with run_server(gateway, repository) as bus:
        described = bus.call("GET", "/openapi.json").json
    calls = [call for path in described["paths"].values() for call in path.values()]
    offered = {call["operationId"] for call in calls}
    assert offered - expected("http") == {operation.name for operation in session_operations(SignInCodes())} | HTTP_ONLY
    assert expected("http") <= offered


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_an_operation_declares_its_help_its_roles_and_why_an_edge_lacks_it(operation: Operation[Any, Any]) -> None:
    assert operation.summary.endswith(".")
    assert operation.roles
    assert operation.roles <= set(ROLES)
    assert set(operation.absent_from) <= set(EDGES)
    assert all(len(reason) > 10 for reason in operation.absent_from.values())
    assert (operation.route is None) == ("http" in operation.absent_from)
    assert (operation.command is None) == ("cli" in operation.absent_from)
    assert (operation.tool is None) == ("mcp" in operation.absent_from)
    assert all(operation.field_help.values()), "every field is explained"


def test_only_the_listed_commands_have_no_operation() -> None:
    declared = {operation.command.words for operation in OPERATIONS.values() if operation.command}
    assert COMMANDS.keys() - declared == LOCAL_COMMANDS
    for words in COMMANDS:
        command: Any = engrambus
        for word in words.split():
            command = command.get_command(None, word)
        assert command is not None


def test_the_sdk_has_only_operations_and_methods_to_open_and_close_it() -> None:
    other_methods = {name for name in dir(Bus) if not name.startswith("_")} - on_sdk()
    assert other_methods == {"open", "connect", "speak_as", "call", "close"}
