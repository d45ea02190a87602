"""What a tuple must be, its id, its terms, patterns: each refusal a code of its own. # YT-04 # YT-05 # YT-11"""

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
from engrambus.space.tuples import CheckedTuple, enqueue, read_limits, read_pattern, read_tuple, rules, tuple_id
from engrambus.space.tuples.rules import moved_later
from engrambus.space.tuples.values import V1, V2
from engrambus.space.work import input_hash
from engrambus.testing.work import PERSON, RUN, WorkHarness, draft
from tests.harness.stores import MemoryWorkHarness, SqliteWorkHarness

VECTORS = json.loads((Path(__file__).parent / "vectors" / "tuple_id.json").read_text("utf-8"))
NOW = 1_778_000_000_000_000  # in May 2026
BEFORE = 1_700_000_000_000_000


def read(**more: Any) -> CheckedTuple:
    """A tuple, read."""
    return read_tuple({"lane": "build", **more}, PERSON, NOW)


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
def test_the_published_ids_are_ours(vector: dict[str, Any]) -> None:
    assert tuple_id(vector["tuple"]) == vector["id"]
    checked = read_tuple({**vector["tuple"], "id": vector["id"]}, PERSON, BEFORE)
    assert checked.id == vector["id"]
    assert checked.body == canonical_reference(vector["tuple"])


def test_many_tuples_that_say_the_same_are_each_moved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[CheckedTuple] = []

    def counted(checked: CheckedTuple, by: int = 1) -> CheckedTuple:
        moves.append(checked)
        return moved_later(checked, by)

    for module in (rules, enqueue):
        monkeypatch.setattr(module, "moved_later", counted)
    harness = MemoryWorkHarness()
    try:
        puts = harness.space.out(*[draft()] * 100, authority=PERSON, run=RUN)
    finally:
        harness.close()
    assert len({each.id for each in puts}) == 100
    assert len(moves) == 99


def test_a_tuple_created_when_many_were_is_moved_on_in_few_steps(
    monkeypatch: pytest.MonkeyPatch, spaces: list[WorkHarness]
) -> None:
    """To the first moment behind them, as one step after the other would, and under the lock only for a moment."""
    moves: list[CheckedTuple] = []

    def counted(checked: CheckedTuple, by: int = 1) -> CheckedTuple:
        moves.append(checked)
        return moved_later(checked, by)

    said = draft(created_at="2026-01-01T00:00:00Z")
    for harness in spaces:
        first = [each.id for each in harness.space.out(*[said] * 300, authority=PERSON, run=RUN)]
        with monkeypatch.context() as patch:
            for module in (rules, enqueue):
                patch.setattr(module, "moved_later", counted)
            more = [each.id for _ in range(5) for each in harness.space.out(said, authority=PERSON, run=RUN)]
        times = [harness.space.public_tuple(each)["created_at"] for each in first + more]
        assert times == [f"2026-01-01T00:00:00.{micros:06}Z" for micros in range(305)]
    assert len(moves) < 5 * 2 * 50


@pytest.mark.parametrize("many", [1, 5, 40])
def test_time_ends(many: int, spaces: list[WorkHarness]) -> None:
    """Where no later moment can be written down a tuple is refused, and none before. # YT-04"""
    said = draft(created_at=f"9999-12-31T23:59:59.{1_000_000 - many:06}Z")
    for harness in spaces:
        for _ in range(many):
            harness.space.out(said, authority=PERSON, run=RUN)
        before = harness.journal_bytes()
        for drafts in ((said,), (said, said)):
            with pytest.raises(TimeInvalid) as refused:
                harness.space.out(*drafts, authority=PERSON, run=RUN)
            assert refused.value.field == "created_at"
        assert harness.journal_bytes() == before
        assert len({one.tuple.created_at for one in harness.space.rd_all({})}) == many


def test_both_schemas_live_side_by_side() -> None:
    one = read(agent_terms={"budget_usd": 0.5}).limits
    two = read(schema="yool-tuple/v2", agent_terms={"budget_micros": 500_000}).limits
    assert one.terms.budget_micros == two.terms.budget_micros == 500_000


