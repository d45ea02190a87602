"""Rules for tuples: ids, terms, steps and patterns, and the error for each violation. # YT-04 # YT-05 # YT-11"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.core.canonical_json import canonical_reference
from engrambus.errors import (
    DeadlinePast,
    EngramBusError,
    FieldMissing,
    FieldType,
    FieldUnknown,
    FieldValue,
    NumberRange,
    PatternOperator,
    PatternPath,
    PatternValue,
    StepCycle,
    StepUnknown,
    TermsInvalid,
    TimeInvalid,
    TupleIdMismatch,
    TupleSchema,
    TupleTooLarge,
    YoolName,
)
from engrambus.evidence.receipts import Cost, new_receipt, receipt_id
from engrambus.settings import Settings
from engrambus.space.tuples import enqueue, read_limits, read_pattern, rules, tuple_id
from engrambus.space.tuples.rules import CheckedTuple, moved_later, read_tuple
from engrambus.space.tuples.values import V1, V2
from engrambus.space.work import input_hash
from engrambus.testing.work import PERSON, RUN, WorkHarness, draft
from tests.harness.stores import MemoryWorkHarness, SqliteWorkHarness

VECTORS = json.loads((Path(__file__).parent / "vectors" / "tuple_id.json").read_text("utf-8"))
NOW = 1_778_000_000_000_000  # in May 2026
EARLIER = 1_700_000_000_000_000


def read(**fields: Any) -> CheckedTuple:
    """Return a checked tuple with these fields."""
    return read_tuple({"lane": "build", **fields}, PERSON, NOW)


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
def test_ids_are_as_published(vector: dict[str, Any]) -> None:
    assert tuple_id(vector["tuple"]) == vector["id"]
    checked = read_tuple({**vector["tuple"], "id": vector["id"]}, PERSON, EARLIER)
    assert checked.id == vector["id"]
    assert checked.body == canonical_reference(vector["tuple"])


def test_many_equal_tuples_in_one_commit_are_each_moved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[CheckedTuple] = []

    def counting(checked: CheckedTuple, microseconds: int = 1) -> CheckedTuple:
        moves.append(checked)
        return moved_later(checked, microseconds)

    for module in (rules, enqueue):
        monkeypatch.setattr(module, "moved_later", counting)
    harness = MemoryWorkHarness()
    try:
        puts = harness.space.out(*[draft()] * 100, authority=PERSON, run=RUN)
    finally:
        harness.close()
    assert len({put.id for put in puts}) == 100
    assert len(moves) == 99


def test_a_tuple_equal_to_many_others_gets_a_free_id_in_few_moves(
    monkeypatch: pytest.MonkeyPatch, spaces: list[WorkHarness]
) -> None:
    """It gets the first free microsecond, as single moves would find, but in a short time under the lock."""
    moves: list[CheckedTuple] = []

    def counting(checked: CheckedTuple, microseconds: int = 1) -> CheckedTuple:
        moves.append(checked)
        return moved_later(checked, microseconds)

    fields = draft(created_at="2026-01-01T00:00:00Z")
    for harness in spaces:
        first = [put.id for put in harness.space.out(*[fields] * 300, authority=PERSON, run=RUN)]
        with monkeypatch.context() as patch:
            for module in (rules, enqueue):
                patch.setattr(module, "moved_later", counting)
            later = [put.id for _ in range(5) for put in harness.space.out(fields, authority=PERSON, run=RUN)]
        times = [harness.space.public_tuple(id)["created_at"] for id in first + later]
        assert times == [f"2026-01-01T00:00:00.{micros:06}Z" for micros in range(305)]
    assert len(moves) < 5 * 2 * 50


@pytest.mark.parametrize("many", [1, 5, 40])
def test_a_tuple_is_refused_when_no_later_time_can_be_written(many: int, spaces: list[WorkHarness]) -> None:
    """At the end of the last year. # YT-04"""
    fields = draft(created_at=f"9999-12-31T23:59:59.{1_000_000 - many:06}Z")
    for harness in spaces:
        for _ in range(many):
            harness.space.out(fields, authority=PERSON, run=RUN)
        journal = harness.journal_bytes()
        for drafts in ((fields,), (fields, fields)):
            with pytest.raises(TimeInvalid) as refused:
                harness.space.out(*drafts, authority=PERSON, run=RUN)
            assert refused.value.field == "created_at"
        assert harness.journal_bytes() == journal
        assert len({record.tuple.created_at for record in harness.space.rd_all({})}) == many


