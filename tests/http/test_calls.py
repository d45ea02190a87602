"""Operations over HTTP: every one of them, from the address to the answer."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

import pytest

from engrambus.gateway import Gateway
from engrambus.operations import OPERATIONS
from tests.http.served import Served, count_engrams
from tests.projects import FILES


def test_an_engram_is_put_found_shown_and_forgotten(bus: Served) -> None:  # EB-15
    put = bus.put("The tokenizer drops trailing tabs.", kind="risk", tags=["lexer"])
    assert put.status == 200
    assert put.headers["content-type"] == "application/json"
    assert put.headers["cache-control"] == "no-store"
    engram = put.json
    assert engram["pointers"][0]["ref"] == f"repo:src/parser.py#L10-L20@{bus.repository.sha}"
    found = {name: value for name, value in engram.items() if name != "hash_keys"}
    assert bus.call("GET", "/engram/query?q=tokenizer").json["engrams"] == [found]
    assert bus.call("GET", f"/engram/{engram['id']}").json == engram
    assert bus.call("DELETE", f"/engram/{engram['id']}").json == {"id": engram["id"], "forgotten": True}
    assert bus.call("GET", f"/engram/{engram['id']}").code == "ENGRAM_NOT_FOUND"


def test_a_pointer_leads_to_exactly_its_lines(bus: Served) -> None:  # EB-15
    pointer = f"repo:src/parser.py#L10-L11@{bus.repository.sha}"
    answer = bus.call("POST", "/pointer/deref", {"pointer": pointer, "max_tokens": 200}).json
    lines = "".join(FILES["src/parser.py"].splitlines(keepends=True)[9:11])
    assert answer["excerpt"] == lines
    assert answer["content_digest"] == "sha256:" + hashlib.sha256(lines.encode()).hexdigest()
    assert answer["truncated"] is False


def test_many_engrams_are_put_at_once_beyond_the_common_limit(bus: Served) -> None:
    engrams = [{"claim": f"Fact number {number} " + "x" * 300, "at": ["src/parser.py"]} for number in range(300)]
    answer = bus.call("POST", "/engrams", {"engrams": engrams})
    assert answer.status == 200
    assert len(answer.json["ids"]) == 300


def test_runs_and_agents(bus: Served) -> None:
    manager = bus.add("mona", "manager")
    assert bus.call("POST", "/agent", {"name": "pia"}, token=manager).status == 200
    rows = {row["agent_id"]: row for row in bus.call("GET", "/agent").json["agents"]}
    assert rows["pia"]["parent"] == "mona"
    token = bus.call("POST", "/agent/pia/token", {"expires_in": "PT1H"}, token=manager).json["token"]
    engram = bus.put("Said by pia.", token=token).json
    assert engram["provenance"]["created_by"] == f"{bus.run}/pia"
    promoted = bus.put("Seen in the run only.", token=token, scope="run").json
    assert bus.call("POST", f"/engram/{promoted['id']}/promote", token=manager).json["scope"] == "project"


@pytest.mark.parametrize("query", ["keys=alpha,beta", "keys=alpha&keys=beta", "keys=alpha,&keys=,beta&q=&k=&scope="])
def test_lists_are_repeated_or_parted_by_commas_and_empty_is_left_out(bus: Served, query: str) -> None:
    ids = {bus.put(f"About {key}.", tags=[key]).json["id"] for key in ("alpha", "beta")}
    found = bus.call("GET", f"/engram/query?{query}").json["engrams"]
    assert ids <= {engram["id"] for engram in found}


@pytest.mark.parametrize(
    ("target", "code", "field"),
    [
        ("/engram/query?colour=red", "FIELD_UNKNOWN", "colour"),
        ("/engram/query?colour=", "FIELD_UNKNOWN", "colour"),
        ("/engram/query?k=1&k=2", "DUPLICATE_KEY", "k"),
        ("/engram/query?k=many", "FIELD_TYPE", "k"),
        ("/engram/query?k=0", "FIELD_VALUE", "k"),
        ("/engram/query?k=101", "FIELD_VALUE", "k"),
        ("/engram/query?k=1e3", "FIELD_VALUE", "k"),
        ("/engram/query?max_tokens=1e999", "FIELD_VALUE", "max_tokens"),
        ("/engram/query?max_tokens=10000000000000000000000", "NUMBER_RANGE", "max_tokens"),
        ("/engram/query?max_tokens=" + "9" * 5000, "FIELD_VALUE", "max_tokens"),
        ("/engram/query?k=NaN", "FIELD_TYPE", "k"),
        ("/engram/query?scope=galaxy", "FIELD_VALUE", "scope"),
        ("/engram/query?q=%ff", "BAD_TEXT", None),
        ("/engram/query?q=%ED%A0%80", "BAD_TEXT", None),
        ("/engram/query?" + "keys=a&" * 101, "FIELD_VALUE", None),
        ("/engram/query?cursor=x", "FIELD_VALUE", "cursor"),
        ("/engram/query?q=parser&cursor=3", "FIELD_VALUE", "cursor"),
        ("/engram/query?keys=parser&cursor=3", "FIELD_VALUE", "cursor"),
        ("/engram/01ARZ3NDEKTSV4RRFFQ69G5FAV?id=x", "FIELD_UNKNOWN", "id"),
        ("/pointer/link", "FIELD_MISSING", "ref"),
    ],
)
def test_a_query_string_is_read_in_one_way_only(bus: Served, target: str, code: str, field: str | None) -> None:
    answer = bus.call("GET", target)
    assert (answer.status, answer.code) == (422, code)
    assert answer.json.get("field") == field


@pytest.mark.parametrize(
    ("query", "limit"),
    [("k=0", 1), ("k=101", 100), ("max_tokens=0", 1), ("q=" + "x" * 2001, 2000), ("keys=" + "a," * 33, 32)],
)
def test_a_value_out_of_range_is_told_its_limit(bus: Served, query: str, limit: int) -> None:
    answer = bus.call("GET", f"/engram/query?{query}")
    assert (answer.code, answer.json["limit"]) == ("FIELD_VALUE", limit)


def test_a_text_parameter_is_text_whatever_it_looks_like(bus: Served) -> None:
    for text in ("null", "true", "12", "a,b"):
        bus.put(f"It is {text}.")
        assert bus.call("GET", f"/engram/query?q={quote(text)}").status == 200


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_reading_and_forgetting_take_no_body(bus: Served, method: str) -> None:
    with bus.nothing_stored():
        answer = bus.call(method, "/engram/01ARZ3NDEKTSV4RRFFQ69G5FAV", {"id": "x"})
    assert (answer.status, answer.code, answer.json["limit"]) == (413, "BODY_TOO_LARGE", 0)


def test_a_field_of_the_address_is_not_taken_from_the_body(bus: Served) -> None:
    answer = bus.call("POST", f"/run/{bus.run}/end", {"run_id": "another"})
    assert (answer.code, answer.json["field"]) == ("FIELD_UNKNOWN", "run_id")


@pytest.mark.parametrize("target", ["/nothing", "/engram/", "/engram//", "/engram/a/b", "/engram/a%2Fb", "/healthz%0A"])
def test_an_address_that_is_none(bus: Served, target: str) -> None:
    answer = bus.call("GET", target)
    assert (answer.status, answer.code) == (404, "ROUTE_NOT_FOUND")


@pytest.mark.parametrize(
    "target", ["/engram/%00", "/engram/..", "/engram/%2e%2e", "/engram/%E2%82%AC", "/engram/a%20b"]
)
def test_an_id_that_cannot_be_one_is_absent(bus: Served, target: str) -> None:
    assert bus.call("GET", target).status == 404


def test_an_address_that_is_not_text(bus: Served) -> None:
    assert bus.call("GET", "/engram/%ff%fe").code == "BAD_TEXT"


@pytest.mark.parametrize(
    ("method", "target", "allowed"),
    [
        ("PUT", "/engram", "POST"),
        ("DELETE", "/engram/query", "GET, HEAD"),
        ("PATCH", "/engram/01ARZ3NDEKTSV4RRFFQ69G5FAV", "DELETE, GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
        ("OPTIONS", "/session", "POST"),
    ],
)
def test_a_method_that_the_address_does_not_take(bus: Served, method: str, target: str, allowed: str) -> None:
    answer = bus.call(method, target)
    assert (answer.status, answer.code) == (405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == allowed


def test_head_answers_like_get_without_the_body(bus: Served) -> None:
    head, get = (bus.call(method, "/openapi.json") for method in ("HEAD", "GET"))
    assert head.status == 200
    assert head.body == b""
    assert head.headers["content-length"] == str(len(get.body))


def test_a_write_under_one_key_is_done_once(bus: Served) -> None:
    headers = {"Idempotency-Key": "put-7"}
    body = {"claim": "Written twice, stored once.", "at": ["src/parser.py:1"]}
    first = bus.call("POST", "/engram", body, headers=headers)
    with bus.nothing_stored():
        assert bus.call("POST", "/engram", body, headers=headers).body == first.body
        other = bus.call("POST", "/engram", {**body, "kind": "risk"}, headers=headers)
    assert (other.status, other.code, other.json["field"]) == (409, "IDEMPOTENCY_CONFLICT", "Idempotency-Key")
    assert bus.call("POST", "/engram", body).json["id"] == first.json["id"]  # without a key it is a confirmation


@pytest.mark.parametrize("key", ["", "k" * 129, "schön"])
def test_a_key_that_is_none(bus: Served, key: str) -> None:
    with bus.nothing_stored():
        answer = bus.call("POST", "/run", {"goal": "x"}, headers={"Idempotency-Key": key})
    assert (answer.status, answer.code, answer.json["field"]) == (422, "FIELD_VALUE", "Idempotency-Key")


def test_one_speaks_for_descendants_only(bus: Served) -> None:
    lead = bus.add("lead", "manager")
    bus.add("child", parent="lead")
    bus.add("stranger", "manager")
    body = {"claim": "Said for another.", "at": ["src/parser.py:1"]}
    spoken = bus.call("POST", "/engram?as=child", body, token=lead)
    assert spoken.json["provenance"]["created_by"].endswith("/child")
    with bus.nothing_stored():
        refused = bus.call("POST", "/engram?as=stranger", body, token=lead)
        absent = bus.call("POST", "/engram?as=nobody", body, token=lead)
        twice = bus.call("POST", "/engram?as=child&as=lead", body, token=lead)
    assert (refused.status, refused.code) == (403, "NOT_YOUR_DESCENDANT")
    assert (absent.status, absent.code, absent.json["field"]) == (404, "AGENT_NOT_FOUND", "as")
    assert twice.code == "DUPLICATE_KEY"


def test_what_breaks_inside_is_told_without_a_traceback(
    bus: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(*_: object) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(Gateway, "call", breaks)
    answer = bus.call("GET", "/engram/query")
    assert (answer.status, answer.code) == (500, "INTERNAL")
    assert b"secret" not in answer.body
    assert b"Traceback" not in answer.body
    assert "a secret detail" in caplog.text  # for the one who runs the server


def test_every_operation_with_a_route_is_offered(bus: Served) -> None:
    for operation in OPERATIONS.values():
        if operation.route is not None:
            target = operation.route.path.replace("{", "").replace("}", "")
            assert bus.call(operation.route.method, target, token=None).code == "TOKEN_MISSING", operation.name
    assert count_engrams(bus.gateway) >= 0
