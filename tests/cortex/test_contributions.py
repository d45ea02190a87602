"""Contributions: their evidence, their way through the review, and repeated requests."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from engrambus.gateway import Credential
from engrambus.knowledge.cortex.values import UNDECIDED
from engrambus.testing.client import expect_refusal
from tests.cortex.conftest import Team

PASTED = "\n".join(f"line {number} of the parser" for number in range(11, 15))


def contribute_evidence(team: Team, kind: str, value: str) -> Any:
    """Contribute with one piece of evidence; return it as it was stored."""
    return team.contribute(f"Learned from {kind} {value[:20]}", evidence=[{"kind": kind, "value": value}]).evidence[0]


def test_evidence_that_is_in_the_repository_gets_a_pointer(team: Team) -> None:  # SC-02
    path = contribute_evidence(team, "path", "src/parser.py:10-20")
    assert path.pointer.ref == f"repo:src/parser.py#L10-L20@{team.repository.sha}"
    assert path.pointer.digest.startswith("sha256:")
    pasted = contribute_evidence(team, "command_output", f"$ head src/parser.py\n{PASTED}")
    assert pasted.pointer.ref.startswith("repo:src/parser.py#L11-L14@")
    for kind, value in (
        ("url", "https://example.org/notes"),
        ("note", "Seen while reading it."),
        ("command_output", "3 passed in 0.2 s"),
    ):
        stored = contribute_evidence(team, kind, value)
        assert (stored.value, stored.pointer) == (value, None), value


def test_evidence_that_names_what_is_not_there_is_refused(team: Team) -> None:  # EB-04
    for value, code in (
        ("src/nowhere.py:1-2", "FILE_NOT_FOUND"),
        ("src/parser.py:29-31", "SPAN_NOT_FOUND"),
        ("../../etc/passwd", "POINTER_PATH"),
        ("sam:decision:never-made@7", "EPISODE_NOT_FOUND"),
    ):
        with expect_refusal(code, "evidence[0].value"):
            contribute_evidence(team, "path", value)
    assert team.client.call("list_contributions", team.lead).contributions == []


def test_an_accepted_contribution_with_pointers_is_found_by_query_and_by_memory_read(team: Team) -> None:  # SC-03
    sent = team.contribute(
        "The parser trusts its input.",
        proposed_categories=["Parser"],
        confidence=0.8,
        evidence=[{"kind": "path", "value": "src/parser.py:10-20"}],
    )
    assert team.client.query_claims("parser trusts input") == []
    accepted = team.client.call("accept_contribution", team.lead, id=sent.contribution_id)
    (engram,) = team.client.query("parser trusts input", team.coder).engrams
    assert (engram.claim, engram.provenance.source) == ("The parser trusts its input.", "sam")
    assert engram.pointers == tuple(item.pointer for item in sent.evidence)
    (record,) = team.records()
    assert record["memory_id"] == accepted.memory_id
    assert record["refs"][-1] == {
        "type": "contribution",
        "contribution_id": sent.contribution_id,
        "accepted_by": accepted.decided_by,
        "accepted_at": accepted.decided_at,
    }
    assert team.read("parser trusts").selection.selected[0].memory_id == accepted.memory_id


def test_a_long_contribution_is_stored_in_full_and_its_claim_is_shortened(team: Team) -> None:
    content = "The parser does one thing after another. " * 90
    sent = team.contribute(content, evidence=[{"kind": "path", "value": "src/parser.py:10-20"}])
    accepted = team.client.call("accept_contribution", team.lead, id=sent.contribution_id, kind="workflow")
    (record,) = team.records()
    assert record["text"] == content
    assert len(str(accepted.memory_id)) <= len("workflow:") + 64 + len("@1")
    (engram,) = team.client.query("parser one thing after another", team.coder).engrams
    assert engram.claim == " ".join(["The parser does one thing after another."] * 3) + " …"
    assert team.client.deref(team.coder, f"sam:{accepted.memory_id}", max_tokens=900).truncated


def test_a_contribution_without_pointers_becomes_no_engram(team: Team) -> None:
    sent = team.contribute("Tuesdays are calm.")
    accepted = team.client.call("accept_contribution", team.lead, id=sent.contribution_id)
    (memory,) = team.client.query("tuesdays calm").engrams  # BX-12
    assert memory.id == f"sam:{accepted.memory_id}"
    assert team.client.call("feed").rows == []


def test_a_request_repeated_with_its_idempotency_key_changes_nothing(team: Team) -> None:
    def with_key(caller: Credential, key: str) -> Credential:
        return msgspec.structs.replace(caller, idempotency_key=key)

    first = team.client.call("contribute", with_key(team.coder, "k1"), content="The parser trusts its input.")
    journal = team.journal()
    assert team.client.call("contribute", with_key(team.coder, "k1"), content="The parser trusts its input.") == first
    assert team.journal() == journal
    with expect_refusal("IDEMPOTENCY_CONFLICT"):
        team.client.call("contribute", with_key(team.coder, "k1"), content="Something else.")
    fields = {"id": first.contribution_id}
    accepted = team.client.call("accept_contribution", with_key(team.lead, "k2"), **fields)
    assert team.client.call("accept_contribution", with_key(team.lead, "k2"), **fields) == accepted
    with expect_refusal("CONTRIBUTION_DECIDED"):
        team.client.call("accept_contribution", with_key(team.lead, "k3"), **fields)
    assert len(team.records()) == 1
    episode = team.client.call("keep_episode", with_key(team.lead, "k4"), text="Use tabs.")
    assert team.client.call("keep_episode", with_key(team.lead, "k4"), text="Use tabs.") == episode


@pytest.mark.parametrize("decision", ["accept_contribution", "reject_contribution", "withdraw_contribution"])
@pytest.mark.parametrize("start", ["submitted", "duplicate", "flagged"])
def test_a_contribution_is_decided_only_once(team: Team, start: str, decision: str) -> None:  # SC-03
    team.keep("The gateway times out after 30 seconds.", pinned=True)
    content = {"flagged": "The gateway times out after 60 seconds."}.get(start, "The parser trusts its input.")
    if start == "duplicate":
        team.contribute(content)
    sent = team.contribute(content)
    assert sent.status == start
    assert start in UNDECIDED

    def decide(operation: str) -> Any:
        caller = team.coder if operation == "withdraw_contribution" else team.lead
        fields = {"reason": "No."} if operation == "reject_contribution" else {}
        return team.client.call(operation, caller, id=sent.contribution_id, **fields)

    decided = decide(decision)
    verb = decision.partition("_")[0]
    assert decided.status == {"accept": "accepted", "reject": "rejected", "withdraw": "withdrawn"}[verb]
    journal = team.journal()
    for operation in ("accept_contribution", "reject_contribution", "withdraw_contribution"):
        with expect_refusal("CONTRIBUTION_DECIDED"):
            decide(operation)
    assert team.journal() == journal
    team.reopen()
    stored = team.client.call("show_contribution", team.coder, id=sent.contribution_id)
    assert stored == decided
    assert stored.content == content


def test_the_list_has_pages_and_respects_max_tokens(team: Team) -> None:
    sent = []
    for number in range(7):
        sent.append(team.contribute(f"Learning number {number}.", thread_id=f"t{number % 2}"))
        team.clock.advance(seconds=1)
    listed: list[str] = []
    cursor = None
    while True:
        page = team.client.call("list_contributions", team.lead, k=3, cursor=cursor)
        listed += [item.contribution_id for item in page.contributions]
        cursor = page.cursor
        if cursor is None:
            break
    assert listed == [item.contribution_id for item in reversed(sent)]
    small = team.client.call("list_contributions", team.lead, max_tokens=600)
    assert 0 < len(small.contributions) < 7
    assert len(msgspec.json.encode(small)) <= 2400
    assert {
        item.thread_id for item in team.client.call("list_contributions", team.lead, thread_id="t1").contributions
    } == {"t1"}


def test_an_input_that_is_not_there_is_refused_by_its_place(team: Team) -> None:  # SC-09
    memory = team.keep("Refunds need two approvals.", slug="refunds")
    place = "src/parser.py:1-2"
    sent = team.contribute("Refunds are slow.", inputs_used=[memory.memory_id, memory.ref, place])
    assert sent.inputs_used == (memory.memory_id, memory.ref, place)
    journal = team.journal()
    for name in ("fact:none@1", "sam:fact:refunds@9", "src/none.py:1-2", "0" * 64):
        inputs = [memory.ref, name]
        refused, problem = team.client.try_call("contribute", team.coder, content="Quick.", inputs_used=inputs)
        assert (refused, json.loads(problem).get("field")) == ("INPUT_NOT_FOUND", "inputs_used[1]"), name
    assert team.journal() == journal


def test_the_memory_behind_the_parts_of_a_contribution_can_be_read(team: Team) -> None:  # SC-09
    text = " ".join(f"Queue {number} is drained by worker {number}." for number in range(9))
    sent = team.contribute(text)
    accepted = team.client.call("accept_contribution", team.lead, id=sent.contribution_id, atomize=True)
    first = team.client.call("get_engram", team.coder, id=accepted.atoms[0])
    assert team.client.deref(team.coder, first.pointers[0].ref).excerpt == text
    listed = team.client.query_claims("queue drained", team.coder, k=20)
    assert sum("Queue 8" in claim for claim in listed) == 1
