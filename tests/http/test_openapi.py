"""The OpenAPI document, the published schemas and conditional requests."""

from __future__ import annotations

from http.client import HTTPConnection
from typing import Any

import pytest

from engrambus.knowledge.engrams import schema_bytes, schema_names
from engrambus.operations import OPERATIONS
from tests.http.running_server import RunningServer


@pytest.fixture(scope="module")
def document(bus: RunningServer) -> dict[str, Any]:
    """Return the decoded OpenAPI document."""
    document: dict[str, Any] = bus.call("GET", "/openapi.json", token=None).json
    return document


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


def test_operations_with_an_etag_are_described_with_it(document: dict[str, Any]) -> None:  # YT-15
    conditional = []
    for path, methods in document["paths"].items():
        for entry in methods.values():
            matching = [row for row in entry.get("parameters", ()) if row["name"] == "If-None-Match"]
            has_etag = ["ETag" in entry["responses"][code].get("headers", {}) for code in ("200", "304") if matching]
            assert bool(matching) == ("304" in entry["responses"]), path
            assert all(has_etag), path
            if matching:
                assert (matching[0]["in"], matching[0].get("required", False)) == ("header", False)
                conditional.append(entry["operationId"])
    assert sorted(conditional) == ["events", "receipt_get", "tuple_observe"]


def test_every_reference_has_a_target(document: dict[str, Any]) -> None:
    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                target = document
                for part in value["$ref"].removeprefix("#/").split("/"):
                    target = target[part]
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(document)


def test_the_limits_of_an_engram_are_those_of_the_published_schema(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    put = schemas["PutEngram"]["properties"]
    assert put["claim"]["maxLength"] == 500
    assert put["pointers"]["maxItems"] == 12
    assert (put["confidence"]["minimum"], put["confidence"]["maximum"]) == (0.0, 1.0)
    assert put["tags"]["items"]["maxLength"] == 40
    assert schemas["Pointer"]["properties"]["ref"]["maxLength"] == 300
    assert "repo" in schemas["Pointer"]["properties"]["type"]["enum"]


def test_only_opening_a_session_needs_no_token(document: dict[str, Any]) -> None:
    entries = [entry for methods in document["paths"].values() for entry in methods.values()]
    assert [entry["operationId"] for entry in entries if entry.get("security") == []] == ["open_session"]
    assert document["security"] == [{"bearer": []}]


@pytest.mark.parametrize("name", schema_names())
def test_schemas_are_served_as_published(bus: RunningServer, name: str) -> None:  # EB-01
    answer = bus.call("GET", f"/schemas/{name}", token=None)
    assert answer.body == schema_bytes(name)
    assert answer.json["$id"].endswith(f"schemas/{name.removeprefix('less/')}")
    assert answer.headers["content-type"] == "application/schema+json"


def test_an_unknown_schema_is_not_found(bus: RunningServer) -> None:
    for target in ("/schemas/", "/schemas/engram.v9.json", "/schemas/../errors.py", "/schemas/%2e%2e/rules.py"):
        assert bus.call("GET", target, token=None).code == "ROUTE_NOT_FOUND"


@pytest.mark.parametrize("target", ["/openapi.json", "/schemas/engram.v0.1.json", "/static/page.css"])
def test_an_unchanged_file_is_answered_with_304(bus: RunningServer, target: str) -> None:
    tag = bus.call("GET", target, token=None).headers["etag"]
    for etags in (tag, f'"x", W/{tag}', "*"):
        answer = bus.call("GET", target, token=None, headers={"If-None-Match": etags})
        assert (answer.status, answer.body) == (304, b"")
    assert bus.call("GET", target, token=None, headers={"If-None-Match": '"x"'}).status == 200
    for lines, status in ((['"x"', f'"y", {tag}'], 304), ([tag, '"x"'], 304), (['"x"', '"y"'], 200)):  # RFC 9110, 5.3
        assert status_of(bus, target, [("If-None-Match", line) for line in lines]) == status


def test_the_accept_header_may_occur_several_times(bus: RunningServer) -> None:  # RFC 9110, 5.3
    for target, media_types in (
        ("/events?after=0", ("application/problem+json", "application/json")),
        ("/metrics", ("text/plain;q=0.5", "application/openmetrics-text; version=1.0.0")),
    ):
        accepted = [("Accept", media_type) for media_type in media_types]
        assert status_of(bus, target, [("Authorization", f"Bearer {bus.token}"), *accepted]) == 200


def status_of(bus: RunningServer, target: str, headers: list[tuple[str, str]]) -> int:
    """Return the status of a request in which a header occurs several times."""
    connection = HTTPConnection("127.0.0.1", bus.port, timeout=60)
    connection.putrequest("GET", target)
    for name, value in headers:
        connection.putheader(name, value)
    connection.endheaders()
    try:
        return connection.getresponse().status
    finally:
        connection.close()
