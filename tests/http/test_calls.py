"""Operations over HTTP: addresses, query strings, headers and answers."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

import pytest

from engrambus.gateway import Gateway
from engrambus.operations import OPERATIONS
from tests.http.running_server import RunningServer, count_engrams
from tests.projects import FILES


def test_an_engram_can_be_put_queried_read_and_forgotten(bus: RunningServer) -> None:  # EB-15
    put = bus.put("The tokenizer drops trailing tabs.", kind="risk", tags=["lexer"])
    assert put.status == 200
    assert put.headers["content-type"] == "application/json"
    assert put.headers["cache-control"] == "no-store"
    engram = put.json
    assert engram["pointers"][0]["ref"] == f"repo:src/parser.py#L10-L20@{bus.repository.sha}"
    without_keys = {name: value for name, value in engram.items() if name != "hash_keys"}
    assert bus.call("GET", "/engram/query?q=tokenizer").json["engrams"] == [without_keys]
    assert bus.call("GET", f"/engram/{engram['id']}").json == engram
    assert bus.call("DELETE", f"/engram/{engram['id']}").json == {"id": engram["id"], "forgotten": True}
    assert bus.call("GET", f"/engram/{engram['id']}").code == "ENGRAM_NOT_FOUND"


def test_a_dereference_returns_exactly_the_lines_of_the_pointer(bus: RunningServer) -> None:  # EB-15
    pointer = f"repo:src/parser.py#L10-L11@{bus.repository.sha}"
    answer = bus.call("POST", "/pointer/deref", {"pointer": pointer, "max_tokens": 200}).json
    lines = "".join(FILES["src/parser.py"].splitlines(keepends=True)[9:11])
    assert answer["excerpt"] == lines
    assert answer["content_digest"] == "sha256:" + hashlib.sha256(lines.encode()).hexdigest()
    assert answer["truncated"] is False


def test_a_bulk_put_may_be_larger_than_other_requests(bus: RunningServer) -> None:
    engrams = [{"claim": f"Fact number {number} " + "x" * 300, "at": ["src/parser.py"]} for number in range(300)]
    answer = bus.call("POST", "/engrams", {"engrams": engrams})
    assert answer.status == 200
    assert len(answer.json["ids"]) == 300


def test_a_manager_adds_agents_and_promotes_their_engrams(bus: RunningServer) -> None:
    manager = bus.add("mona", "manager")
    assert bus.call("POST", "/agent", {"name": "pia"}, token=manager).status == 200
    rows = {row["agent_id"]: row for row in bus.call("GET", "/agent").json["agents"]}
    assert rows["pia"]["parent"] == "mona"
    token = bus.call("POST", "/agent/pia/token", {"expires_in": "PT1H"}, token=manager).json["token"]
    engram = bus.put("A claim by pia.", token=token).json
    assert engram["provenance"]["created_by"] == f"{bus.run}/pia"
    promoted = bus.put("Seen in the run only.", token=token, scope="run").json
    assert bus.call("POST", f"/engram/{promoted['id']}/promote", token=manager).json["scope"] == "project"


@pytest.mark.parametrize("query", ["keys=alpha,beta", "keys=alpha&keys=beta", "keys=alpha,&keys=,beta&q=&k=&scope="])
def test_lists_are_sent_by_repetition_or_commas_and_empty_values_are_ignored(bus: RunningServer, query: str) -> None:
    ids = {bus.put(f"About {key}.", tags=[key]).json["id"] for key in ("alpha", "beta")}
    engrams = bus.call("GET", f"/engram/query?{query}").json["engrams"]
    assert ids <= {engram["id"] for engram in engrams}


@pytest.mark.parametrize("question", ["q=the", "keys=the", "keys=" + "x" * 100, "q=of&keys=and,or"])
def test_a_question_without_any_key_finds_nothing_and_says_so(bus: RunningServer, question: str) -> None:  # EB-13
    bus.put("The newest of all claims.")
    answer = bus.call("GET", f"/engram/query?{question}")
    assert (answer.status, answer.json["engrams"]) == (200, [])
    assert answer.headers["engrambus-warning"].startswith("NOTHING_SEARCHED; ")
    listed = bus.call("GET", "/engram/query?keys=")
    assert listed.json["engrams"][0]["claim"] == "The newest of all claims."
    assert "engrambus-warning" not in listed.headers


def test_search_by_embedding_is_refused_where_it_is_off(bus: RunningServer) -> None:  # EB-15
    bus.put("It has one.", embedding_ref="emb:1")
    answer = bus.call("GET", "/engram/query_by_embedding?embedding_ref=emb%3A1&k=3")
    assert (answer.status, answer.code, answer.json["field"]) == (403, "EMBEDDINGS_OFF", "embedding_ref")
    assert "less.query_engrams" in answer.json["hint"]
    assert bus.call("GET", "/engram/query_by_embedding").code == "FIELD_MISSING"


def test_an_engram_is_found_by_its_id_in_either_case(bus: RunningServer) -> None:  # EB-01
    uuid = "0B5E1C1E-9F0A-4C59-8A2E-2A7C5A1E9D10"
    assert bus.put("It has an id of its own.", id=uuid, ttl="PT1,5H").json["id"] == uuid.lower()
    stored = bus.call("GET", f"/engram/{uuid}").json
    assert (stored["id"], stored["ttl"]) == (uuid.lower(), "PT1H30M")
    assert bus.call("POST", f"/engram/{uuid}/confirm").json["id"] == uuid.lower()
    assert bus.put("It has the same id.", id=uuid).code == "ID_TAKEN"


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
def test_an_invalid_query_string_is_refused(bus: RunningServer, target: str, code: str, field: str | None) -> None:
    answer = bus.call("GET", target)
    assert (answer.status, answer.code) == (422, code)
    assert answer.json.get("field") == field


@pytest.mark.parametrize(
    ("query", "limit"),
    [("k=0", 1), ("k=101", 100), ("max_tokens=0", 1), ("q=" + "x" * 2001, 2000), ("keys=" + "a," * 33, 32)],
)
def test_an_error_for_a_value_out_of_range_names_the_limit(bus: RunningServer, query: str, limit: int) -> None:
    answer = bus.call("GET", f"/engram/query?{query}")
    assert (answer.code, answer.json["limit"]) == ("FIELD_VALUE", limit)


def test_a_text_parameter_that_looks_like_json_is_text(bus: RunningServer) -> None:
    for text in ("null", "true", "12", "a,b"):
        bus.put(f"It is {text}.")
        assert bus.call("GET", f"/engram/query?q={quote(text)}").status == 200


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_get_and_delete_accept_no_body(bus: RunningServer, method: str) -> None:
    with bus.nothing_stored():
        answer = bus.call(method, "/engram/01ARZ3NDEKTSV4RRFFQ69G5FAV", {"id": "x"})
    assert (answer.status, answer.code, answer.json["limit"]) == (413, "BODY_TOO_LARGE", 0)


def test_a_field_of_the_address_is_refused_in_the_body(bus: RunningServer) -> None:
    answer = bus.call("POST", f"/run/{bus.run}/end", {"run_id": "another"})
    assert (answer.code, answer.json["field"]) == ("FIELD_UNKNOWN", "run_id")


@pytest.mark.parametrize("target", ["/nothing", "/engram/", "/engram//", "/engram/a/b", "/engram/a%2Fb", "/healthz%0A"])
def test_an_unknown_address_is_refused(bus: RunningServer, target: str) -> None:
    answer = bus.call("GET", target)
    assert (answer.status, answer.code) == (404, "ROUTE_NOT_FOUND")


@pytest.mark.parametrize(
    "target", ["/engram/%00", "/engram/..", "/engram/%2e%2e", "/engram/%E2%82%AC", "/engram/a%20b"]
)
def test_an_invalid_id_is_not_found(bus: RunningServer, target: str) -> None:
    assert bus.call("GET", target).status == 404


def test_an_address_that_is_not_utf_8_is_refused(bus: RunningServer) -> None:
    assert bus.call("GET", "/engram/%ff%fe").code == "BAD_TEXT"


@pytest.mark.parametrize(
    ("method", "target", "allowed"),
    [
        ("PUT", "/engram", "POST"),
        ("DELETE", "/engram/query", "GET, HEAD"),
        ("PATCH", "/engram/01ARZ3NDEKTSV4RRFFQ69G5FAV", "DELETE, GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
        ("OPTIONS", "/session", "GET, HEAD"),
    ],
)
def test_another_method_is_refused_with_the_allowed_ones(
    bus: RunningServer, method: str, target: str, allowed: str
) -> None:
    answer = bus.call(method, target)
    assert (answer.status, answer.code) == (405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == allowed


def test_head_gets_the_headers_of_get(bus: RunningServer) -> None:
    head, get = (bus.call(method, "/openapi.json") for method in ("HEAD", "GET"))
    assert head.status == 200
    assert head.body == b""
    assert head.headers["content-length"] == str(len(get.body))


def test_a_write_with_an_idempotency_key_is_done_once(bus: RunningServer) -> None:
    headers = {"Idempotency-Key": "put-7"}
    body = {"claim": "Written twice, stored once.", "at": ["src/parser.py:1"]}
    first = bus.call("POST", "/engram", body, headers=headers)
    with bus.nothing_stored():
        assert bus.call("POST", "/engram", body, headers=headers).body == first.body
        conflict = bus.call("POST", "/engram", {**body, "kind": "risk"}, headers=headers)
    assert (conflict.status, conflict.code, conflict.json["field"]) == (409, "IDEMPOTENCY_CONFLICT", "Idempotency-Key")
    assert bus.call("POST", "/engram", body).json["id"] == first.json["id"]  # without a key it confirms the first


@pytest.mark.parametrize("key", ["", "k" * 129, "schön"])
def test_an_invalid_idempotency_key_is_refused(bus: RunningServer, key: str) -> None:
    with bus.nothing_stored():
        answer = bus.call("POST", "/run", {"goal": "x"}, headers={"Idempotency-Key": key})
    assert (answer.status, answer.code, answer.json["field"]) == (422, "FIELD_VALUE", "Idempotency-Key")


def test_an_agent_may_act_as_its_descendants_only(bus: RunningServer) -> None:
    lead = bus.add("lead", "manager")
    bus.add("child", parent="lead")
    bus.add("stranger", "manager")
    body = {"claim": "Put in the name of another agent.", "at": ["src/parser.py:1"]}
    put = bus.call("POST", "/engram?as=child", body, token=lead)
    assert put.json["provenance"]["created_by"].endswith("/child")
    with bus.nothing_stored():
        refused = bus.call("POST", "/engram?as=stranger", body, token=lead)
        absent = bus.call("POST", "/engram?as=nobody", body, token=lead)
        twice = bus.call("POST", "/engram?as=child&as=lead", body, token=lead)
    assert (refused.status, refused.code) == (403, "NOT_YOUR_DESCENDANT")
    assert (absent.status, absent.code, absent.json["field"]) == (404, "AGENT_NOT_FOUND", "as")
    assert twice.code == "DUPLICATE_KEY"


def test_an_internal_error_is_logged_and_answered_without_details(
    bus: RunningServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(Gateway, "call", fail)
    answer = bus.call("GET", "/engram/query")
    assert (answer.status, answer.code) == (500, "INTERNAL")
    assert b"secret" not in answer.body
    assert b"Traceback" not in answer.body
    assert "a secret detail" in caplog.text  # in the server's log


def test_every_operation_with_a_route_is_served(bus: RunningServer) -> None:
    for operation in OPERATIONS.values():
        if operation.route is not None:
            target = operation.route.path.replace("{", "").replace("}", "")
            assert bus.call(operation.route.method, target, token=None).code == "TOKEN_MISSING", operation.name
    assert count_engrams(bus.gateway) >= 0