def test_both_schemas_are_accepted() -> None:
    v1 = read(agent_terms={"budget_usd": 0.5}).limits
    v2 = read(schema="yool-tuple/v2", agent_terms={"budget_micros": 500_000}).limits
    assert v1.terms.budget_micros == v2.terms.budget_micros == 500_000


REFUSED: tuple[tuple[str, dict[str, Any], type[EngramBusError], str], ...] = (
    ("an unknown schema", {"schema": "yool-tuple/v7"}, TupleSchema, "schema"),
    ("a schema that is a number", {"schema": 1}, TupleSchema, "schema"),
    ("an id without all fields", {"id": "sha256:" + "0" * 64}, FieldMissing, "map_pos"),
    ("an invalid name", {"payload": [{"yool": "Lint"}]}, YoolName, "payload[0].yool"),
    ("an invalid name of a later step", {"payload": [{"yool": "a.b"}, {"yool": "a..b"}]}, YoolName, "payload[1].yool"),
    ("a negative budget", {"agent_terms": {"budget_usd": -1}}, TermsInvalid, "agent_terms.budget_usd"),
    ("a budget that is a text", {"agent_terms": {"budget_usd": "much"}}, TermsInvalid, "agent_terms.budget_usd"),
    ("a budget that is true", {"agent_terms": {"budget_tokens": True}}, TermsInvalid, "agent_terms.budget_tokens"),
    ("half a token", {"agent_terms": {"budget_tokens": 0.5}}, TermsInvalid, "agent_terms.budget_tokens"),
    ("less than a micro-dollar", {"agent_terms": {"budget_usd": 1e-7}}, TermsInvalid, "agent_terms.budget_usd"),
    ("too large a CPU quota", {"agent_terms": {"cpu_quota_pct": 101}}, TermsInvalid, "agent_terms.cpu_quota_pct"),
    ("an unknown term", {"agent_terms": {"patience": 1}}, TermsInvalid, "agent_terms.patience"),
    ("dollars in v2", {"schema": "yool-tuple/v2", "agent_terms": {"budget_usd": 1}}, TermsInvalid,
     "agent_terms.budget_usd"),
    ("a past deadline", {"agent_terms": {"deadline_iso": "2020-01-01T00:00:00Z"}}, DeadlinePast,
     "agent_terms.deadline_iso"),
    ("an invalid deadline", {"agent_terms": {"deadline_iso": "soon"}}, TermsInvalid, "agent_terms.deadline_iso"),
    ("a deadline without an offset", {"agent_terms": {"deadline_iso": "2030-01-01T00:00:00"}}, TermsInvalid,
     "agent_terms.deadline_iso"),
    ("a cycle of steps", {"payload": [{"yool": "a.b", "after": [1]}, {"yool": "a.b", "after": [0]}]}, StepCycle,
     "payload[0].after"),
    ("a step that waits for itself", {"payload": [{"yool": "a.b", "after": [0]}]}, StepCycle, "payload[0].after"),
    ("a step that does not exist", {"payload": [{"yool": "a.b", "after": [3]}]}, StepUnknown, "payload[0].after"),
    ("ten megabytes", {"payload": [{"yool": "a.b", "args": {"x": "x" * 10_000_000}}]}, TupleTooLarge, "payload"),
    ("too many steps", {"payload": [{"yool": "a.b"}] * 257}, FieldValue, "payload"),
    ("an empty lane", {"lane": ""}, FieldValue, "lane"),
    ("a lane with a newline", {"lane": "a\nb"}, FieldValue, "lane"),
    ("a new tuple with receipts", {"receipts": ["sha256:" + "0" * 64]}, FieldValue, "receipts"),
    ("an unknown field", {"colour": "red"}, FieldUnknown, "colour"),
    ("an invalid payload", {"payload": "a.b"}, FieldType, "payload"),
    ("an invalid step", {"payload": ["a.b"]}, FieldType, "payload[0]"),
    ("an unknown flag", {"flags": {"fast": True}}, FieldValue, "flags.fast"),
    ("an invalid parent", {"parent_id": "T0"}, FieldValue, "parent_id"),
    ("an invalid time", {"created_at": "now"}, TimeInvalid, "created_at"),
    ("a number too large to hash", {"map_pos": {"n": 2**60}}, NumberRange, "map_pos.n"),
    ("not a number", {"map_pos": {"n": float("nan")}}, NumberRange, "map_pos.n"),
    ("too high a priority", {"priority": 1001}, FieldValue, "priority"),
    ("too low a priority", {"priority": -1001}, FieldValue, "priority"),
    ("too many pointers", {"src_ptr": ["wiki://page"] * 65}, FieldValue, "src_ptr"),
    ("a flag that is a text", {"flags": {"no_cache": "yes"}}, FieldValue, "flags.no_cache"),
    ("a negative budget in v2", {"schema": "yool-tuple/v2", "agent_terms": {"budget_micros": -1}}, TermsInvalid,
     "agent_terms.budget_micros"),
)  # fmt: skip


