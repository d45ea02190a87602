"""What the server says about itself: its OpenAPI document and the published schemas."""

from __future__ import annotations

from http.client import HTTPConnection
from typing import Any

import pytest

from engrambus.knowledge.engrams import schema_bytes, schema_names
from engrambus.operations import OPERATIONS
from tests.http.served import Served


@pytest.fixture(scope="module")
def document(bus: Served) -> dict[str, Any]:
    """The OpenAPI document, read."""
    found: dict[str, Any] = bus.call("GET", "/openapi.json", token=None).json
    return found


def test_every_operation_is_described(document: dict[str, Any]) -> None:  # EB-15
    assert document["openapi"].startswith("3.1")
    for operation in OPERATIONS.values():
        if operation.route is None:
            assert "http" in operation.absent_from
            continue
        entry = document["paths"][operation.route.path][operation.route.method.lower()]
        assert entry["operationId"] == operation.name
        assert entry["summary"] == operation.summary
        names = {parameter["name"] for parameter in entry["parameters"]}
        assert "as" in names
        assert ("Idempotency-Key" in names) == operation.writes
        assert entry["responses"]["default"] == {"$ref": "#/components/responses/Refused"}
        assert ("requestBody" in entry) == (operation.route.method == "POST")


def test_what_is_answered_under_an_etag_says_so(document: dict[str, Any]) -> None:  # YT-15
    conditional = []
    for path, methods in document["paths"].items():
        for entry in methods.values():
            asked = [each for each in entry.get("parameters", ()) if each["name"] == "If-None-Match"]
            said = ["ETag" in entry["responses"][status].get("headers", {}) for status in ("200", "304") if asked]
            assert bool(asked) == ("304" in entry["responses"]), path
            assert all(said), path
            if asked:
                assert (asked[0]["in"], asked[0].get("required", False)) == ("header", False)
                conditional.append(entry["operationId"])
    assert sorted(conditional) == ["events", "receipt_get", "tuple_observe"]


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                found = document
                for part in value["$ref"].removeprefix("#/").split("/"):
                    found = found[part]
            for below in value.values():
                walk(below)
        elif isinstance(value, list):
            for below in value:
                walk(below)

    walk(document)


def test_the_published_limits_are_shown_where_an_engram_is_put(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    put = schemas["PutEngram"]["properties"]
    assert put["claim"]["maxLength"] == 500
    assert put["pointers"]["maxItems"] == 12
    assert (put["confidence"]["minimum"], put["confidence"]["maximum"]) == (0.0, 1.0)
    assert put["tags"]["items"]["maxLength"] == 40
    assert schemas["Pointer"]["properties"]["ref"]["maxLength"] == 300
    assert "repo" in schemas["Pointer"]["properties"]["type"]["enum"]


def test_only_the_exchange_of_a_code_needs_no_token(document: dict[str, Any]) -> None:
    entries = [entry for methods in document["paths"].values() for entry in methods.values()]
    assert [entry["operationId"] for entry in entries if entry.get("security") == []] == ["open_session"]
    assert document["security"] == [{"bearer": []}]


@pytest.mark.parametrize("name", schema_names())
def test_schemas_are_served_as_published(bus: Served, name: str) -> None:  # EB-01
    answer = bus.call("GET", f"/schemas/{name}", token=None)
    assert answer.body == schema_bytes(name)
    assert answer.json["$id"].endswith(f"schemas/{name.removeprefix('less/')}")
    assert answer.headers["content-type"] == "application/schema+json"


def test_a_schema_that_is_not_there(bus: Served) -> None:
    for target in ("/schemas/", "/schemas/engram.v9.json", "/schemas/../errors.py", "/schemas/%2e%2e/rules.py"):
        assert bus.call("GET", target, token=None).code == "ROUTE_NOT_FOUND"


@pytest.mark.parametrize("target", ["/openapi.json", "/schemas/engram.v0.1.json", "/static/page.css"])
def test_what_has_not_changed_is_not_sent_again(bus: Served, target: str) -> None:
    tag = bus.call("GET", target, token=None).headers["etag"]
    for known in (tag, f'"x", W/{tag}', "*"):
        answer = bus.call("GET", target, token=None, headers={"If-None-Match": known})
        assert (answer.status, answer.body) == (304, b"")
    assert bus.call("GET", target, token=None, headers={"If-None-Match": '"x"'}).status == 200
    for lines, status in ((['"x"', f'"y", {tag}'], 304), ([tag, '"x"'], 304), (['"x"', '"y"'], 200)):  # RFC 9110, 5.3
        assert status_of(bus, target, [("If-None-Match", line) for line in lines]) == status


def test_what_is_accepted_may_be_said_in_several_lines(bus: Served) -> None:  # RFC 9110, 5.3
    for target, kinds in (
        ("/events?after=0", ("application/problem+json", "application/json")),
        ("/metrics", ("text/plain;q=0.5", "application/openmetrics-text; version=1.0.0")),
    ):
        accepted = [("Accept", kind) for kind in kinds]
        assert status_of(bus, target, [("Authorization", f"Bearer {bus.token}"), *accepted]) == 200


def status_of(bus: Served, target: str, headers: list[tuple[str, str]]) -> int:
    """What a request is answered that gives some header in several lines."""
    connection = HTTPConnection("127.0.0.1", bus.port, timeout=60)
    connection.putrequest("GET", target)
    for name, value in headers:
        connection.putheader(name, value)
    connection.endheaders()
    try:
        return connection.getresponse().status
    finally:
        connection.close()
