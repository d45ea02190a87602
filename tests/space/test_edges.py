"""Work on the edges: dispatch, observe and receipts are there; the inner loop is not. # YT-15"""

from __future__ import annotations

import json
import threading
from http.client import HTTPConnection
from itertools import count
from typing import Any

import pytest

from engrambus.core import estimate_tokens
from engrambus.edges.mcp.tools import tool_operations
from engrambus.errors import IdAmbiguous
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway
from engrambus.operations import OPERATIONS
from engrambus.operations.tuples import TupleId, TupleRd
from engrambus.space.catalog import CAPABILITIES, Catalog, CatalogEntry, write_catalog
from engrambus.space.tuples import Completion, tuple_id
from engrambus.testing.work import completion, failure
from mcp import Client
from tests.http.running_server import RunningServer, run_server
from tests.mcp.transports import GENERATIONS, over_http, problem_of
from tests.projects import Repository

LINT = CatalogEntry(name="agent.lint.ruff", version=1, authority=("user", "agent"), lane="build")
DEPLOY = CatalogEntry(name="agent.deploy.prod", version=1, authority=("user",), lane="build")
TUPLE: dict[str, Any] = {"lane": "build", "payload": [{"yool": "agent.lint.ruff", "args": {"path": "src"}}]}


@pytest.fixture
def bus(gateway: Gateway, repository: Repository) -> Any:
    """A project with a catalog, served."""
    write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog([LINT, DEPLOY]))
    with run_server(gateway, repository) as served:
        yield served


class _Now:
    """What the receipts of the tests take the time from."""

    class clock:
        @staticmethod
        def now() -> int:
            from engrambus.core import SystemClock

            return SystemClock().now()


def _finish(bus: RunningServer) -> None:
    (claim,) = bus.gateway.tuple_space.space.claim({"lane": "build"}, worker="w")
    bus.gateway.tuple_space.space.complete([completion(_Now, claim)])  # type: ignore[arg-type]


def test_a_tuple_is_dispatched_observed_and_leaves_receipts(bus: RunningServer) -> None:
    sent = bus.call("POST", "/tuple", TUPLE)
    assert sent.status == 200
    one = sent.json["id"]
    accepted = bus.call("GET", f"/receipt/{sent.json['receipt_id']}").json["receipt"]
    assert (accepted["tuple_id"], accepted["exit"]) == (one, 0)
    seen = bus.call("GET", f"/tuple/{one}").json
    assert (seen["state"], [step["yool"] for step in seen["steps"]]) == ("waiting", ["agent.lint.ruff"])
    _finish(bus)
    seen = bus.call("GET", f"/tuple/{one}").json
    assert seen["state"] == "done"
    statement = bus.call("GET", f"/receipt/{seen['terminal']}?intoto=true").json["statement"]
    assert statement["predicate"]["receipts"] == [seen["steps"][0]["receipt"]]


def test_what_did_not_change_is_not_sent_again(bus: RunningServer) -> None:
    one = bus.call("POST", "/tuple", TUPLE).json["id"]
    first = bus.call("GET", f"/tuple/{one}")
    again = bus.call("GET", f"/tuple/{one}", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert bus.call("GET", f"/tuple/{one}", headers={"If-None-Match": "*"}).status == 304
    _finish(bus)
    changed = bus.call("GET", f"/tuple/{one}", headers={"If-None-Match": first.headers["etag"]})
    assert (changed.status, changed.json["state"]) == (200, "done")


def test_a_tuple_is_followed_to_its_end(bus: RunningServer) -> None:
    one = bus.call("POST", "/tuple", TUPLE).json["id"]
    connection = HTTPConnection("127.0.0.1", bus.port, timeout=30)
    connection.request("GET", f"/tuple/{one}/events", headers={"Authorization": f"Bearer {bus.token}"})
    answer = connection.getresponse()
    assert answer.headers["content-type"] == "text/event-stream"
    first = _event(answer)
    assert (first["event"], json.loads(first["data"])["state"]) == ("tuple", "waiting")
    assert first["id"] == bus.call("GET", f"/tuple/{one}").headers["etag"]
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


def test_the_inner_loop_is_not_on_the_wire(bus: RunningServer) -> None:
    absent_from = {"tuple_out", "tuple_in", "tuple_rd", "tuple_again", "cancel_tuple", "receipt_verify", "list_dead"}
    tools = {operation.name for operation in tool_operations().values()}
    assert not absent_from & tools
    assert {"tuple_dispatch", "tuple_observe", "receipt_get"} <= tools
    for name in absent_from:
        assert OPERATIONS[name].route is None
    for method, path in (("POST", "/tuple/out"), ("POST", "/tuple/in"), ("DELETE", "/receipt/x"), ("POST", "/catalog")):
        assert bus.call(method, path, {} if method == "POST" else None).status in (404, 405)
    writers = {
        each.name for each in OPERATIONS.values() if each.writes and each.route and "/receipt" in each.route.path
    }
    assert writers == set()


def test_the_three_tools_are_small() -> None:
    from engrambus.edges.mcp.tools import tools

    shown = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in _tools(tools())]
    schemas = [
        tool["inputSchema"] for tool in shown if tool["name"] in ("tuple_dispatch", "tuple_observe", "receipt_get")
    ]
    assert len(schemas) == 3
    assert estimate_tokens(json.dumps(schemas, separators=(",", ":"))) <= 170