@pytest.mark.parametrize(("fields", "kind", "field"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_tuple_that_breaks_a_rule_is_refused(
    fields: dict[str, Any], kind: type[EngramBusError], field: str, spaces: list[WorkHarness]
) -> None:
    for harness in spaces:
        journal = harness.journal_bytes()
        with pytest.raises(kind) as refused:
            harness.space.out({"lane": "build", **fields}, authority=PERSON, run=RUN)
        assert refused.value.field == field
        assert harness.journal_bytes() == journal


def test_values_at_their_limits_are_accepted() -> None:
    pointers = ["wiki://page"] * 64
    for priority in (-1000, 1000):
        checked = read(priority=priority, src_ptr=pointers, flags={"no_cache": False}, agent_terms={"budget_usd": 0})
        assert (checked.tuple.priority, list(checked.tuple.src_ptr)) == (priority, pointers)


@pytest.fixture
def spaces(tmp_path: Path) -> Iterator[list[WorkHarness]]:
    """Return a space on each back end."""
    harnesses: list[WorkHarness] = [MemoryWorkHarness(), SqliteWorkHarness(tmp_path / "catalog")]
    yield harnesses
    for harness in harnesses:
        harness.close()


@pytest.mark.parametrize("field", ["schema", "authority", "created_at", "map_pos", "payload", "receipts", "parent_id"])
def test_no_field_is_filled_in_for_a_tuple_with_an_id(field: str) -> None:
    """A value that is filled in would not be covered by the id. # YT-04"""
    fields = {name: value for name, value in read().fields.items() if name != field}
    with pytest.raises(FieldMissing) as refused:
        read_tuple({**fields, "id": tuple_id(fields)}, PERSON, NOW)
    assert refused.value.field == field


def test_an_id_that_does_not_match_is_refused() -> None:
    fields = read().fields
    with pytest.raises(TupleIdMismatch) as refused:
        read_tuple({**fields, "id": "sha256:" + "0" * 64}, PERSON, NOW)
    assert refused.value.limit == tuple_id(fields)


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ({"lane": {"like": "b%"}}, PatternOperator),
        ({"lane": {}}, PatternOperator),
        ({"lane": {"prefix": 3}}, PatternValue),
        ({"priority": {"gt": None}}, PatternValue),
        ({"priority": {"exists": "yes"}}, PatternValue),
        ({"": 1}, FieldValue),
        ({f"map_pos.{n}": 1 for n in range(40)}, FieldValue),
        ({"lanes": "build"}, PatternPath),
        ({"payload.yool": "a.b"}, PatternPath),
        ({"payload[0].arg.path": "src"}, PatternPath),
        ({"payload[0].yool.name": "a.b"}, PatternPath),
        ({"payload[zero].yool": "a.b"}, PatternPath),
        ({"src_ptr.first": "a"}, PatternPath),
        ({"flags.cache": False}, PatternPath),
        ({"agent_terms.budget": 1}, PatternPath),
        ({"state.now": "done"}, PatternPath),
        ({"receipts[0]": "sha256:"}, PatternPath),
    ],
)
def test_an_invalid_pattern_is_refused(pattern: dict[str, Any], kind: type[EngramBusError]) -> None:
    with pytest.raises(kind):
        read_pattern(pattern)


