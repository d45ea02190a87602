"""Every edge offers every operation, unless the operation declares why not; and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import pytest

from engrambus.edges.cli.root import engrambus
from engrambus.edges.cli.table import COMMANDS
from engrambus.edges.http.sessions import BrowserSessions, SignInCodes, session_operations
from engrambus.edges.mcp.tools import tool_parts, tools
from engrambus.edges.sdk import Bus
from engrambus.edges.sdk.methods import Methods
from engrambus.evidence.pointers import Pointer
from engrambus.gateway import Gateway, Operation
from engrambus.gateway.declare import Edge
from engrambus.operations import OPERATIONS
from engrambus.policy import ROLES
from tests.http.running_server import run_server
from tests.projects import Repository

EDGES = get_args(Edge)
LOCAL_COMMANDS = {
    "adopt",
    "export",
    "import",
    "keys list",
    "keys show",
    "keys trust",
    "sync",
    "keys export",
    "keys import",
    "init",
    "learn",
    "up",
    "mcp",
    "hook",
    "install",
    "uninstall",
    "doctor",
    "demo",
    "recover",
    "worker",
    "migrate",
    "move",
    "resume",
    "session link",
    "session list",
    "session end",
    "catalog build",
    "catalog lint",
    "catalog diff",
    "backup",
    "login",
    "logout",
    "push",
    "restore",
}
"""Commands without an operation: they work on this machine's files, or start a server."""
HTTP_ONLY = {"events", "metrics", "tuple_events", "health", "proof", "mcp_get", "mcp_post", "mcp_delete", "openapi"} | {
    f"schema_{name}" for name in ("engram", "pointer", "less_engram", "less_pointer")
}
"""Routes without an operation: streams never end, Prometheus does not read JSON, and documents never change."""


def on_mcp() -> set[str]:
    """Return the operations that MCP offers: as tools, or as actions of a tool that lists them."""
    offered = tool_parts()
    assert [tool.name for tool in tools().values()] == list(tools()) == list(offered)
    for name, parts in offered.items():
        actions = tools()[name].input_schema["properties"].get("action", {}).get("enum", [""])
        assert actions == list(parts), "each operation has an action of its own, and each action is listed"
    return {operation.name for parts in offered.values() for operation in parts.values()}


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


def test_http_offers_every_operation_and_the_sessions_of_its_page(gateway: Gateway, repository: Repository) -> None:
    with run_server(gateway, repository) as bus:
        described = bus.call("GET", "/openapi.json").json
    calls = [call for path in described["paths"].values() for call in path.values()]
    offered = {call["operationId"] for call in calls}
    of_the_server = msgspec.structs.astuple(session_operations(SignInCodes(), BrowserSessions()))
    assert offered - expected("http") == {operation.name for operation in of_the_server} | HTTP_ONLY
    assert expected("http") <= offered


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_an_operation_declares_its_help_its_roles_and_why_an_edge_lacks_it(operation: Operation[Any, Any]) -> None:
    assert operation.summary.endswith(".")
    assert operation.roles
    assert operation.roles <= {*ROLES, "person"}
    assert set(operation.absent_from) <= set(EDGES)
    assert all(len(reason) > 10 for reason in operation.absent_from.values())
    assert (operation.route is None) == ("http" in operation.absent_from)
    assert (operation.command is None) == ("cli" in operation.absent_from)
    assert (operation.tool is None) == ("mcp" in operation.absent_from)
    assert all(operation.field_help.values()), "every field is explained"


