"""The OpenAPI document, the published schemas and conditional requests."""

from __future__ import annotations

from http.client import HTTPConnection
from typing import Any

import pytest
import schemathesis
from jsonschema_rs import ValidationError

from engrambus.edges.page.assets import static_folder
from engrambus.errors import BY_CODE
from engrambus.knowledge.engrams import schema_bytes, schema_names
from engrambus.knowledge.messages import CHILD_SECTIONS, PARENT_SECTIONS
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
        assert {"401", "403", "404", "422", "500"} <= set(entry["responses"])
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
    documents = ["openapi", *(f"schema_{name}" for name in ("engram", "less_engram", "less_pointer", "pointer"))]
    catalog = ["catalog_list_by_lane", "catalog_lookup"]
    assert sorted(conditional) == [*catalog, "events", documents[0], "receipt_get", *documents[1:], "tuple_observe"]


def test_messages_are_taken_as_yaml_and_as_json(document: dict[str, Any]) -> None:  # EB-15
    sections = {"/message": "MessageToParent", "/broadcast": "MessageToChildren"}
    for path in ("/message", "/broadcast", "/message/validate", "/answer"):
        body = document["paths"][path]["post"]["requestBody"]
        assert (body["required"], set(body["content"])) == (True, {"application/json", "application/yaml"})
        for content in body["content"].values():
            taken = [choice.get("$ref", "").rpartition("/")[2] for choice in content["schema"]["anyOf"]]
            assert sections.get(path, "MessageToParent") in taken
    schemas = document["components"]["schemas"]
    assert set(schemas["MessageToParent"]["properties"]) == set(CHILD_SECTIONS)
    assert set(schemas["MessageToChildren"]["properties"]) == set(PARENT_SECTIONS)


def test_errors_are_listed_by_status_with_their_codes(document: dict[str, Any]) -> None:  # EB-15
    shared = document["components"]["responses"]

    def codes(path: str, method: str, status: int) -> set[str]:
        response = document["paths"][path][method]["responses"][str(status)]
        content = shared[response["$ref"].rpartition("/")[2]]["content"]
        return set(content["application/problem+json"]["schema"]["properties"]["code"]["anyOf"][0]["enum"])

    assert {"NO_POINTER", "CLAIM_TOO_LONG", "POINTER_NOT_PINNED", "SECRET_FOUND"} <= codes("/engram", "post", 422)
    assert codes("/engram", "post", 429) == {"RATE_LIMITED", "TOO_MANY_CALLS", "TOO_MANY_FAILURES"}
    assert codes("/message", "post", 413) == {"BODY_TOO_LARGE", "BUDGET_EXCEEDED"}
    assert "DEREF_DENIED" in codes("/pointer/deref", "post", 403)
    assert "DEREF_DENIED" not in codes("/engram/query", "get", 403)
    assert codes("/engram/query", "get", 401) == {"TOKEN_MISSING", "TOKEN_INVALID", "TOKEN_EXPIRED", "TOKEN_REVOKED"}
    assert "FILE_NOT_FOUND" in codes("/pointer/deref", "post", 404)
    assert "SESSION_NOT_FOUND" in codes("/session/end", "post", 404)
    for path, methods in document["paths"].items():
        for method, entry in methods.items():
            for status, response in entry["responses"].items():
                if "$ref" in response and status != "default":
                    assert all(BY_CODE[code].status == int(status) for code in codes(path, method, int(status)))


def test_the_document_is_valid(document: dict[str, Any]) -> None:  # EB-15
    schemathesis.openapi.from_dict(document).validate()
    wrong = {**document, "paths": {"/healthz": {"get": {"responses": {"200": {"content": []}}}}}}
    with pytest.raises(ValidationError):
        schemathesis.openapi.from_dict(wrong).validate()


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


def test_only_documents_need_no_token(document: dict[str, Any]) -> None:
    entries = [entry for methods in document["paths"].values() for entry in methods.values()]
    public = [entry["operationId"] for entry in entries if entry.get("security") == []]
    schemas = [f"schema_{name}" for name in ("engram", "less_engram", "less_pointer", "pointer")]
    assert sorted(public) == ["health", "openapi", "proof", *schemas]
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


@pytest.mark.parametrize("target", ["/openapi.json", "/schemas/engram.v0.1.json", f"{static_folder()}/page.css", "/"])
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
