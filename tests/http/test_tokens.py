"""Tokens: which are accepted, and what a caller without rights can learn."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest

from engrambus.edges.page.assets import static_folder
from engrambus.edges.sdk import Bus
from engrambus.operations import OPERATIONS
from engrambus.policy import TokenKey
from tests.http.running_server import Answer, RunningServer

ABSENT = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def _refused(bus: RunningServer, token: str | None, **headers: str) -> Answer:
    with bus.nothing_stored():
        answer = bus.put(token=token) if not headers else bus.call("GET", "/agent", token=None, headers=headers)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    return answer


def test_without_a_token_only_public_paths_are_answered(bus: RunningServer) -> None:  # EB-20
    assert _refused(bus, None).code == "TOKEN_MISSING"
    for target in ("/", "/healthz", "/openapi.json", "/schemas/engram.v0.1.json", f"{static_folder()}/page.js"):
        assert bus.call("GET", target, token=None).status == 200, target


def test_without_a_token_no_operation_runs(bus: RunningServer) -> None:  # EB-31
    routes = [operation.route for operation in OPERATIONS.values() if operation.route]
    with bus.nothing_stored():
        for route in routes:
            body: dict[str, str] | None = {} if route.method == "POST" else None
            for path in (route.path, f"{route.path}?as=admin"):
                answer = bus.call(route.method, re.sub(r"\{\w+\}", ABSENT, path), body, token=None)
                assert answer.status == 401, (route, answer.body)
    assert len(routes) > 40


def test_an_agent_is_named_by_its_full_name_in_a_path(bus: RunningServer) -> None:  # EB-31
    bus.add("boss", "manager")
    bus.add("kid", parent="boss")
    first = bus.run
    bus.call("POST", "/run", {"goal": "another"})
    second = bus.sign()  # an admin's token is made for the current run
    bus.call("POST", "/agent", {"name": "kid"}, token=second)
    for name, run in ((f"{first}/kid", first), (f"{first}%2Fkid", first), ("kid", bus.run), ("boss", first)):
        assert bus.call("POST", f"/agent/{name}/token", {}, token=second).json["run_id"] == run
    assert bus.call("POST", "/agent/boss/turn", {}, token=second).json["agent_id"] == "boss"
    with Bus.connect(f"http://127.0.0.1:{bus.port}", token=second) as remote:
        assert remote.agent_token(f"{first}/kid").run_id == first
    missed = bus.call("POST", "/agent/bos/token", {}, token=second)
    assert (missed.status, missed.code, missed.json["hint"]) == (404, "AGENT_NOT_FOUND", "Did you mean boss?")
    bus.call("POST", "/run", {"goal": "a third"})
    ambiguous = bus.call("GET", "/agent?as=kid", token=bus.sign())
    assert (ambiguous.status, ambiguous.code) == (422, "AGENT_AMBIGUOUS")


@pytest.mark.parametrize("value", ["Basic YWRhOmFkYQ==", "bearer", "Bearer", "Token x", ""])
def test_a_header_without_a_bearer_token_is_refused(bus: RunningServer, value: str) -> None:
    assert _refused(bus, None, Authorization=value).code in ("TOKEN_MISSING", "TOKEN_INVALID")


def test_the_case_of_the_scheme_is_ignored(bus: RunningServer) -> None:
    assert bus.call("GET", "/agent", token=None, headers={"Authorization": f"bEaReR {bus.token}"}).status == 200


def test_an_expired_token_is_refused(bus: RunningServer) -> None:
    assert _refused(bus, bus.sign(seconds=-1)).code == "TOKEN_EXPIRED"


def test_a_token_with_a_flipped_bit_is_refused(bus: RunningServer) -> None:
    scheme, payload, mac = bus.token.split(".")
    for part, pattern in ((payload, (scheme, "{}", mac)), (mac, (scheme, payload, "{}"))):
        data = bytearray(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        for bit in range(0, len(data) * 8, 37):
            data[bit // 8] ^= 1 << bit % 8
            spoiled = base64.urlsafe_b64encode(bytes(data)).rstrip(b"=").decode()
            data[bit // 8] ^= 1 << bit % 8
            token = ".".join(piece.replace("{}", spoiled) for piece in pattern)
            assert bus.call("GET", "/agent", token=token).code == "TOKEN_INVALID"


def test_a_forged_token_is_refused(bus: RunningServer, tmp_path: Path) -> None:
    claims = {"agent": "admin", "role": "admin", "parent": None, "project": bus.gateway.store.project, "run": bus.run}
    payload = base64.urlsafe_b64encode(json.dumps({**claims, "expires_at": 2**52}).encode()).rstrip(b"=").decode()
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    scheme, real_payload, mac = bus.token.split(".")
    key = bus.gateway.key
    bus.gateway.key = TokenKey.load(tmp_path)
    try:
        signed_with_another_key = bus.sign()
    finally:
        bus.gateway.key = key
    for token in (
        f"engrambus1.{payload}.",
        f"engrambus1.{payload}",
        f"engrambus1.{payload}.{mac}",
        f"{none}.{payload}.",
        f"engrambus2.{real_payload}.{mac}",
        f"{scheme}.{real_payload}.{mac}.{mac}",
        bus.token[:-1],
        bus.token + "A",
        bus.token + "=",
        bus.token.swapcase(),
        "ü" * 20,
        "x" * 5000,
        signed_with_another_key,
    ):
        assert _refused(bus, token).code == "TOKEN_INVALID", token[:80]


def test_a_token_of_another_project_is_refused(bus: RunningServer, other_bus: RunningServer) -> None:
    assert _refused(bus, other_bus.token).code == "TOKEN_INVALID"
    borrowed = bus.sign(project=other_bus.gateway.store.project)
    assert _refused(bus, borrowed).code == "TOKEN_INVALID"


def test_a_token_that_contradicts_the_project_is_refused(bus: RunningServer) -> None:
    bus.add("clerk")
    for token in (
        bus.sign(name="nobody", role="programmer"),
        bus.sign(name="clerk", role="architect"),
        bus.sign(name="clerk", role="programmer", parent="admin"),
        bus.sign(run=ABSENT),
    ):
        assert _refused(bus, token).code == "TOKEN_INVALID"


def test_an_operation_for_other_roles_is_refused(bus: RunningServer) -> None:
    token = bus.add("helper")
    engram = bus.put().json["id"]
    with bus.nothing_stored():
        for method, target, body in (
            ("POST", "/run", {"goal": "x"}),
            ("POST", "/agent", {"name": "mine"}),
            ("DELETE", f"/engram/{engram}", None),
            ("GET", "/stats?over=project", None),
            ("POST", "/session/code", None),
        ):
            answer = bus.call(method, target, body, token=token)
            assert (answer.status, answer.code) == (403, "ROLE_FORBIDDEN"), target


def test_an_engram_of_another_project_is_not_found(bus: RunningServer, other_bus: RunningServer) -> None:  # EB-20
    foreign = other_bus.put().json["id"]
    for method, tail in (("GET", ""), ("DELETE", ""), ("POST", "/promote")):
        with bus.nothing_stored():
            theirs = bus.call(method, f"/engram/{foreign}{tail}")
            absent = bus.call(method, f"/engram/{ABSENT}{tail}")
        assert absent.code == "ENGRAM_NOT_FOUND"
        assert (theirs.status, theirs.body) == (absent.status, absent.body)
        assert _headers_without_date(theirs) == _headers_without_date(absent)


def test_an_engram_of_another_run_is_not_found(bus: RunningServer) -> None:  # EB-20
    private = bus.put("Only for this run.", scope="run").json["id"]
    assert bus.call("GET", f"/engram/{private}").status == 200
    assert bus.call("POST", "/run", {"goal": "another"}).status == 200
    newcomer = bus.sign()
    engrams = bus.call("GET", "/engram/query?q=only+for+this+run", token=newcomer).json["engrams"]
    assert private not in {engram["id"] for engram in engrams}
    for method, tail in (("GET", ""), ("DELETE", ""), ("POST", "/promote")):
        with bus.nothing_stored():
            theirs = bus.call(method, f"/engram/{private}{tail}", token=newcomer)
            absent = bus.call(method, f"/engram/{ABSENT}{tail}", token=newcomer)
        assert theirs.status == 404
        assert (theirs.status, theirs.body) == (absent.status, absent.body)
        assert _headers_without_date(theirs) == _headers_without_date(absent)


def test_a_run_that_has_ended_answers_its_agents_nothing(bus: RunningServer) -> None:
    late = bus.call("POST", "/agent", {"name": "late"}).json
    token = late["token"]
    assert bus.call("POST", f"/run/{late['run_id']}/end").status == 200
    with bus.nothing_stored():
        answer = bus.put(token=token)
    assert (answer.status, answer.code) == (403, "RUN_ENDED")
    assert bus.call("GET", "/engram/query", token=token).code == "RUN_ENDED"


def _headers_without_date(answer: Answer) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name != "date"}