DATA_FIELDS = {
    "after": "names tuples",
    "at": "names lines of a file",
    "agent_terms": "amounts and dates by name",
    "authority": "stamped by the gateway",
    "budget_token": "names a grant",
    "child_id": "names an agent",
    "client_id": "an id of a client",
    "created_at": "a time",
    "due": "a time",
    "delay": "a duration",
    "embedding_ref": "an address",
    "engrams.at": "names lines of a file",
    "engrams.embedding_ref": "an address",
    "engrams.id": "an id",
    "engrams.pointers": "an address",
    "engrams.provenance": "stamped by the gateway",
    "engrams.ttl": "a duration",
    "engrams.replaces": "names an engram",
    "engrams.used": "names engrams",
    "evidence.value": "output of a command or a quotation; replaced by a pointer where it stands in the repository",
    "expires_in": "a duration",
    "fence": "two numbers",
    "flags": "switches by name",
    "for_agent": "names an agent",
    "from_grant": "names a grant",
    "id": "names what exists",
    "inputs_used": "names snapshots",
    "map_pos": "coordinates by name",
    "now_utc": "a time",
    "parent": "names an agent",
    "parent_id": "names a tuple",
    "paths": "names files",
    "pattern": "compared with tuples, not stored",
    "payload": "arguments of programs are data",
    "pointer": "an address",
    "pointers": "an address",
    "policy": "a document with a schema of its own",
    "process": "a name by its pattern",
    "provenance": "stamped by the gateway",
    "query": "a question, not stored",
    "receipts": "names receipts",
    "report": "a test report, kept as an artifact",
    "run_id": "names a run",
    "schema": "one of two names",
    "scope": "a filter, not stored",
    "scoring": "a filter, not stored",
    "session": "an id with a pattern",
    "src_ptr": "an address",
    "state": "a filter, not stored",
    "store_paths": "names files",
    "to": "names agents",
    "trust_filter": "a filter, not stored",
    "ttl": "a duration",
    "replaces": "names an engram",
    "used": "names engrams",
}
"""Fields of writing operations that hold data, with the reason; every other text field must be declared as prose."""
OTHER_DATA_FIELDS = {
    ("add_person", "name"): "a name by its pattern",
    ("person_token", "name"): "names a person",
    ("remove_person", "name"): "names a person",
    ("compress_batch", "path"): "a place in a tree",
    ("add_lead", "goal"): "written by `mcp` and `hook` from the folder's name",
    ("tuple_in", "lane"): "a filter, not stored",
    ("close_turn", "name"): "names an agent",
    ("agent_token", "name"): "names an agent",
    ("remove_agent", "name"): "names an agent",
    ("revoke_tokens", "agent"): "names an agent",
    ("confirm_several", "agent"): "names an agent",
    ("confirm_several", "ids"): "ids of engrams",
    ("adopt_knowledge", "engrams.fields"): "checked one by one; what holds code is left out and counted",
    ("adopt_knowledge", "memories.key"): "a name in another project, hashed",
    ("adopt_knowledge", "memories.text"): "checked one by one; what holds code is left out and counted",
    ("adopt_knowledge", "memories.categories"): "checked one by one; what holds code is left out and counted",
    ("adopt_knowledge", "memories.confidence"): "a number, or ignored",
    ("adopt_knowledge", "memories.by"): "a name by its pattern, or ignored",
    ("adopt_knowledge", "origin"): "a name by its pattern",
    ("import_shared", "engrams.foreign.fields"): "checked one by one; what holds code is refused and named",
    ("import_shared", "engrams.replaced_by"): "names an engram",
    ("import_shared", "engrams.project"): "an id by its pattern",
    ("import_shared", "engrams.key"): "a public key whose signature was right",
    ("override_gate", "base"): "a commit id",
    ("override_gate", "head"): "a commit id",
    ("recall", "text"): "a prompt, compared and not stored",
    ("recall", "paths"): "names files",
    ("recall", "occasion"): "one of four names",
    ("recall", "task"): "a digest",
    ("learn_repository", "commit"): "a commit id by its pattern",
    ("learn_repository", "claims.key"): "a hash",
    ("learn_repository", "claims.claim"): "checked one by one; what holds code is left out and counted",
    ("learn_repository", "claims.ref"): "a pointer",
    ("learn_repository", "claims.place"): "the name of a file",
    ("learn_repository", "memory.name"): "the name of a file",
    ("learn_repository", "memory.text"): "stored as an artifact, where code may stand",
    ("finish_task", "evidence"): "pointers and ids of receipts",
    ("give_task", "agent"): "names an agent",
    ("add_schedule", "name"): "a name by its pattern",
    ("add_schedule", "cron"): "an expression with a grammar",
    ("add_schedule", "every"): "a duration",
    ("add_schedule", "tz"): "names a time zone",
    ("pause_schedule", "name"): "names a schedule",
    ("resume_schedule", "name"): "names a schedule",
    ("remove_schedule", "name"): "names a schedule",
    ("run_schedule", "name"): "names a schedule",
    ("store_artifact", "text"): "becomes an artifact, to be pointed at",
}
"""The same for fields that hold prose in other operations."""


def text_fields(hint: Any, field: str = "") -> Iterator[str]:
    """Yield the paths of a type's fields that can hold any text; a pointer is one field."""
    if get_origin(hint) is Annotated:
        yield from text_fields(get_args(hint)[0], field)
    elif hint in (str, Any, Pointer) or get_origin(hint) is dict:
        yield field
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        for name, inner in get_type_hints(hint, include_extras=True).items():
            yield from text_fields(inner, f"{field}.{name}" if field else name)
    else:
        for part in get_args(hint) if get_origin(hint) is not Literal else ():
            yield from text_fields(part, field)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_every_text_field_that_is_written_is_checked_for_code_or_is_data(operation: Operation[Any, Any]) -> None:
    fields = set(text_fields(operation.request))
    assert fields.issuperset(operation.prose)
    assert operation.writes or not operation.prose
    if operation.writes:
        data = {
            field
            for field in fields
            if field in DATA_FIELDS
            or field.split(".")[0] in DATA_FIELDS
            or (operation.name, field) in OTHER_DATA_FIELDS
        }
        assert fields == data | set(operation.prose) | ({operation.text_field} if operation.text_field else set())
        assert data.isdisjoint(operation.prose)


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
