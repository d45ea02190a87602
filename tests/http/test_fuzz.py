"""Random requests: the server never fails, and answers invalid ones with an error code."""

from __future__ import annotations

import json
from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from tests.harness.examples import examples
from tests.http.running_server import RunningServer

_KEYS = st.sampled_from(["claim", "kind", "pointers", "at", "confidence", "ttl", "scope", "tags", "id", "x"])
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=40)
    | st.sampled_from(["src/parser.py:1-3", "run", "risk", "P1D", "repo:src/parser.py@" + "0" * 40]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_BROKEN = st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
_NEARLY = st.dictionaries(_KEYS, _VALUES, max_size=6).map(lambda value: json.dumps(value).encode())


def _spliced(text: bytes, index: int, insert: bytes) -> bytes:
    index %= len(text) + 1
    return text[:index] + insert + text[index:]


_SPLICED = st.builds(_spliced, _NEARLY, st.integers(min_value=0), st.binary(max_size=12))

_QUIET = settings(
    max_examples=examples(100),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@_QUIET
@given(body=_BROKEN | _NEARLY | _SPLICED)
def test_random_bodies_as_an_engram(bus: RunningServer, body: bytes) -> None:
    journal = bus.journal()
    answer = bus.call("POST", "/engram", body)
    assert answer.status in (200, 404, 409, 422, 403), (answer.status, answer.body)
    if answer.status != 200:
        assert answer.code
        assert bus.journal() == journal


@_QUIET
@given(body=_BROKEN | _SPLICED)
def test_random_bodies_as_a_pointer(bus: RunningServer, body: bytes) -> None:
    assert bus.call("POST", "/pointer/deref", body).status < 500


_TARGET = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=60)


@_QUIET
@given(target=_TARGET, method=st.sampled_from(["GET", "POST", "DELETE"]))
def test_random_addresses(bus: RunningServer, target: str, method: str) -> None:
    assert bus.call(method, "/engram/" + target).status < 500
    assert bus.call("GET", "/engram/query?" + target).status < 500


def test_requests_that_the_openapi_document_allows(bus: RunningServer) -> None:  # EB-15
    base = f"http://127.0.0.1:{bus.port}"
    document = bus.call("GET", "/openapi.json", token=None).json
    for path in ("/events", "/mcp"):  # streams that never end; tests/events and tests/mcp read them
        del document["paths"][path]
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=base)
    statuses: dict[str, set[int]] = {}

    for result in schema.get_all_operations():
        operation: Any = result.ok()

        @settings(
            max_examples=examples(8),
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def probe(case: Any) -> None:
            token = bus.sign()
            response = case.call(base_url=base, headers={"Authorization": f"Bearer {token}"})
            statuses.setdefault(case.operation.label, set()).add(response.status_code)
            assert response.status_code < 500, response.text
            case.validate_response(response, checks=[content_type_conformance, response_schema_conformance])

        probe()
    assert len(statuses) == sum(len(methods) for methods in document["paths"].values())
    assert 200 in statuses["GET /engram/query"]
