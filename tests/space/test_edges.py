"""Tuples on the edges: dispatch, observe and receipts are available remotely, the inner loop is not. # YT-15"""

from __future__ import annotations

import json
import threading
from http.client import HTTPConnection
from itertools import count
from typing import Any

import pytest

from engrambus.core import estimate_tokens
from engrambus.edges.mcp.tools import tool_parts
from engrambus.errors import IdAmbiguous
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway
from engrambus.operations import OPERATIONS
from engrambus.operations.tuples import TupleId, TupleRd
from engrambus.space.catalog import CAPABILITIES, Catalog, CatalogEntry, write_catalog
from engrambus.space.tuples import Completion, tuple_id
from engrambus.testing.work import completion, failure
from mcp import Client
from tests.http.running_server import RunningServer, run_server
from tests.mcp.transports import GENERATIONS, call_full, over_http, problem_of
from tests.projects import Repository

LINT = CatalogEntry(name="agent.lint.ruff", version=1, authority=("user", "agent"), lane="build")
DEPLOY = CatalogEntry(name="agent.deploy.prod", version=1, authority=("user",), lane="build")
TUPLE: dict[str, Any] = {"lane": "build", "payload": [{"yool": "agent.lint.ruff", "args": {"path": "src"}}]}


@pytest.fixture
def bus(gateway: Gateway, repository: Repository) -> Any:
    """Serve a project with a catalog."""
    write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog([LINT, DEPLOY]))
    with run_server(gateway, repository) as server:
        yield server


class _Now:
    """The clock of the receipts."""

    class clock:
        @staticmethod
        def now() -> int:
            from engrambus.core import SystemClock

            return SystemClock().now()


def _finish(bus: RunningServer) -> None:
    (claim,) = bus.gateway.tuple_space.space.claim({"lane": "build"}, worker="w")
    bus.gateway.tuple_space.space.complete([completion(_Now, claim)])  # type: ignore[arg-type]


def test_a_tuple_is_dispatched_observed_and_has_receipts(bus: RunningServer) -> None:
    sent = bus.call("POST", "/tuple", TUPLE)
    assert sent.status == 200
    tuple_id = sent.json["id"]
    acceptance = bus.call("GET", f"/receipt/{sent.json['receipt_id']}").json["receipt"]
    assert (acceptance["tuple_id"], acceptance["exit"]) == (tuple_id, 0)
    status = bus.call("GET", f"/tuple/{tuple_id}").json
    assert (status["state"], [step["yool"] for step in status["steps"]]) == ("waiting", ["agent.lint.ruff"])
    _finish(bus)
    status = bus.call("GET", f"/tuple/{tuple_id}").json
    assert status["state"] == "done"
    statement = bus.call("GET", f"/receipt/{status['terminal']}?intoto=true").json["statement"]
    assert statement["predicate"]["receipts"] == [status["steps"][0]["receipt"]]


def test_an_unchanged_status_is_not_sent_again(bus: RunningServer) -> None:
    tuple_id = bus.call("POST", "/tuple", TUPLE).json["id"]
    first = bus.call("GET", f"/tuple/{tuple_id}")
    unchanged = bus.call("GET", f"/tuple/{tuple_id}", headers={"If-None-Match": first.headers["etag"]})
    assert (unchanged.status, unchanged.body) == (304, b"")
    assert bus.call("GET", f"/tuple/{tuple_id}", headers={"If-None-Match": "*"}).status == 304
    _finish(bus)
    changed = bus.call("GET", f"/tuple/{tuple_id}", headers={"If-None-Match": first.headers["etag"]})
    assert (changed.status, changed.json["state"]) == (200, "done")


def test_the_event_stream_of_a_tuple_ends_with_it(bus: RunningServer) -> None:
    tuple_id = bus.call("POST", "/tuple", TUPLE).json["id"]
    connection = HTTPConnection("127.0.0.1", bus.port, timeout=30)
    connection.request("GET", f"/tuple/{tuple_id}/events", headers={"Authorization": f"Bearer {bus.token}"})
    answer = connection.getresponse()
    assert answer.headers["content-type"] == "text/event-stream"
    first = _event(answer)
    assert (first["event"], json.loads(first["data"])["state"]) == ("tuple", "waiting")
    assert first["id"] == bus.call("GET", f"/tuple/{tuple_id}").headers["etag"]
    working = threading.Thread(target=_finish, args=(bus,))
    working.start()
    states = []
    while event := _event(answer):
        states.append(json.loads(event["data"])["state"])
    working.join()
    assert states[-1] == "done"
    assert answer.read() == b""
    connection.close()