def _tools(given: Any) -> list[Any]:
    return list(given.values()) if isinstance(given, dict) else list(given)


def test_authority_is_stamped_and_enforced(bus: RunningServer) -> None:  # YT-04
    add = OPERATIONS["add_agent"]
    coder = bus.gateway.call(add, add.request(name="coder"), LOCAL_ADMIN).token
    sent = bus.call("POST", "/tuple", TUPLE, token=coder)
    kept = bus.gateway.tuple_space.space.get(sent.json["id"])
    assert kept.tuple.authority == {"user": None, "agent": f"{bus.run}/coder", "ci": False}
    written = {**TUPLE, "authority": {"user": "wes", "agent": None, "ci": False}}
    assert bus.call("POST", "/tuple", written, token=coder).code == "AUTHORITY_STAMPED"
    deploy = {"lane": "build", "payload": [{"yool": "agent.deploy.prod"}]}
    assert bus.call("POST", "/tuple", deploy, token=coder).code == "YOOL_FORBIDDEN"
    assert bus.call("POST", "/tuple", deploy).status == 200


def test_an_id_of_ones_own_leaves_nobody_unnamed(bus: RunningServer) -> None:  # YT-04
    """An agent may send a tuple with its id, and with the authority it is stamped with, no other and not none."""
    add = OPERATIONS["add_agent"]
    coder = bus.gateway.call(add, add.request(name="coder"), LOCAL_ADMIN).token
    first = bus.call("POST", "/tuple", TUPLE, token=coder).json["id"]
    whole = bus.gateway.tuple_space.space.public_tuple(first) | {
        "created_at": "2026-01-01T00:00:00.000000Z",
        "receipts": [],
    }
    own = whole.pop("authority")
    before = bus.gateway.tuple_space.space.store.last_line()
    for authority, code in (
        (None, "FIELD_MISSING"),
        ({}, "AUTHORITY_STAMPED"),
        ({"user": "admin", "agent": None, "ci": False}, "AUTHORITY_STAMPED"),
        ({**own, "more": 1}, "AUTHORITY_STAMPED"),
    ):
        fields = {name: value for name, value in whole.items() if name != "id"}
        fields |= {} if authority is None else {"authority": authority}
        assert bus.call("POST", "/tuple", {**fields, "id": tuple_id(fields)}, token=coder).code == code
    assert bus.gateway.tuple_space.space.store.last_line() == before
    fields = {name: value for name, value in whole.items() if name != "id"} | {"authority": own}
    assert bus.call("POST", "/tuple", {**fields, "id": tuple_id(fields)}, token=coder).status == 200


def test_another_runs_work_looks_absent(bus: RunningServer) -> None:
    one = bus.call("POST", "/tuple", TUPLE).json
    open_run, add = OPERATIONS["open_run"], OPERATIONS["add_agent"]
    run = bus.gateway.call(open_run, open_run.request(goal="another"), LOCAL_ADMIN).run_id
    other = bus.gateway.call(add, add.request(name="spy"), Credential(local_admin=True, run=run)).token
    assert bus.call("GET", f"/tuple/{one['id']}", token=other).code == "TUPLE_NOT_FOUND"
    assert bus.call("GET", f"/tuple/{one['id']}/events", token=other).code == "TUPLE_NOT_FOUND"
    assert bus.call("GET", f"/receipt/{one['receipt_id']}", token=other).code == "RECEIPT_NOT_FOUND"
    absent = "sha256:" + "0" * 64
    refused = [bus.call("POST", "/tuple", {**TUPLE, "parent_id": each}, token=other) for each in (one["id"], absent)]
    said = [{**each.json, "used": None, "instance": None} for each in refused]
    assert (said[0], said[0]["code"]) == (said[1], "TUPLE_NOT_FOUND"), "nor does it spend for one of another run"
    assert bus.call("POST", "/tuple", {**TUPLE, "parent_id": one["id"]}).status == 200


