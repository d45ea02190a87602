"""What a contribution stands on, what becomes of it, and that repeating a request repeats nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engrambus.gateway import Credential
from engrambus.knowledge.cortex import UNDECIDED
from engrambus.testing.client import expect_refusal
from tests.cortex.conftest import Team

PASTED = "\n".join(f"line {number} of the parser" for number in range(11, 15))


def evidence(team: Team, kind: str, value: str) -> Any:
    """What becomes of one piece of evidence."""
    return team.contribute(f"Learned from {kind} {value[:20]}", evidence=[{"kind": kind, "value": value}]).evidence[0]


def test_evidence_becomes_a_pointer_where_the_repository_holds_it(team: Team) -> None:  # SC-02
    path = evidence(team, "path", "src/parser.py:10-20")
    assert path.pointer.ref == f"repo:src/parser.py#L10-L20@{team.repository.sha}"
    assert path.pointer.digest.startswith("sha256:")
    pasted = evidence(team, "command_output", f"$ head src/parser.py\n{PASTED}")
    assert pasted.pointer.ref.startswith("repo:src/parser.py#L11-L14@")
    for kind, value in (
        ("path", "src/nowhere.py:1-2"),
        ("path", "../../etc/passwd"),
        ("url", "https://example.org/notes"),
        ("note", "Seen while reading it."),
        ("command_output", "3 passed in 0.2 s"),
    ):
        kept = evidence(team, kind, value)
        assert (kept.value, kept.pointer) == (value, None), value


def test_an_accepted_learning_with_pointers_is_found_by_query_and_by_memory_read(team: Team) -> None:  # SC-03
    sent = team.contribute(
        "The parser trusts its input.",
        proposed_categories=["Parser"],
        confidence=0.8,
        evidence=[{"kind": "path", "value": "src/parser.py:10-20"}],
    )
    assert team.hand.query_claims("parser trusts input") == []
    accepted = team.hand.call("accept_contribution", team.lead, id=sent.contribution_id)
    (engram,) = team.hand.query("parser trusts input", team.coder).engrams
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


def test_a_long_learning_is_remembered_whole_and_told_of_in_a_sentence(team: Team) -> None:
    long = "The parser does one thing after another. " * 90
    sent = team.contribute(long, evidence=[{"kind": "path", "value": "src/parser.py:10-20"}])
    accepted = team.hand.call("accept_contribution", team.lead, id=sent.contribution_id, kind="workflow")
    (record,) = team.records()
    assert record["text"] == long
    assert len(str(accepted.memory_id)) <= len("workflow:") + 64 + len("@1")
    (engram,) = team.hand.query("parser one thing after another", team.coder).engrams
    assert engram.claim == " ".join(["The parser does one thing after another."] * 3) + " …"
    assert team.hand.deref(team.coder, f"sam:{accepted.memory_id}", max_tokens=900).truncated


def test_a_learning_without_pointers_becomes_no_engram(team: Team) -> None:
    sent = team.contribute("Tuesdays are calm.")
    team.hand.call("accept_contribution", team.lead, id=sent.contribution_id)
    assert team.hand.query_claims("tuesdays calm") == []


def test_a_request_repeated_under_its_key_is_answered_and_not_done_again(team: Team) -> None:
    def keyed(who: Credential, key: str) -> Credential:
        return msgspec.structs.replace(who, idempotency_key=key)

    first = team.hand.call("contribute", keyed(team.coder, "k1"), content="The parser trusts its input.")
    before = team.journal()
    assert team.hand.call("contribute", keyed(team.coder, "k1"), content="The parser trusts its input.") == first
    assert team.journal() == before
    with expect_refusal("IDEMPOTENCY_CONFLICT"):
        team.hand.call("contribute", keyed(team.coder, "k1"), content="Something else.")
    accept = {"id": first.contribution_id}
    accepted = team.hand.call("accept_contribution", keyed(team.lead, "k2"), **accept)
    assert team.hand.call("accept_contribution", keyed(team.lead, "k2"), **accept) == accepted
    with expect_refusal("CONTRIBUTION_DECIDED"):
        team.hand.call("accept_contribution", keyed(team.lead, "k3"), **accept)
    assert len(team.records()) == 1
    kept = team.hand.call("keep_episode", keyed(team.lead, "k4"), text="Use tabs.")
    assert team.hand.call("keep_episode", keyed(team.lead, "k4"), text="Use tabs.") == kept


@pytest.mark.parametrize("last", ["accept_contribution", "reject_contribution", "withdraw_contribution"])
@pytest.mark.parametrize("start", ["submitted", "duplicate", "flagged"])
def test_every_way_through_the_queue_ends_once(team: Team, start: str, last: str) -> None:  # SC-03
    team.keep("The gateway times out after 30 seconds.", pinned=True)
    content = {"flagged": "The gateway times out after 60 seconds."}.get(start, "The parser trusts its input.")
    if start == "duplicate":
        team.contribute(content)
    sent = team.contribute(content)
    assert sent.status == start
    assert start in UNDECIDED

    def move(operation: str) -> Any:
        who = team.coder if operation == "withdraw_contribution" else team.lead
        more = {"reason": "No."} if operation == "reject_contribution" else {}
        return team.hand.call(operation, who, id=sent.contribution_id, **more)

    ended = move(last)
    assert ended.status == {"accept": "accepted", "reject": "rejected", "withdraw": "withdrawn"}[last.partition("_")[0]]
    before = team.journal()
    for operation in ("accept_contribution", "reject_contribution", "withdraw_contribution"):
        with expect_refusal("CONTRIBUTION_DECIDED"):
            move(operation)
    assert team.journal() == before
    team.reopen()
    shown = team.hand.call("show_contribution", team.coder, id=sent.contribution_id)
    assert shown == ended
    assert shown.content == content


def test_a_queue_is_shown_page_by_page_and_never_larger_than_asked(team: Team) -> None:
    sent = []
    for number in range(7):
        sent.append(team.contribute(f"Learning number {number}.", thread_id=f"t{number % 2}"))
        team.clock.advance(seconds=1)
    seen: list[str] = []
    cursor = None
    while True:
        page = team.hand.call("list_contributions", team.lead, k=3, cursor=cursor)
        seen += [each.contribution_id for each in page.contributions]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == [each.contribution_id for each in reversed(sent)]
    small = team.hand.call("list_contributions", team.lead, max_tokens=600)
    assert 0 < len(small.contributions) < 7
    assert len(msgspec.json.encode(small)) <= 2400
    assert {
        each.thread_id for each in team.hand.call("list_contributions", team.lead, thread_id="t1").contributions
    } == {"t1"}