def _event(answer: Any) -> dict[str, str]:
    fields: dict[str, str] = {}
    while line := answer.readline().decode().rstrip("\n"):
        name, _, value = line.partition(": ")
        fields[name] = value
    return fields


def test_the_inner_loop_is_not_available_remotely(bus: RunningServer) -> None:
    local_only = {"tuple_out", "tuple_in", "tuple_rd", "tuple_again", "cancel_tuple", "receipt_verify", "list_dead"}
    tools = {operation.name for parts in tool_parts().values() for operation in parts.values()}
    assert not local_only & tools
    assert {"tuple_dispatch", "tuple_observe", "receipt_get"} <= tools
    for name in local_only:
        assert OPERATIONS[name].route is None
    for method, path in (("POST", "/tuple/out"), ("POST", "/tuple/in"), ("DELETE", "/receipt/x"), ("POST", "/catalog")):
        assert bus.call(method, path, {} if method == "POST" else None).status in (404, 405)
    writers = {
        operation.name
        for operation in OPERATIONS.values()
        if operation.writes and operation.route and "/receipt" in operation.route.path
    }
    assert writers == set()


def test_the_three_tools_cost_an_agent_few_tokens() -> None:
    from engrambus.edges.mcp.tools import tools

    definitions = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in _tools(tools())]
    schemas = [
        tool["inputSchema"]
        for tool in definitions
        if tool["name"] in ("tuple_dispatch", "tuple_observe", "receipt_get")
    ]
    assert len(schemas) == 3
    assert estimate_tokens(json.dumps(schemas, separators=(",", ":"))) <= 170


def _tools(tools: Any) -> list[Any]:
    return list(tools.values()) if isinstance(tools, dict) else list(tools)


def test_authority_is_stamped_and_enforced(bus: RunningServer) -> None:  # YT-04
    add = OPERATIONS["add_agent"]
    coder = bus.gateway.call(add, add.request(name="coder"), LOCAL_ADMIN).token
    sent = bus.call("POST", "/tuple", TUPLE, token=coder)
    record = bus.gateway.tuple_space.space.get(sent.json["id"])
    assert record.tuple.authority == {"user": None, "agent": f"{bus.run}/coder", "ci": False}
    forged = {**TUPLE, "authority": {"user": "wes", "agent": None, "ci": False}}
    assert bus.call("POST", "/tuple", forged, token=coder).code == "AUTHORITY_STAMPED"
    deploy = {"lane": "build", "payload": [{"yool": "agent.deploy.prod"}]}
    assert bus.call("POST", "/tuple", deploy, token=coder).code == "YOOL_FORBIDDEN"
    assert bus.call("POST", "/tuple", deploy).status == 200


def test_a_tuple_with_an_id_must_have_the_authority_of_its_sender(bus: RunningServer) -> None:  # YT-04
    """An agent may compute the id itself, but only over the authority it would be stamped with."""
    add = OPERATIONS["add_agent"]
    coder = bus.gateway.call(add, add.request(name="coder"), LOCAL_ADMIN).token
    first = bus.call("POST", "/tuple", TUPLE, token=coder).json["id"]
    complete = bus.gateway.tuple_space.space.public_tuple(first) | {
        "created_at": "2026-01-01T00:00:00.000000Z",
        "receipts": [],
    }
    stamp = complete.pop("authority")
    last_line = bus.gateway.tuple_space.space.store.last_line()
    for authority, code in (
        (None, "FIELD_MISSING"),
        ({}, "AUTHORITY_STAMPED"),
        ({"user": "admin", "agent": None, "ci": False}, "AUTHORITY_STAMPED"),
        ({**stamp, "extra": 1}, "AUTHORITY_STAMPED"),
    ):
        fields = {name: value for name, value in complete.items() if name != "id"}
        fields |= {} if authority is None else {"authority": authority}
        assert bus.call("POST", "/tuple", {**fields, "id": tuple_id(fields)}, token=coder).code == code
    assert bus.gateway.tuple_space.space.store.last_line() == last_line
    fields = {name: value for name, value in complete.items() if name != "id"} | {"authority": stamp}
    assert bus.call("POST", "/tuple", {**fields, "id": tuple_id(fields)}, token=coder).status == 200


