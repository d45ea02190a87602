"""Invisible characters in the fields of a request: refused in every text of every operation that writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from engrambus.errors import FieldRefusal, InvisibleText
from engrambus.gateway import LOCAL_ADMIN, Operation, to_request
from engrambus.operations import OPERATIONS
from tests.limits.edges import Edge
from tests.limits.team import Team

HIDDEN = "x\u202ey"
NOT_STORED = {"budget_token", "from_grant"}
"""Fields that are secrets of the caller and are not stored as they are sent."""
MESSAGES = {
    "send_message": "ROLE: programmer\nTASK_STATUS: done\nOUTPUT:\n  summary: 'Done.'\n  next: 'Wait {0}.'\n",
    "broadcast": "ROLE: manager\nSHARED_BRIEF_MICRO:\n- 'Go on {0}.'\nINSTRUCTIONS:\n- 'Go on.'\n",
    "take_answer": "All of it is done {0}.",
}
"""A text for each operation that parses its own."""


def smallest(kind: inspect.Type) -> Any:
    """Return a value that a type accepts."""
    match kind:
        case inspect.Metadata():
            return smallest(kind.type)
        case inspect.UnionType():
            return smallest(kind.types[0])
        case inspect.LiteralType() | inspect.EnumType():
            return kind.values[0] if isinstance(kind, inspect.LiteralType) else next(iter(kind.cls)).value
        case inspect.StrType():
            return "x" * max(1, kind.min_length or 0)
        case inspect.IntType() | inspect.FloatType():
            return kind.ge or 1
        case inspect.BoolType():
            return False
        case inspect.ListType() | inspect.VarTupleType():
            return [smallest(kind.item_type)] * (kind.min_length or 0)
        case inspect.StructType():
            return {field.encode_name: smallest(field.type) for field in kind.fields if field.required}
        case inspect.DictType():
            return {}
        case _:
            return None


def with_hidden(kind: inspect.Type) -> Iterator[tuple[str, Any]]:
    """Yield values of a type with hidden text in one place, and where that is."""
    match kind:
        case inspect.Metadata():
            yield from with_hidden(kind.type)
        case inspect.UnionType():
            yield from {place: value for inner in kind.types for place, value in with_hidden(inner)}.items()
        case inspect.StrType() | inspect.AnyType():
            yield "", HIDDEN
        case inspect.ListType() | inspect.VarTupleType():
            yield from ((f"[0]{place}", [value]) for place, value in with_hidden(kind.item_type))
        case inspect.DictType():
            yield ".x\\u{202E}y", {HIDDEN: smallest(kind.value_type)}
            yield from ((f".key{place}", {"key": value}) for place, value in with_hidden(kind.value_type))
        case inspect.StructType():
            whole = smallest(kind)
            for field in kind.fields:
                for place, value in with_hidden(field.type):
                    yield f".{field.encode_name}{place}", {**whole, field.encode_name: value}
        case _:
            return


def requests_of(operation: Operation[Any, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield requests with hidden text in one field each, and the field as an error names it."""
    exempt = NOT_STORED | set(operation.raw_fields) | {operation.text_field}
    for place, request in with_hidden(inspect.type_info(operation.request)):
        field = place.removeprefix(".")
        if field.partition("[")[0].partition(".")[0] not in exempt:
            yield field, request


WRITING = {name: operation for name, operation in OPERATIONS.items() if operation.writes}
CASES = [(name, field, request) for name, operation in WRITING.items() for field, request in requests_of(operation)]


def test_every_operation_that_writes_words_is_tried() -> None:
    fields = {(name, field.partition("[")[0]) for name, field, _ in CASES}
    words = {
        (name, field.partition(".")[0])
        for name, operation in WRITING.items()
        for field in operation.prose
        if field not in operation.raw_fields and field != operation.text_field
    }
    assert words <= {(name, field.partition(".")[0]) for name, field in fields}
    assert {name for name, operation in WRITING.items() if operation.text_field} == set(MESSAGES)


@pytest.mark.parametrize(("name", "field", "request_"), CASES, ids=[f"{name}-{field}" for name, field, _ in CASES])
def test_hidden_text_is_refused_in_every_field(team: Team, name: str, field: str, request_: dict[str, Any]) -> None:
    try:
        to_request(request_, OPERATIONS[name].request)
    except FieldRefusal:
        return  # a field of a fixed form takes no such text at all
    before = team.journal().count(b"\n")
    refusal = team.refusal(name, LOCAL_ADMIN, **request_)
    assert isinstance(refusal, InvisibleText)
    shown = msgspec.json.decode(msgspec.json.encode(refusal.problem()))
    assert (shown["field"], shown["character"]) == (field, "U+202E RIGHT-TO-LEFT OVERRIDE")
    assert shown["position"] == 1
    assert team.journal().count(b"\n") - before <= 1, "only the denial is recorded"


@pytest.mark.parametrize("name", MESSAGES)
def test_hidden_text_is_refused_in_messages(team: Team, name: str) -> None:
    sender = team.mia if name == "broadcast" else team.paul
    refusal = team.refusal(name, sender, text=MESSAGES[name].format("\u202e"))
    assert isinstance(refusal, InvisibleText)
    assert refusal.field in ("text", "OUTPUT.next", "SHARED_BRIEF_MICRO[0]")


def test_every_edge_refuses_it_in_every_field(edge: Edge) -> None:
    for name, field, request in CASES:
        operation = OPERATIONS[name]
        route = operation.route if edge.name == "HTTP" or operation.tool is not None else None
        if route is None or any(f"{{{part}}}" in route.path for part in ("id", "name", "run_id")):
            continue
        refusal = edge.refusal(name, None, **request)
        assert refusal["code"] in ("INVISIBLE_TEXT", "FIELD_VALUE", "FIELD_TYPE", "POINTER_SYNTAX"), (name, field)
        if refusal["code"] == "INVISIBLE_TEXT":
            assert refusal["field"] == field
        assert "\u202e" not in msgspec.json.encode(refusal).decode()