REFUSED: tuple[tuple[str, dict[str, Any], type[EngramBusError], str], ...] = (
    ("a schema nobody knows", {"schema": "yool-tuple/v7"}, TupleSchema, "schema"),
    ("a schema that is a number", {"schema": 1}, TupleSchema, "schema"),
    ("an id that does not match", {"id": "sha256:" + "0" * 64}, FieldMissing, "map_pos"),
    ("a bad name", {"payload": [{"yool": "Lint"}]}, YoolName, "payload[0].yool"),
    ("a bad name further on", {"payload": [{"yool": "a.b"}, {"yool": "a..b"}]}, YoolName, "payload[1].yool"),
    ("a negative budget", {"agent_terms": {"budget_usd": -1}}, TermsInvalid, "agent_terms.budget_usd"),
    ("a budget in words", {"agent_terms": {"budget_usd": "much"}}, TermsInvalid, "agent_terms.budget_usd"),
    ("a budget that is true", {"agent_terms": {"budget_tokens": True}}, TermsInvalid, "agent_terms.budget_tokens"),
    ("half a token", {"agent_terms": {"budget_tokens": 0.5}}, TermsInvalid, "agent_terms.budget_tokens"),
    ("less than a micro-dollar", {"agent_terms": {"budget_usd": 1e-7}}, TermsInvalid, "agent_terms.budget_usd"),
    ("too much processor", {"agent_terms": {"cpu_quota_pct": 101}}, TermsInvalid, "agent_terms.cpu_quota_pct"),
    ("a term nobody knows", {"agent_terms": {"patience": 1}}, TermsInvalid, "agent_terms.patience"),
    ("dollars in v2", {"schema": "yool-tuple/v2", "agent_terms": {"budget_usd": 1}}, TermsInvalid,
     "agent_terms.budget_usd"),
    ("a deadline past", {"agent_terms": {"deadline_iso": "2020-01-01T00:00:00Z"}}, DeadlinePast,
     "agent_terms.deadline_iso"),
    ("a deadline that is none", {"agent_terms": {"deadline_iso": "soon"}}, TermsInvalid, "agent_terms.deadline_iso"),
    ("a deadline without an offset", {"agent_terms": {"deadline_iso": "2030-01-01T00:00:00"}}, TermsInvalid,
     "agent_terms.deadline_iso"),
    ("steps in a circle", {"payload": [{"yool": "a.b", "after": [1]}, {"yool": "a.b", "after": [0]}]}, StepCycle,
     "payload[0].after"),
    ("a step that waits for itself", {"payload": [{"yool": "a.b", "after": [0]}]}, StepCycle, "payload[0].after"),
    ("a step that is not there", {"payload": [{"yool": "a.b", "after": [3]}]}, StepUnknown, "payload[0].after"),
    ("ten megabytes", {"payload": [{"yool": "a.b", "args": {"x": "x" * 10_000_000}}]}, TupleTooLarge, "payload"),
    ("too many steps", {"payload": [{"yool": "a.b"}] * 257}, FieldValue, "payload"),
    ("an empty lane", {"lane": ""}, FieldValue, "lane"),
    ("a lane with a newline", {"lane": "a\nb"}, FieldValue, "lane"),
    ("receipts of its own", {"receipts": ["sha256:" + "0" * 64]}, FieldValue, "receipts"),
    ("a field nobody knows", {"colour": "red"}, FieldUnknown, "colour"),
    ("a payload that is none", {"payload": "a.b"}, FieldType, "payload"),
    ("a step that is none", {"payload": ["a.b"]}, FieldType, "payload[0]"),
    ("a flag nobody knows", {"flags": {"fast": True}}, FieldValue, "flags.fast"),
    ("a parent that is none", {"parent_id": "T0"}, FieldValue, "parent_id"),
    ("a time that is none", {"created_at": "now"}, TimeInvalid, "created_at"),
    ("a number too large to hash", {"map_pos": {"n": 2**60}}, NumberRange, "map_pos.n"),
    ("not a number", {"map_pos": {"n": float("nan")}}, NumberRange, "map_pos.n"),
    ("too high a rank", {"priority": 1001}, FieldValue, "priority"),
    ("too low a rank", {"priority": -1001}, FieldValue, "priority"),
    ("too many pointers", {"src_ptr": ["wiki://page"] * 65}, FieldValue, "src_ptr"),
    ("a flag in words", {"flags": {"no_cache": "yes"}}, FieldValue, "flags.no_cache"),
    ("a negative budget in v2", {"schema": "yool-tuple/v2", "agent_terms": {"budget_micros": -1}}, TermsInvalid,
     "agent_terms.budget_micros"),
)  # fmt: skip


