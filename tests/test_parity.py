"""Everything one can do is offered on every edge, or says by name why it is not; and nothing else is offered."""

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
BESIDE_OPERATIONS = {
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
"""Commands about the machine the project lies on: before there is a gateway to ask, or instead of one."""
BESIDE_ON_HTTP = {"events", "metrics", "tuple_events"}
"""What HTTP offers beside the operations, in its document too: a stream has no answer that ends, and what Prometheus
reads is no JSON; so none of them is one."""


def on_mcp() -> set[str]:
    """The operations MCP offers as tools."""
    offered = tool_operations()
    assert [tool.name for tool in tools().values()] == list(tools()) == list(offered)
    return {operation.name for operation in offered.values()}


def on_cli() -> set[str]:
    """The operations the command line offers."""
    by_words = {operation.command.words: name for name, operation in OPERATIONS.items() if operation.command}
    return {by_words[words] for words in COMMANDS if words in by_words}


def on_client() -> set[str]:
    """The operations the client offers."""
    return {name for name in vars(Methods) if not name.startswith("_")}


def expected(edge: str) -> set[str]:
    """The operations that do not opt out of an edge."""
    assert edge in EDGES
    return {name for name, operation in OPERATIONS.items() if edge not in operation.absent_from}


def test_mcp_the_command_line_and_the_client_offer_all_that_does_not_opt_out() -> None:
    assert on_mcp() == expected("mcp")
    assert on_cli() == expected("cli")
    assert on_client() == expected("client")


def test_http_offers_all_that_does_not_opt_out_and_the_doors_of_its_page(
    gateway: Gateway, repository: Repository
) -> None:
    with run_server(gateway, repository) as bus:
        described = bus.call("GET", "/openapi.json").json
    calls = [call for path in described["paths"].values() for call in path.values()]
    offered = {call["operationId"] for call in calls}
    assert (
        offered - expected("http")
        == {operation.name for operation in session_operations(SignInCodes())} | BESIDE_ON_HTTP
    )
    assert expected("http") <= offered


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_an_operation_says_what_it_does_who_may_and_why_not_everywhere(operation: Operation[Any, Any]) -> None:
    assert operation.summary.endswith(".")
    assert operation.roles
    assert operation.roles <= set(ROLES)
    assert set(operation.absent_from) <= set(EDGES)
    assert all(len(reason) > 10 for reason in operation.absent_from.values())
    assert (operation.route is None) == ("http" in operation.absent_from)
    assert (operation.command is None) == ("cli" in operation.absent_from)
    assert (operation.tool is None) == ("mcp" in operation.absent_from)
    assert all(operation.field_help.values()), "every field is explained"


def test_commands_beside_the_operations_are_known_by_name() -> None:
    declared = {operation.command.words for operation in OPERATIONS.values() if operation.command}
    assert COMMANDS.keys() - declared == BESIDE_OPERATIONS
    for words in COMMANDS:
        command: Any = engrambus
        for word in words.split():
            command = command.get_command(None, word)
        assert command is not None


def test_the_client_has_nothing_but_operations_and_its_own_upkeep() -> None:
    own = {name for name in dir(Bus) if not name.startswith("_")} - on_client()
    assert own == {"open", "connect", "speak_as", "call", "close"}
