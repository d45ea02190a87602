"""Facts become events with ids and counts, for the callers who may see them, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.core.journal import encode_facts
from engrambus.errors import FieldValue
from engrambus.evidence.pointers import Pointer
from engrambus.gateway.events import EVENT_TYPES, Event, filter_for, parse_resume_point
from engrambus.gateway.events.event_types import FACT_EVENTS, fact_events
from engrambus.gateway.events.values import ADMINS_ONLY, EVERYONE
from engrambus.knowledge.brief import BriefMade
from engrambus.knowledge.cortex import (
    ContradictionRecorded,
    ContradictionSettled,
    ContributionMoved,
    SnapshotTaken,
)
from engrambus.knowledge.engrams import (
    Adoption,
    Capture,
    Engram,
    EngramAdopted,
    EngramCaptured,
    EngramConfirmed,
    EngramForgotten,
    EngramPinned,
    EngramPromoted,
    EngramPut,
    EngramReplaced,
    EngramTrusted,
    EngramUnpinned,
    PromotionAnswered,
    PromotionRequested,
    Provenance,
    RepositoryLearned,
)
from engrambus.knowledge.gate import GateOverridden
from engrambus.knowledge.memory import MemoryRead, MemoryReadData
from engrambus.policy import (
    AgentAdded,
    AgentDismissed,
    CallDenied,
    Caller,
    DerefProved,
    PolicyApplied,
    Run,
    RunClosed,
    RunOpened,
    TokenIssued,
    TokenWithdrawn,
    TurnClosed,
)
from engrambus.policy.grants.facts import BlockDebited, BlockRevoked, GrantIssued
from engrambus.policy.reservations import ReservationChanged, ReservationMade, ReservationReleased

PROJECT = "01K0000000000000000000000P"
RUN = "01K0000000000000000000000A"
SECOND_RUN = "01K0000000000000000000000B"
ID = "01K000000000000000000000E1"
BY = f"{RUN}/ada"


def engram(claim: str = "It holds.", scope: Any = "run", **fields: Any) -> Engram:
    """Return an engram by ada."""
    return Engram(
        id=ID,
        kind="risk",
        claim=claim,
        pointers=fields.pop("pointers", (Pointer(type="repo", ref="repo:a@" + "0" * 40),)),
        confidence=0.5,
        ttl="P1D",
        scope=scope,
        provenance=Provenance(created_at="2026-01-01T00:00:00Z", created_by=BY, source="agent"),
        **fields,
    )


def events_of(*facts: Any) -> list[Event]:
    """Return the events of one line whose facts are decoded from JSON."""
    return fact_events(7, 0, msgspec.json.decode(encode_facts(list(facts))), project=PROJECT)


def caller(run: str = RUN, role: str = "programmer", number: int = 7) -> Caller:
    """Return a caller named bob."""
    return Caller(project=PROJECT, run=Run(run_id=run, goal="g", number=number, opened_us=0), name="bob", role=role)


FACTS: list[tuple[Any, str, dict[str, Any], str]] = [
    (
        EngramPut(engram=engram(), run=RUN, expires_at=1),
        "less.engram.put",
        {"engram": ID, "kind": "risk", "scope": "run", "pointers": 1},
        RUN,
    ),
    (
        EngramPut(engram=engram(scope="project"), run=RUN, expires_at=1),
        "less.engram.put",
        {"engram": ID, "kind": "risk", "scope": "project", "pointers": 1},
        EVERYONE,
    ),
    (
        EngramConfirmed(id=ID, space="r7", by=BY, root=BY, expires_at=1),
        "less.engram.confirm",
        {"engram": ID},
        "r7",
    ),
    (
        EngramReplaced(id=ID, space="r7", replaced_by=ID, by=BY, run=RUN),
        "less.engram.replace",
        {"engram": ID, "replaced_by": ID},
        "r7",
    ),
    (
        ContradictionRecorded(
            contradiction_id=ID, run=RUN, by=BY, newer=ID, older=ID, verdict="conflict", risk=ID, space="p"
        ),
        "less.contradiction.record",
        {"contradiction": ID, "newer": ID, "older": ID, "risk": ID},
        "p",
    ),
    (
        ContradictionSettled(contradiction_id=ID, run=RUN, by=BY, keep="both", reason="No.", space="r7"),
        "less.contradiction.settle",
        {"contradiction": ID, "keep": "both"},
        "r7",
    ),
    (
        EngramPromoted(id=ID, space="r7", scope="project", by=BY),
        "less.engram.promote",
        {"engram": ID, "scope": "project"},
        EVERYONE,
    ),
    (
        PromotionRequested(request_id=ID, id=ID, space="p", scope="org", run=RUN, by=BY),
        "less.promotion.request",
        {"request": ID, "engram": ID, "scope": "org"},
        RUN,
    ),
    (
        PromotionAnswered(request_id=ID, approved=True, by=BY, run=RUN),
        "less.promotion.answer",
        {"request": ID, "approved": 1},
        RUN,
    ),
    (
        GateOverridden(
            fingerprint="X", engram=ID, rule="open-risk", reason="X", identity="X", by=BY, run=RUN, base="a", head="b"
        ),
        "less.gate.override",
        {"engram": ID, "rule": "open-risk", "head": "b"},
        EVERYONE,
    ),
    (EngramForgotten(id=ID, space="p", by=BY), "less.engram.forget", {"engram": ID}, EVERYONE),
    (EngramForgotten(id=ID, space="u", by=BY), "less.engram.forget", {"engram": ID}, EVERYONE),
    (
        EngramAdopted(
            engram=engram(scope="project"),
            run=RUN,
            expires_at=1,
            adoption=Adoption(origin=SECOND_RUN, by="eve", made_at="", adopted_at=""),
        ),
        "less.engram.adopt",
        {"engram": ID, "kind": "risk", "from": SECOND_RUN, "pointers": 1},
        EVERYONE,
    ),
    (
        EngramCaptured(engram=engram(scope="project"), run=RUN, expires_at=1, capture=Capture(by=BY, at="")),
        "less.engram.capture",
        {"engram": ID, "kind": "risk", "scope": "project", "pointers": 1},
        EVERYONE,
    ),
    (EngramForgotten(id=ID, space="cr7", by=BY), "less.engram.forget", {"engram": ID}, "r7"),
    (RepositoryLearned(commit="a" * 40, run=RUN, by=BY), "less.repository.learn", {"commit": "a" * 40}, EVERYONE),
    (EngramTrusted(id=ID, by=BY), "less.engram.trust", {"engram": ID}, EVERYONE),
    (EngramPinned(id=ID, space="r7", by=BY), "less.engram.pin", {"engram": ID}, "r7"),
    (EngramUnpinned(id=ID, space="p", by=BY), "less.engram.unpin", {"engram": ID}, EVERYONE),
    (
        DerefProved(run=RUN, agent="ada", turn=2, type="repo", ref="repo:a", digest="sha256:" + "0" * 64, tokens=9),
        "less.deref.prove",
        {"pointer_type": "repo", "digest": "sha256:" + "0" * 64, "tokens": 9, "turn": 2},
        RUN,
    ),
    (
        {"fact": "deref.requested", "request_id": ID, "run": RUN, "agent": "ada", "to": "lead", "max_tokens": 900},
        "less.deref.request",
        {"request": ID, "to": "lead", "max_tokens": 900},
        RUN,
    ),
    (
        {"fact": "deref.answered", "request_id": ID, "by": f"{RUN}/ada", "grant_id": "g1"},
        "less.deref.answer",
        {"request": ID, "grant": "g1"},
        RUN,
    ),
    (
        GrantIssued(
            grant_id="g1",
            block_id="b1",
            run=RUN,
            parent="ada",
            child="bob",
            cap_tokens=10,
            uses=2,
            expires_us=1,
            intended_use="to see",
            by=BY,
        ),
        "less.deref.grant",
        {"grant": "g1", "parent": "ada", "child": "bob", "cap_tokens": 10, "uses": 2},
        RUN,
    ),
    (
        BlockDebited(grant_id="g1", block_id="b1", tokens=4, by=BY),
        "less.grant.spend",
        {"grant": "g1", "block": "b1", "tokens": 4},
        RUN,
    ),
    (BlockRevoked(block_id="b1", run=RUN, by=BY), "less.grant.revoke", {"block": "b1"}, RUN),
    (
        ReservationMade(
            reservation_id=ID, run=RUN, agent="ada", paths=("a", "b"), reason="private words", expires_us=9, by=BY
        ),
        "less.reservation.make",
        {"reservation": ID, "holder": "ada", "paths": 2, "expires_us": 9},
        EVERYONE,
    ),
    (
        ReservationChanged(reservation_id=ID, run=RUN, paths=("a",), reason="private words", expires_us=9, by=BY),
        "less.reservation.change",
        {"reservation": ID, "paths": 1, "expires_us": 9},
        EVERYONE,
    ),
    (
        ReservationReleased(reservation_id=ID, run=RUN, agent="bob", by=BY, cause="process_ended"),
        "less.reservation.release",
        {"reservation": ID, "holder": "bob", "cause": "process_ended"},
        EVERYONE,
    ),
    (
        {
            "fact": "message.accepted",
            "message_id": ID,
            "run": RUN,
            "agent": "ada",
            "to": "lead",
            "text": "ROLE: programmer",
            "tokens": 120,
            "engrams": [ID, ID],
        },
        "less.message.accept",
        {"message": ID, "to": "lead", "tokens": 120, "engrams": 2},
        RUN,
    ),
    (
        {
            "fact": "message.rejected",
            "rejection_id": ID,
            "run": RUN,
            "agent": "ada",
            "tokens": 900,
            "exceeded": ["tokens"],
        },
        "less.budget.reject",
        {"rejection": ID, "tokens": 900, "exceeded": 1},
        RUN,
    ),
    (
        CallDenied(
            run=RUN, agent="ada", operation="deref_pointer", code="DEREF_DENIED", field="turn.repo", limit=3, used=3
        ),
        "less.denied",
        {"operation": "deref_pointer", "code": "DEREF_DENIED", "field": "turn.repo", "limit": 3, "used": 3},
        RUN,
    ),
    (
        {"fact": "broadcast.sent", "broadcast_id": ID, "run": RUN, "agent": "ada", "to": ["x", "y"], "tokens": 5},
        "less.message.broadcast",
        {"broadcast": ID, "to": 2, "tokens": 5},
        RUN,
    ),
    (TurnClosed(run=RUN, agent="ada", turn=3, why="asked"), "less.turn.close", {"turn": 3}, RUN),
    (RunOpened(run=RUN, goal="Move it all", by=BY), "less.run.open", {}, RUN),
    (RunClosed(run=RUN, by=BY), "less.run.end", {}, RUN),
    (
        AgentAdded(run=RUN, name="eve", role="tool", by=BY),
        "less.agent.add",
        {"name": "eve", "role": "tool"},
        RUN,
    ),
    (AgentDismissed(run=RUN, name="eve", by=BY), "less.agent.remove", {"name": "eve"}, RUN),
    (
        TokenIssued(token_id=ID, run=RUN, agent="eve", by=BY, first_us=1, expires_us=2),
        "less.token.issue",
        {"token": ID, "name": "eve"},
        RUN,
    ),
    (TokenWithdrawn(run=RUN, agent="eve", token_id=ID, by=BY), "less.token.revoke", {"token": ID, "name": "eve"}, RUN),
    (PolicyApplied(policy={"max_ttl": "P1D"}, by=BY), "less.policy.apply", {}, EVERYONE),
    (
        {"fact": "sam.kept", "run": RUN, "by": BY, "episode": {"kind": "fact", "slug": "s", "version": 2, "text": "X"}},
        "sam.keep",
        {"memory": "s", "kind": "fact", "version": 2},
        EVERYONE,
    ),
    (
        SnapshotTaken(run=RUN, by=BY, heir="eve", snapshot_id="f" * 64, items=3, chars=900),
        "cortex.inherit",
        {"snapshot": "f" * 64, "heir": "eve", "items": 3, "chars": 900},
        RUN,
    ),
    (
        {
            "fact": "contribution.submitted",
            "run": RUN,
            "agent": "ada",
            "contribution": {"contribution_id": ID, "status": "flagged", "thread_id": "T", "content": "X"},
        },
        "cortex.contribute",
        {"contribution": ID, "status": "flagged"},
        RUN,
    ),
    (
        ContributionMoved(run=RUN, by=BY, contribution_id=ID, status="rejected", reason="X"),
        "cortex.review",
        {"contribution": ID, "status": "rejected"},
        RUN,
    ),
]


@pytest.mark.parametrize(("fact", "kind", "data", "audience"), FACTS)
def test_a_fact_becomes_the_event_of_its_row(
    fact: Any, kind: str, data: dict[str, Any], audience: str
) -> None:  # EB-26
    (event,) = events_of(fact)
    assert (event.id, event.type, event.data, event.audience) == ("7.0", kind, data, audience)
    assert (event.project, event.run, event.agent) == (PROJECT, RUN, "ada")
    assert "audience" not in event.to_wire()


def test_every_type_of_event_is_tested_above() -> None:
    other_types = {"less.engram.query", "less.brief.make", "memory.read", "work.changed"}
    assert {kind for _, kind, _, _ in FACTS} | other_types == EVENT_TYPES


def test_a_memory_read_event_names_no_store_and_no_agent() -> None:  # MC-08
    data = MemoryReadData(query_hash="a" * 64, store_paths=["x.jsonl"], selected_count=3, package_hash="b" * 64)
    (event,) = events_of(MemoryRead(data=data))
    assert (event.type, event.data) == ("memory.read", {"selected": 3, "package": "b" * 64})
    assert (event.run, event.agent) == (None, None)


def test_a_brief_has_no_author() -> None:
    (event,) = events_of(BriefMade(run=RUN, role="tool", version=2, lines=("Goal: all", "Now:")))
    assert (event.data, event.agent, event.audience) == ({"role": "tool", "version": 2, "lines": 2}, None, RUN)


def test_facts_without_an_event_count_in_the_ids_of_others() -> None:
    facts = [{"fact": "request.answered", "run": RUN}, {"fact": "not.yet.known"}, RunClosed(run=RUN, by=BY), {}]
    assert [event.id for event in events_of(*facts)] == ["7.2"]


def test_events_are_visible_to_their_audience() -> None:
    of_run, of_space = events_of(FACTS[0][0])[0], events_of(FACTS[2][0])[0]
    of_all = events_of(FACTS[1][0])[0]
    for event in (of_run, of_space, of_all):
        assert filter_for(caller()).matches(event)
        assert filter_for(caller(SECOND_RUN, "admin", 9)).matches(event)
    assert not filter_for(caller(SECOND_RUN, number=9)).matches(of_run)
    assert not filter_for(caller(SECOND_RUN, number=9)).matches(of_space)
    assert filter_for(caller(SECOND_RUN, number=9)).matches(of_all)


def test_a_message_to_another_run_is_visible_to_both_runs() -> None:  # EB-34
    fact = {"fact": "message.accepted", "message_id": ID, "run": RUN, "agent": "ada", "to": "ben", "to_run": SECOND_RUN}
    (event,) = events_of(fact)
    assert event.data == {"message": ID, "to": "ben", "to_run": SECOND_RUN}
    assert "other_run" not in event.to_wire()
    for run, sees in ((RUN, True), (SECOND_RUN, True), ("01K7Z3V5QX0000000000000009", False)):
        assert filter_for(caller(run, number=9)).matches(event) is sees


def test_an_admins_action_without_a_run_is_visible_to_admins_only() -> None:
    (event,) = events_of(BlockDebited(grant_id="g1", block_id="b1", tokens=1, by=f"{RUN}/admin"))
    assert event.audience == ADMINS_ONLY
    assert not filter_for(caller()).matches(event)
    assert filter_for(caller(role="admin")).matches(event)


CONTENT = st.text(st.sampled_from("abcdefghijklmnopqrstuvwxyz ,;ÄöÜ\n\r\u2028\x1b'\"<>"), min_size=12, max_size=60)


@given(text=CONTENT)
def test_no_content_gets_into_an_event(text: str) -> None:  # EB-26
    events, others = _events_about(text), _events_about("!" * len(text))
    parts = (text[start : start + 12] for start in range(len(text) - 11))
    # Hypothesis draws words of the source as well: the name of an event is in every event of its type.
    assert not [part for part in parts if part in events and part not in others]


def _events_about(text: str) -> str:
    """Return the events of facts that hold a text wherever one can be, as JSON."""
    pointer = Pointer(type="url", ref=text, span=text)
    facts = [
        EngramPut(
            engram=engram(text, pointers=(pointer,), tags=(text,), hash_keys=(text,)),
            run=RUN,
            expires_at=1,
            more_keys=(text,),
        ),
        DerefProved(run=RUN, agent="ada", turn=1, type="url", ref=text, digest="sha256:" + "0" * 64, tokens=1),
        RunOpened(run=RUN, goal=text, by=BY),
        TurnClosed(run=RUN, agent="ada", turn=1, why=text),
        BriefMade(run=RUN, role="tool", version=1, lines=(text, text)),
        PolicyApplied(policy={text: text}, by=BY),
        *({"fact": tag, "run": RUN, "agent": "ada"} | dict.fromkeys(WORDY, text) for tag in FACT_EVENTS),
    ]
    text_of_events = json.dumps([event.to_wire() for event in events_of(*facts)], ensure_ascii=False)
    assert text_of_events.count('"type"') == len(facts)
    return text_of_events


WORDY = ("claim", "text", "reason", "intended_use", "ref", "pointer", "prefix", "excerpt", "goal", "why", "token")


@given(st.dictionaries(st.sampled_from([*WORDY, "run", "by", "agent", "space", "id", "engram"]), st.text(min_size=1)))
def test_a_text_where_an_id_should_be_is_left_out(fields: dict[str, str]) -> None:
    for tag in FACT_EVENTS:
        for event in events_of({"fact": tag} | fields):
            words = [event.run, event.agent, *event.data.values()]
            assert all(word is None or isinstance(word, int) or not set(word) & set(" \n\r\t<>\"'") for word in words)


@pytest.mark.parametrize("text", ["", "x", "-1", "1.", ".1", "1.2.3", "1 ", "9" * 16, "١"])
def test_an_invalid_event_id_is_refused(text: str) -> None:
    with pytest.raises(FieldValue):
        parse_resume_point(text, "after")


@pytest.mark.parametrize("text", ["0", "12", "12.0", "12.499"])
def test_an_event_id_is_printed_as_it_was_parsed(text: str) -> None:
    assert str(parse_resume_point(text, "after")) == text