@pytest.mark.parametrize(("fields", "kind", "field"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_tuple_that_breaks_a_rule_is_refused(
    fields: dict[str, Any], kind: type[EngramBusError], field: str, spaces: list[WorkHarness]
) -> None:
    for harness in spaces:
        before = harness.journal_bytes()
        with pytest.raises(kind) as refused:
            harness.space.out({"lane": "build", **fields}, authority=PERSON, run=RUN)
        assert refused.value.field == field
        assert harness.journal_bytes() == before


def test_what_lies_at_a_bound_is_taken() -> None:
    pointers = ["wiki://page"] * 64
    for priority in (-1000, 1000):
        taken = read(priority=priority, src_ptr=pointers, flags={"no_cache": False}, agent_terms={"budget_usd": 0})
        assert (taken.tuple.priority, list(taken.tuple.src_ptr)) == (priority, pointers)


@pytest.fixture
def spaces(tmp_path: Path) -> Iterator[list[WorkHarness]]:
    """A space on each back end."""
    harnesses: list[WorkHarness] = [MemoryWorkHarness(), SqliteWorkHarness(tmp_path / "catalog")]
    yield harnesses
    for harness in harnesses:
        harness.close()


@pytest.mark.parametrize("field", ["schema", "authority", "created_at", "map_pos", "payload", "receipts", "parent_id"])
def test_with_an_id_nothing_is_filled_in(field: str) -> None:
    """What is left out would be hashed by nobody: nobody would stand behind it, least of all. # YT-04"""
    fields = {name: value for name, value in read().fields.items() if name != field}
    with pytest.raises(FieldMissing) as refused:
        read_tuple({**fields, "id": tuple_id(fields)}, PERSON, NOW)
    assert refused.value.field == field


def test_an_id_that_does_not_match_is_refused() -> None:
    whole = read().fields
    with pytest.raises(TupleIdMismatch) as refused:
        read_tuple({**whole, "id": "sha256:" + "0" * 64}, PERSON, NOW)
    assert refused.value.limit == tuple_id(whole)


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ({"lane": {"like": "b%"}}, PatternOperator),
        ({"lane": {}}, PatternOperator),
        ({"lane": {"prefix": 3}}, PatternValue),
        ({"priority": {"gt": None}}, PatternValue),
        ({"priority": {"exists": "yes"}}, PatternValue),
        ({"": 1}, FieldValue),
        ({str(n): 1 for n in range(40)}, FieldValue),
    ],
)
def test_a_pattern_nobody_can_match_is_refused(pattern: dict[str, Any], kind: type[EngramBusError]) -> None:
    with pytest.raises(kind):
        read_pattern(pattern)


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
def test_every_tuple_has_the_id_the_formula_gives(args: dict[str, Any], lane: str) -> None:
    checked = read(lane=lane, map_pos=args, payload=[{"yool": "agent.lint.ruff", "args": args}])
    text = json.dumps(checked.fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert checked.body == text.encode()
    assert checked.id == tuple_id(checked.fields)


def test_receipts_are_named_by_all_they_say() -> None:
    """The printed formula joins fields without separators, so `v1` and `10` collide with `v11` and `0`."""
    same: dict[str, Any] = {"tuple_id": "t", "started_at": "s", "ended_at": "e"}
    one = new_receipt(yool="agent.a.b.v1", exit=10, **same)
    other = new_receipt(yool="agent.a.b.v11", exit=0, **same)
    assert one.id != other.id
    assert one.result_sha != other.result_sha
    again = new_receipt(yool="agent.a.b.v1", exit=10, **{**same, "tuple_id": "another"})
    assert again.id != one.id
    assert again.result_sha == one.result_sha
    whole = new_receipt(yool="a.b.v1", exit=0, cost=Cost(usd=1, disk_mb=3), **same)
    assert receipt_id(whole) == whole.id


def test_environment_and_salt_make_another_input() -> None:
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


def test_settings_are_read_and_refused_by_name() -> None:  # YT-06
    given = Settings.from_environment(
        {
            "YOOL_TUPLE_LANE_CONCURRENCY": "4",
            "YOOL_MAX_LANE_CONCURRENCY": "8",
            "YOOL_TUPLE_QUEUE_MAXSIZE": "10",
            "YOOL_TUPLE_LEASE_SECONDS": "2.5",
            "YOOL_TUPLE_INDEXED": "map_pos.stack, map_pos.repo",
        }
    ).space()
    assert (given.lane_concurrency, given.max_lane_concurrency, given.queue_maxsize) == (4, 8, 10)
    assert (given.lease_us, given.indexed_fields) == (2_500_000, ("map_pos.repo", "map_pos.stack"))
    others = {
        "YOOL_TUPLE_CPU_QUOTA_PCT": "50",
        "YOOL_TUPLE_COMPRESSION_THRESHOLD": "7",
        "YOOL_TUPLE_MAX_RETRIES": "0",
        "YOOL_TUPLE_BACKOFF_SECONDS": "0.25",
        "YOOL_TUPLE_ALARM_PCT": "55",
        "YOOL_TUPLE_ALARM_LANE": "bells",
        "YOOL_TUPLE_CACHE_SALT": "salt",
    }
    given = Settings.from_environment(others).space()
    assert (given.cpu_quota_pct, given.compression_threshold, given.cache_salt) == (50, 7, "salt")
    assert (given.max_retries, given.backoff_us, given.alarm_pct, given.alarm_lane) == (0, 250_000, 55, "bells")
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


def test_limits_say_what_terms_say() -> None:
    said = draft(agent_terms={"budget_usd": 0.000001, "max_retries": 0, "deadline_iso": "2030-01-01T00:00:00+02:00"})
    limits = read_limits(said["agent_terms"], "yool-tuple/v1")
    assert (limits.terms.budget_micros, limits.terms.max_retries) == (1, 0)
    assert limits.deadline_us == 1_893_448_800_000_000


def test_a_refused_term_is_told_what_a_tuple_can_say() -> None:  # YT-04
    for schema, money in ((V1, "budget_usd"), (V2, "budget_micros")):
        with pytest.raises(TermsInvalid) as refusal:
            read_limits({"deadline": 1}, schema)
        named = str(refusal.value.limit).split(", ")
        assert {money, "deadline_iso", "max_retries"} <= set(named)
        assert refusal.value.hint is None
        for name in named:
            read_limits({name: "2030-01-01T00:00:00Z" if name == "deadline_iso" else 1}, schema)