def test_an_admin_sends_back_an_agents_tuple_but_makes_none_for_it(bus: RunningServer) -> None:  # YT-04
    add = OPERATIONS["add_agent"]
    coder = bus.gateway.call(add, add.request(name="coder"), LOCAL_ADMIN).token
    sent = bus.call("POST", "/tuple", TUPLE, token=coder).json["id"]
    public = bus.gateway.tuple_space.space.public_tuple(sent) | {"receipts": []}
    answer = bus.call("POST", "/tuple", public).json
    assert (answer["id"], answer["new"]) == (sent, False)
    fields = {**public, "created_at": "2026-01-01T00:00:00.000000Z"}
    del fields["id"]
    last_line = bus.gateway.tuple_space.space.store.last_line()
    for authority in (public["authority"], {"user": "root", "agent": "evil", "ci": True}):
        forged = {**fields, "authority": authority}
        assert bus.call("POST", "/tuple", {**forged, "id": tuple_id(forged)}).code == "AUTHORITY_STAMPED"
    assert bus.gateway.tuple_space.space.store.last_line() == last_line


def test_tuples_and_receipts_of_another_run_look_absent(bus: RunningServer) -> None:
    sent = bus.call("POST", "/tuple", TUPLE).json
    open_run, add = OPERATIONS["open_run"], OPERATIONS["add_agent"]
    run = bus.gateway.call(open_run, open_run.request(goal="another"), LOCAL_ADMIN).run_id
    spy = bus.gateway.call(add, add.request(name="spy"), Credential(local_admin=True, run=run)).token
    assert bus.call("GET", f"/tuple/{sent['id']}", token=spy).code == "TUPLE_NOT_FOUND"
    assert bus.call("GET", f"/tuple/{sent['id']}/events", token=spy).code == "TUPLE_NOT_FOUND"
    assert bus.call("GET", f"/receipt/{sent['receipt_id']}", token=spy).code == "RECEIPT_NOT_FOUND"
    absent = "sha256:" + "0" * 64
    refused = [bus.call("POST", "/tuple", {**TUPLE, "parent_id": id}, token=spy) for id in (sent["id"], absent)]
    problems = [{**answer.json, "used": None, "instance": None} for answer in refused]
    assert problems[0] == problems[1], "the answer does not show that the parent exists"
    assert problems[0]["code"] == "TUPLE_NOT_FOUND"
    assert bus.call("POST", "/tuple", {**TUPLE, "parent_id": sent["id"]}).status == 200


def test_a_tuple_that_was_read_can_be_sent_back_unchanged(bus: RunningServer) -> None:  # YT-04
    sent = bus.call("POST", "/tuple", TUPLE).json
    _finish(bus)
    public = bus.gateway.call(OPERATIONS["tuple_rd"], TupleRd(lane="build"), LOCAL_ADMIN).tuple
    assert len(public["receipts"]) == 3
    answer = bus.call("POST", "/tuple", public).json
    assert answer == {"id": sent["id"], "receipt_id": sent["receipt_id"], "new": False}


def test_a_prefix_of_an_id_is_resolved_among_what_the_caller_sees(bus: RunningServer) -> None:  # YT-15
    sent = bus.call("POST", "/tuple", TUPLE).json
    full_id, receipt = sent["id"], sent["receipt_id"]
    for prefix in (full_id[:11], full_id[7:11], full_id[7:31]):
        assert bus.call("GET", f"/tuple/{prefix}").json["id"] == full_id
        assert bus.call("GET", f"/receipt/{receipt[7:13]}").json["receipt"]["id"] == receipt
    absent = "0" * 6 if full_id[7:13] != "0" * 6 else "1" * 6
    for prefix in (full_id[:10], full_id[7:10], full_id[7:13].upper() + "x", absent):
        assert bus.call("GET", f"/tuple/{prefix}").code == "TUPLE_NOT_FOUND"
    visible, hidden = _two_tuples_with_a_common_prefix()
    space = bus.gateway.tuple_space.space
    stamp = {"user": "admin", "agent": None, "ci": False}
    space.out(visible, authority=stamp, run=bus.run)
    space.out(hidden, authority=stamp, run="another")
    add = OPERATIONS["add_agent"]
    coder = bus.gateway.call(add, add.request(name="coder"), Credential(local_admin=True, run=bus.run)).token
    prefix = visible["id"][7:13]
    assert bus.call("GET", f"/tuple/{prefix}", token=coder).json["id"] == visible["id"], "the hidden one looks absent"
    status = bus.gateway.call(OPERATIONS["tuple_observe"], TupleId(id=hidden["id"][7:]), LOCAL_ADMIN)
    assert status.id == hidden["id"]
    with pytest.raises(IdAmbiguous) as refusal:
        bus.gateway.call(OPERATIONS["tuple_observe"], TupleId(id=prefix), LOCAL_ADMIN)
    assert (refusal.value.field, refusal.value.used) == ("id", prefix)
    assert sorted(str(refusal.value.limit).split(", ")) == sorted([visible["id"], hidden["id"]])
    assert bus.call("GET", f"/why/{prefix}", token=coder).json["id"] == visible["id"]