def test_a_tuple_as_it_is_read_is_dispatched_once(bus: RunningServer) -> None:  # YT-04
    sent = bus.call("POST", "/tuple", TUPLE).json
    _finish(bus)
    read = bus.gateway.call(OPERATIONS["tuple_rd"], TupleRd(lane="build"), LOCAL_ADMIN).tuple
    assert len(read["receipts"]) == 3
    again = bus.call("POST", "/tuple", read).json
    assert again == {"id": sent["id"], "receipt_id": sent["receipt_id"], "new": False}


def test_the_beginning_of_an_id_names_it_among_what_the_caller_sees(bus: RunningServer) -> None:  # YT-15
    sent = bus.call("POST", "/tuple", TUPLE).json
    one, receipt = sent["id"], sent["receipt_id"]
    for given in (one[:13], one[7:13], one[7:31]):
        assert bus.call("GET", f"/tuple/{given}").json["id"] == one
        assert bus.call("GET", f"/receipt/{receipt[7:13]}").json["receipt"]["id"] == receipt
    for given in (one[:12], one[7:12], one[7:13].upper() + "x", "0" * 6 if one[7:13] != "0" * 6 else "1" * 6):
        assert bus.call("GET", f"/tuple/{given}").code == "TUPLE_NOT_FOUND"
    hers, his = _two_that_begin_alike()
    space = bus.gateway.tuple_space.space
    stamp = {"user": "admin", "agent": None, "ci": False}
    space.out(hers, authority=stamp, run=bus.run)
    space.out(his, authority=stamp, run="another")
    add = OPERATIONS["add_agent"]
    coder = bus.gateway.call(add, add.request(name="coder"), Credential(local_admin=True, run=bus.run)).token
    assert bus.call("GET", f"/tuple/{hers['id'][7:13]}", token=coder).json["id"] == hers["id"], "his looks absent"
    seen = bus.gateway.call(OPERATIONS["tuple_observe"], TupleId(id=his["id"][7:]), LOCAL_ADMIN)
    assert seen.id == his["id"]
    with pytest.raises(IdAmbiguous) as refusal:
        bus.gateway.call(OPERATIONS["tuple_observe"], TupleId(id=his["id"][7:13]), LOCAL_ADMIN)
    assert (refusal.value.field, refusal.value.used) == ("id", his["id"][7:13])


def _two_that_begin_alike() -> tuple[dict[str, Any], dict[str, Any]]:
    """Two whole tuples whose ids share their first six digits."""
    seen: dict[str, dict[str, Any]] = {}
    for number in count():
        one: dict[str, Any] = {
            "schema": "yool-tuple/v2", "lane": "notes", "payload": [], "map_pos": {"number": number}, "agent_terms": {},
            "src_ptr": [], "parent_id": None, "flags": {}, "receipts": [], "created_at": "2026-11-15T12:00:00.000000Z",
            "authority": {"user": "admin", "agent": None, "ci": False},
        }  # fmt: skip
        name = tuple_id(one)
        other = seen.setdefault(name[:13], {**one, "id": name})
        if other["id"] != name:
            return other, {**one, "id": name}
    raise AssertionError


def test_what_the_cache_gave_to_a_run_its_agents_may_read(bus: RunningServer) -> None:  # YT-09
    one = bus.call("POST", "/tuple", TUPLE).json["id"]
    space = bus.gateway.tuple_space.space
    (claim,) = space.claim({"lane": "build"}, worker="w")
    done = completion(_Now, claim, key="agent.lint.ruff.v1@0")  # type: ignore[arg-type]
    space.complete([done])
    open_run, add = OPERATIONS["open_run"], OPERATIONS["add_agent"]
    run = bus.gateway.call(open_run, open_run.request(goal="another"), LOCAL_ADMIN).run_id
    other = bus.gateway.call(add, add.request(name="coder"), Credential(local_admin=True, run=run)).token
    same = bus.call("POST", "/tuple", TUPLE, token=other).json["id"]
    (claim,) = space.claim({"lane": "build"}, worker="w")
    with space.store.read() as view:
        found = view.cached_receipt("agent.lint.ruff.v1@0")
    assert found is not None
    space.complete([Completion(id=same, fence=claim.fence, hits=((0, found.id),))])
    (step,) = bus.call("GET", f"/tuple/{same}", token=other).json["steps"]
    assert step["hit"]
    assert bus.call("GET", f"/receipt/{step['receipt']}", token=other).json["receipt"]["tuple_id"] == one
    last = space.public_tuple(one)["receipts"][-1]
    assert bus.call("GET", f"/receipt/{last}", token=other).code == "RECEIPT_NOT_FOUND"


