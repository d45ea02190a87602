"""What is learned from a repository: marked, put once, withdrawn with its source, and last in briefs and ties."""

from __future__ import annotations

from typing import Any

from engrambus.operations.learn import LearnAnswer
from engrambus.testing.client import GatewayClient, expect_refusal
from engrambus.testing.harness import Harness

COMMIT = "a" * 40
LATER = "b" * 40
DAY_SECONDS = 86_400


def claim(number: int, text: str = "", **fields: Any) -> dict[str, Any]:
    """Return a claim of a repository."""
    words = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot")[number % 6]
    return {
        "key": f"key-{number}",
        "source": "contributing",
        "kind": "policy",
        "claim": text or f"Changes to the {words} ledger need a second reviewer.",
        "ref": f"sam:note:page{number}@2026-01-01",
        **fields,
    }


class Learning:
    """A project that learns."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.client = GatewayClient(harness)

    def learn(self, *claims: dict[str, Any], commit: str = COMMIT) -> LearnAnswer:
        """Learn exactly these claims."""
        answer: LearnAnswer = self.client.call("learn_repository", commit=commit, claims=list(claims))
        return answer

    def live(self) -> set[str]:
        """Return the keys of what is learned and live."""
        return set(self.client.call("read_learned").keys)


class LearningConformance:
    """Both back ends keep what was learned, and the commit it was learned from."""

    # BX-09
    def test_what_is_learned_is_marked_and_has_its_own_author(self, harness: Harness) -> None:
        learning = Learning(harness)
        (engram_id,) = learning.learn(claim(1, since_s=1_735_000_000)).outcome.put
        answer = learning.client.query("second reviewer")
        (engram,) = answer.engrams
        assert engram.id == engram_id
        assert engram.provenance.source == "tool"
        assert engram.provenance.created_by.rpartition("/")[2] == "learn"
        assert (engram.kind, engram.scope, engram.ttl) == ("policy", "project", "P180D")
        about = answer.about[engram_id].learned
        assert about is not None
        assert (about.source, about.commit, about.since) == ("contributing", COMMIT, "2024-12-24")
        assert about.age_days is not None
        assert about.age_days > 300
        stated = learning.client.put("The ledger is audited by a second reviewer.")
        assert learning.client.query("second reviewer").about[stated.id].learned is None

    def test_a_second_run_adds_nothing(self, harness: Harness) -> None:
        learning = Learning(harness)
        learning.learn(claim(1), claim(2))
        journal = harness.journal_bytes()
        outcome = learning.learn(claim(1), claim(2)).outcome
        assert (outcome.put, outcome.kept, outcome.withdrawn) == ([], 2, 0)
        assert harness.journal_bytes() == journal

    def test_what_the_repository_no_longer_says_is_withdrawn(self, harness: Harness) -> None:
        learning = Learning(harness)
        learning.learn(claim(1), claim(2), claim(3))
        outcome = learning.learn(claim(2), claim(4), commit=LATER).outcome
        assert (len(outcome.put), outcome.kept, outcome.withdrawn) == (1, 1, 2)
        assert learning.live() == {"key-2", "key-4"}
        assert learning.client.call("read_learned").commit == LATER

    def test_what_a_person_pinned_or_confirmed_stays(self, harness: Harness) -> None:
        learning = Learning(harness)
        pinned, confirmed, neither = learning.learn(claim(1), claim(2), claim(3)).outcome.put
        learning.client.call("pin_engram", id=pinned)
        learning.client.call("confirm_engram", id=confirmed)
        assert learning.learn(commit=LATER).outcome.withdrawn == 1
        assert learning.live() == {"key-1", "key-2"}
        with expect_refusal("ENGRAM_NOT_FOUND"):
            learning.client.call("show_engram", id=neither)

    def test_what_a_person_forgot_is_not_learned_again(self, harness: Harness) -> None:
        learning = Learning(harness)
        (engram_id,) = learning.learn(claim(1)).outcome.put
        learning.client.call("forget_engram", id=engram_id)
        outcome = learning.learn(claim(1), claim(2)).outcome
        assert (outcome.unwanted, len(outcome.put)) == (1, 1)
        assert learning.live() == {"key-2"}
        # What learning itself withdrew may come back.
        learning.learn(commit=LATER)
        assert len(learning.learn(claim(2)).outcome.put) == 1

    def test_it_is_renewed_when_half_of_its_ttl_is_over(self, harness: Harness) -> None:
        learning = Learning(harness)
        learning.learn(claim(1))
        harness.clock.advance(seconds=80 * DAY_SECONDS)
        assert learning.learn(claim(1)).outcome.renewed == 0
        harness.clock.advance(seconds=20 * DAY_SECONDS)
        assert learning.learn(claim(1)).outcome.renewed == 1
        harness.clock.advance(seconds=150 * DAY_SECONDS)
        assert learning.live() == {"key-1"}
        harness.clock.advance(seconds=40 * DAY_SECONDS)
        assert learning.live() == set()

    def test_a_quotation_is_no_vote_for_what_somebody_said(self, harness: Harness) -> None:
        learning = Learning(harness)
        stated = learning.client.put(
            "Changes to the bravo ledger need a second reviewer.", refs=["sam:note:page1@2026-01-01"], kind="policy"
        )
        journal = harness.journal_bytes()
        outcome = learning.learn(claim(1)).outcome
        assert (outcome.put, outcome.repeated) == ([], 1)
        assert b"engram.confirmed" not in harness.journal_bytes()[len(journal) :]
        assert [engram.id for engram in learning.client.query("second reviewer").engrams] == [stated.id]

    def test_it_loses_ties_against_what_was_said(self, harness: Harness) -> None:
        learning = Learning(harness)
        stated = learning.client.put("Lease renewal stops at midnight.")
        harness.clock.advance(seconds=60)
        learning.learn(claim(1, "Lease renewal stops at midnight."))
        engrams = learning.client.query("lease renewal midnight").engrams
        assert engrams[0].id == stated.id
        assert len(engrams) == 2

    def test_a_brief_shows_it_after_everything_that_was_said(self, harness: Harness) -> None:
        learning = Learning(harness)
        for number in range(45):  # more than a brief reads of one kind
            learning.client.put(f"Fact number {number} about the ledger.", kind="fact")
        harness.clock.advance(seconds=60)
        many = [claim(n, f"Rule {n} of the house.", ref=f"sam:note:p{n}@2026-01-01", kind="fact") for n in range(60)]
        learning.learn(*many)
        lines: list[str] = learning.client.call("brief").lines
        learned = [position for position, line in enumerate(lines) if "[learned fact]" in line]
        stated = [position for position, line in enumerate(lines) if "[fact]" in line]
        assert learned
        assert stated
        assert max(stated) < min(learned)
        assert "[learned fact] Rule 0 of the house." in lines[learned[0]]

    def test_it_counts_for_no_agent(self, harness: Harness) -> None:
        learning = Learning(harness)
        learning.learn(claim(1), claim(2))
        with harness.gateway.store.read() as view:
            assert not any(tally.engrams or tally.pointed_tokens for tally in view.tallies(None).values())

    def test_only_an_admin_learns_and_no_agent_is_called_learn(self, harness: Harness) -> None:
        learning = Learning(harness)
        coder = learning.client.add_agent("coder")
        with expect_refusal("ROLE_FORBIDDEN"):
            learning.client.call("learn_repository", coder, commit=COMMIT, claims=[claim(1)])
        with expect_refusal("FIELD_VALUE", "name"):
            learning.client.add_agent("learn")

    def test_a_claim_that_breaks_a_rule_is_left_out_and_counted(self, harness: Harness) -> None:
        learning = Learning(harness)
        token = "ghp_" + "a8Kd93mXq0Zr5TvB1nYw7LcE2sJfH6uPiG4o"
        bad = [
            claim(1, f"The deploy token is {token}."),
            claim(2, "Hidden\u200b\u200btext stands here in the claim."),
            claim(3, "A claim. Of four. Short. Sentences."),
            claim(4, ref="repo:nowhere"),
            claim(5, "for (int i = 0; i < n; i++) { total += a[i]; }"),
        ]
        answer = learning.learn(*bad, claim(6))
        assert len(answer.outcome.put) == 1
        assert sum(answer.skipped.values()) == len(bad)

    def test_a_rebuilt_store_knows_the_same(self, harness: Harness) -> None:
        learning = Learning(harness)
        first, _ = learning.learn(claim(1), claim(2)).outcome.put
        learning.client.call("forget_engram", id=first)
        harness.clock.advance(seconds=100 * DAY_SECONDS)
        learning.learn(claim(1), claim(2), commit=LATER)
        state = (learning.live(), learning.client.try_call("read_learned"))
        harness.reopen()
        assert (learning.live(), learning.client.try_call("read_learned")) == state