def _two_tuples_with_a_common_prefix() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two complete tuples whose ids have the same first six digits."""
    by_prefix: dict[str, dict[str, Any]] = {}
    for number in count():
        fields: dict[str, Any] = {
            "schema": "yool-tuple/v2", "lane": "notes", "payload": [], "map_pos": {"number": number}, "agent_terms": {},
            "src_ptr": [], "parent_id": None, "flags": {}, "receipts": [], "created_at": "2026-11-15T12:00:00.000000Z",
            "authority": {"user": "admin", "agent": None, "ci": False},
        }  # fmt: skip
        id = tuple_id(fields)
        first = by_prefix.setdefault(id[:13], {**fields, "id": id})
        if first["id"] != id:
            return first, {**fields, "id": id}
    raise AssertionError


def test_agents_may_read_a_receipt_that_was_a_cache_hit_of_their_run(bus: RunningServer) -> None:  # YT-09
    executed = bus.call("POST", "/tuple", TUPLE).json["id"]
    space = bus.gateway.tuple_space.space
    (claim,) = space.claim({"lane": "build"}, worker="w")
    report = completion(_Now, claim, key="agent.lint.ruff.v1@0")  # type: ignore[arg-type]
    space.complete([report])
    open_run, add = OPERATIONS["open_run"], OPERATIONS["add_agent"]
    run = bus.gateway.call(open_run, open_run.request(goal="another"), LOCAL_ADMIN).run_id
    coder = bus.gateway.call(add, add.request(name="coder"), Credential(local_admin=True, run=run)).token
    cached = bus.call("POST", "/tuple", TUPLE, token=coder).json["id"]
    (claim,) = space.claim({"lane": "build"}, worker="w")
    with space.store.read() as view:
        hit = view.cached_receipt("agent.lint.ruff.v1@0")
    assert hit is not None
    space.complete([Completion(id=cached, fence=claim.fence, hits=((0, hit.id),))])
    (step,) = bus.call("GET", f"/tuple/{cached}", token=coder).json["steps"]
    assert step["hit"]
    assert bus.call("GET", f"/receipt/{step['receipt']}", token=coder).json["receipt"]["tuple_id"] == executed
    final = space.public_tuple(executed)["receipts"][-1]
    assert bus.call("GET", f"/receipt/{final}", token=coder).code == "RECEIPT_NOT_FOUND"


@pytest.mark.parametrize("mode", GENERATIONS)
def test_an_agent_observes_its_tuple_over_mcp(bus: RunningServer, mode: str) -> None:
    add = OPERATIONS["add_agent"]
    coder = bus.gateway.call(add, add.request(name="coder"), LOCAL_ADMIN).token
    of_another_run = bus.gateway.tuple_space.space.out({"lane": "x"}, authority={"user": "admin"}, run="another")[0].id

    async def talk(client: Client) -> None:
        tuple_id = (await call_full(client, "tuple_dispatch", TUPLE))["id"]
        for state, exits, receipts in (("waiting", [None], 1), ("done", [0], 3)):
            status = await call_full(client, "tuple_observe", {"id": tuple_id[:20]})
            assert (status["id"], status["state"], len(status["receipts"])) == (tuple_id, state, receipts)
            assert [step.get("exit") for step in status["steps"]] == exits
            assert status == bus.call("GET", f"/tuple/{tuple_id}", token=coder).json, "the same as over HTTP"
            if state == "waiting":
                _finish(bus)
        assert status["terminal"] == status["receipts"][-1]
        for id in (of_another_run, "sha256:" + "0" * 64):
            problem = problem_of(await client.call_tool("tuple_observe", {"id": id}))
            assert (problem["code"], problem["field"]) == ("TUPLE_NOT_FOUND", "id")

    over_http(bus, mode, talk, coder)


def test_the_status_shows_why_a_tuple_failed(bus: RunningServer) -> None:  # YT-15
    tuple_id = bus.call("POST", "/tuple", {**TUPLE, "agent_terms": {"max_retries": 1}}).json["id"]
    space = bus.gateway.tuple_space.space
    for state in ("waiting", "dead"):
        (claim,) = space.claim({"lane": "build"}, worker="w", timeout=5)
        space.complete([failure(_Now, claim, why="exit 1")])  # type: ignore[arg-type]
        status = bus.call("GET", f"/tuple/{tuple_id}").json
        assert (status["state"], status["error"], status["steps"][0]["exit"]) == (state, "exit 1", 1)
        receipt = bus.call("GET", f"/receipt/{status['steps'][0]['receipt']}").json["receipt"]
        assert receipt["attempt"] == claim.attempt


def test_invalid_requests_are_refused_and_change_nothing(bus: RunningServer) -> None:
    last_line = bus.gateway.tuple_space.space.store.last_line()
    for body, code in (
        ({"lane": "build", "payload": [{"yool": "agent.nobody.knows"}]}, "YOOL_NOT_FOUND"),
        ({"lane": "build", "payload": [{"yool": "Bad Name"}]}, "YOOL_NAME"),
        ({**TUPLE, "schema": "yool-tuple/v3"}, "TUPLE_SCHEMA"),
        ({**TUPLE, "agent_terms": {"budget_usd": -1}}, "TERMS_INVALID"),
        ({**TUPLE, "parent_id": "sha256:" + "0" * 64}, "TUPLE_NOT_FOUND"),
        ({"payload": []}, "FIELD_MISSING"),
        ({**TUPLE, "src_ptr": ["x" * 3_000_000]}, "BODY_TOO_LARGE"),
        ({**TUPLE, "src_ptr": ["x" * 1_500_000]}, "TUPLE_TOO_LARGE"),
        ({**TUPLE, "map_pos": {"key": "AKIA" + "Q3EGT7KMWZ5VXN2P"}}, "SECRET_FOUND"),
    ):
        assert bus.call("POST", "/tuple", body).code == code
    assert bus.call("GET", "/tuple/T0").code == "TUPLE_NOT_FOUND"
    assert bus.call("GET", "/receipt/R0").code == "RECEIPT_NOT_FOUND"
    assert bus.gateway.tuple_space.space.store.last_line() == last_line


def test_an_unknown_yool_is_refused_with_its_step(bus: RunningServer) -> None:  # YT-03
    refused = bus.call("POST", "/tuple", {**TUPLE, "payload": [*TUPLE["payload"], {"yool": "agent.lint.rufff"}]})
    assert (refused.code, refused.json["field"]) == ("YOOL_NOT_FOUND", "payload[1].yool")
    assert refused.json["nearest"][0] == "agent.lint.ruff"


def test_an_idempotency_key_dispatches_a_tuple_once(bus: RunningServer) -> None:
    headers = {"Idempotency-Key": "once"}
    first = bus.call("POST", "/tuple", TUPLE, headers=headers).json
    repeated = bus.call("POST", "/tuple", TUPLE, headers=headers).json
    assert (repeated["id"], repeated["receipt_id"], repeated["new"]) == (first["id"], first["receipt_id"], False)
    different = {**TUPLE, "priority": 1}
    assert bus.call("POST", "/tuple", different, headers=headers).code == "IDEMPOTENCY_CONFLICT"


def test_an_idempotency_key_is_used_up_even_if_the_tuple_existed(bus: RunningServer) -> None:  # YT-04
    sent = bus.call("POST", "/tuple", TUPLE).json
    public = bus.gateway.call(OPERATIONS["tuple_rd"], TupleRd(pattern={"id": sent["id"]}), LOCAL_ADMIN).tuple
    headers = {"Idempotency-Key": "read before"}
    for _ in range(2):
        answer = bus.call("POST", "/tuple", public, headers=headers)
        assert answer.json == {"id": sent["id"], "receipt_id": sent["receipt_id"], "new": False}
    assert bus.call("POST", "/tuple", TUPLE, headers=headers).code == "IDEMPOTENCY_CONFLICT"