@pytest.mark.parametrize("mode", GENERATIONS)
def test_an_agent_observes_over_mcp_what_became_of_its_tuple(bus: RunningServer, mode: str) -> None:
    add = OPERATIONS["add_agent"]
    coder = bus.gateway.call(add, add.request(name="coder"), LOCAL_ADMIN).token
    others = bus.gateway.tuple_space.space.out({"lane": "x"}, authority={"user": "admin"}, run="another")[0].id

    async def talk(client: Client) -> None:
        one = (await client.call_tool("tuple_dispatch", TUPLE)).structured_content["id"]
        for state, exits, receipts in (("waiting", [None], 1), ("done", [0], 3)):
            seen = (await client.call_tool("tuple_observe", {"id": one[:20]})).structured_content
            assert (seen["id"], seen["state"], len(seen["receipts"])) == (one, state, receipts)
            assert [step.get("exit") for step in seen["steps"]] == exits
            assert seen == bus.call("GET", f"/tuple/{one}", token=coder).json, "as it is told over HTTP"
            if state == "waiting":
                _finish(bus)
        assert seen["terminal"] == seen["receipts"][-1]
        for given in (others, "sha256:" + "0" * 64):
            problem = problem_of(await client.call_tool("tuple_observe", {"id": given}))
            assert (problem["code"], problem["field"]) == ("TUPLE_NOT_FOUND", "id")

    over_http(bus, mode, talk, coder)


def test_an_observer_is_told_why_it_failed(bus: RunningServer) -> None:  # YT-15
    one = bus.call("POST", "/tuple", {**TUPLE, "agent_terms": {"max_retries": 1}}).json["id"]
    space = bus.gateway.tuple_space.space
    for state in ("waiting", "dead"):
        (claim,) = space.claim({"lane": "build"}, worker="w", timeout=5)
        space.complete([failure(_Now, claim)])  # type: ignore[arg-type]
        seen = bus.call("GET", f"/tuple/{one}").json
        assert (seen["state"], seen["error"], seen["steps"][0]["exit"]) == (state, "exit 1", 1)
        receipt = bus.call("GET", f"/receipt/{seen['steps'][0]['receipt']}").json["receipt"]
        assert receipt["attempt"] == claim.attempt


def test_bad_requests_are_refused_and_change_nothing(bus: RunningServer) -> None:
    before = bus.gateway.tuple_space.space.store.last_line()
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
    assert bus.gateway.tuple_space.space.store.last_line() == before


def test_it_is_said_which_step_nobody_knows(bus: RunningServer) -> None:  # YT-03
    refused = bus.call("POST", "/tuple", {**TUPLE, "payload": [*TUPLE["payload"], {"yool": "agent.lint.rufff"}]})
    assert (refused.code, refused.json["field"]) == ("YOOL_NOT_FOUND", "payload[1].yool")
    assert refused.json["nearest"][0] == "agent.lint.ruff"


def test_an_idempotency_key_dispatches_once(bus: RunningServer) -> None:
    headers = {"Idempotency-Key": "once"}
    first = bus.call("POST", "/tuple", TUPLE, headers=headers).json
    again = bus.call("POST", "/tuple", TUPLE, headers=headers).json
    assert (again["id"], again["receipt_id"], again["new"]) == (first["id"], first["receipt_id"], False)
    other = {**TUPLE, "priority": 1}
    assert bus.call("POST", "/tuple", other, headers=headers).code == "IDEMPOTENCY_CONFLICT"


def test_an_idempotency_key_is_used_up_by_a_tuple_that_was_there_already(bus: RunningServer) -> None:  # YT-04
    sent = bus.call("POST", "/tuple", TUPLE).json
    read = bus.gateway.call(OPERATIONS["tuple_rd"], TupleRd(pattern={"id": sent["id"]}), LOCAL_ADMIN).tuple
    headers = {"Idempotency-Key": "read before"}
    for _ in range(2):
        again = bus.call("POST", "/tuple", read, headers=headers)
        assert again.json == {"id": sent["id"], "receipt_id": sent["receipt_id"], "new": False}
    assert bus.call("POST", "/tuple", TUPLE, headers=headers).code == "IDEMPOTENCY_CONFLICT"