# YT-05
def test_paths_that_a_tuple_can_have_are_accepted() -> None:
    paths = "payload[0].args.a.b payload.3 payload[2].after[0] src_ptr[0] map_pos.x[1] agent_terms.budget_usd"
    for path in (paths + " authority.agent flags.no_cache created_at parent_id id run state").split():
        read_pattern({path: {"exists": True}})


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(args=st.dictionaries(st.text(), json_values, max_size=4), lane=st.sampled_from(("b", "überprüfung 検査 🧪")))
def test_the_id_of_any_tuple_follows_the_published_formula(args: dict[str, Any], lane: str) -> None:
    checked = read(lane=lane, map_pos=args, payload=[{"yool": "agent.lint.ruff", "args": args}])
    text = json.dumps(checked.fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert checked.body == text.encode()
    assert checked.id == tuple_id(checked.fields)


def test_the_id_of_a_receipt_covers_all_its_fields() -> None:
    """The published formula joins fields without separators: `v1` and `10` would collide with `v11` and `0`."""
    fields: dict[str, Any] = {"tuple_id": "t", "started_at": "s", "ended_at": "e"}
    first = new_receipt(yool="agent.a.b.v1", exit=10, **fields)
    second = new_receipt(yool="agent.a.b.v11", exit=0, **fields)
    assert first.id != second.id
    assert first.result_sha != second.result_sha
    of_another_tuple = new_receipt(yool="agent.a.b.v1", exit=10, **{**fields, "tuple_id": "another"})
    assert of_another_tuple.id != first.id
    assert of_another_tuple.result_sha == first.result_sha
    with_cost = new_receipt(yool="a.b.v1", exit=0, cost=Cost(usd=1, disk_mb=3), **fields)
    assert receipt_id(with_cost) == with_cost.id


def test_the_input_hash_covers_files_environment_salt_and_version() -> None:
    plain = input_hash("a.b.v1", {"x": 1})
    assert plain == input_hash("a.b.v1", {"x": 1}, [], {})
    hashes = {
        plain,
        input_hash("a.b.v1", {"x": 1}, ["sha256:" + "0" * 64]),
        input_hash("a.b.v1", {"x": 1}, [], {"A": "1"}),
        input_hash("a.b.v1", {"x": 1}, [], {"A": "1", "B": ""}),
        input_hash("a.b.v1", {"x": 1}, salt="s"),
        input_hash("a.b.v2", {"x": 1}),
    }
    assert len(hashes) == 6


def test_settings_are_read_from_the_environment_and_refused_by_name() -> None:  # YT-06
    settings = Settings.from_environment(
        {
            "YOOL_TUPLE_LANE_CONCURRENCY": "4",
            "YOOL_MAX_LANE_CONCURRENCY": "8",
            "YOOL_TUPLE_QUEUE_MAXSIZE": "10",
            "YOOL_TUPLE_LEASE_SECONDS": "2.5",
            "YOOL_TUPLE_INDEXED": "map_pos.stack, map_pos.repo",
        }
    ).space()
    assert (settings.lane_concurrency, settings.max_lane_concurrency, settings.queue_maxsize) == (4, 8, 10)
    assert (settings.lease_us, settings.indexed_fields) == (2_500_000, ("map_pos.repo", "map_pos.stack"))
    environment = {
        "YOOL_TUPLE_CPU_QUOTA_PCT": "50",
        "YOOL_TUPLE_COMPRESSION_THRESHOLD": "7",
        "YOOL_TUPLE_MAX_RETRIES": "0",
        "YOOL_TUPLE_BACKOFF_SECONDS": "0.25",
        "YOOL_TUPLE_ALARM_PCT": "55",
        "YOOL_TUPLE_ALARM_LANE": "alerts",
        "YOOL_TUPLE_CACHE_SALT": "salt",
    }
    settings = Settings.from_environment(environment).space()
    assert (settings.cpu_quota_pct, settings.compression_threshold, settings.cache_salt) == (50, 7, "salt")
    assert (settings.max_retries, settings.backoff_us, settings.alarm_pct, settings.alarm_lane) == (
        0,
        250_000,
        55,
        "alerts",
    )
    both = {"YOOL_MAX_LANE_CONCURRENCY": "8", "YOOL_TUPLE_MAX_LANE_CONCURRENCY": "9"}
    assert Settings.from_environment(both).space().max_lane_concurrency == 9
    for name, value in (("YOOL_TUPLE_QUEUE_MAXSIZE", "many"), ("YOOL_TUPLE_CPU_QUOTA_PCT", "101"),
                        ("YOOL_TUPLE_LEASE_SECONDS", "-1"), ("YOOL_TUPLE_INDEXED", "map_pos.n, run"),
                        ("YOOL_TUPLE_INDEXED", "state"), ("YOOL_TUPLE_INDEXED", "id"),
                        ("YOOL_TUPLE_ALARM_LANE", "a\nb"), ("YOOL_TUPLE_ALARM_LANE", "a" * 129),
                        ("YOOL_TUPLE_ALARM_LANE", "a\udc80b"), ("YOOL_TUPLE_MAX_RETRIES", "1" * 5000),
                        ("YOOL_TUPLE_LEASE_SECONDS", "1" * 5000), ("YOOL_TUPLE_LEASE_SECONDS", "nan")):  # fmt: skip
        with pytest.raises(FieldValue) as refused:
            Settings.from_environment({name: value}).space()
        assert refused.value.field == name


def test_limits_are_parsed_from_agent_terms() -> None:
    fields = draft(agent_terms={"budget_usd": 0.000001, "max_retries": 0, "deadline_iso": "2030-01-01T00:00:00+02:00"})
    limits = read_limits(fields["agent_terms"], "yool-tuple/v1")
    assert (limits.terms.budget_micros, limits.terms.max_retries) == (1, 0)
    assert limits.deadline_us == 1_893_448_800_000_000


def test_an_unknown_term_is_refused_with_the_terms_of_a_tuple() -> None:  # YT-04
    for schema, money in ((V1, "budget_usd"), (V2, "budget_micros")):
        with pytest.raises(TermsInvalid) as refusal:
            read_limits({"deadline": 1}, schema)
        named = str(refusal.value.limit).split(", ")
        assert {money, "deadline_iso", "max_retries"} <= set(named)
        assert refusal.value.hint is None
        texts = {**dict.fromkeys(["deadline_iso", "not_before_iso"], "2030-01-01T00:00:00Z"), "concurrency_key": "k"}
        for name in named:
            read_limits({name: texts.get(name, 1)}, schema)
