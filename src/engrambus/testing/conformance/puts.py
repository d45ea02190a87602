"""Limits of putting engrams: tokens of a turn, rates, and the confidence that a scope needs."""  # EB-20, EB-21

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.core import estimate_tokens
from engrambus.errors import EngramBusError
from engrambus.gateway import Credential, to_request
from engrambus.operations import OPERATIONS
from engrambus.testing.client import NOTE, GatewayClient, catch_refusal, expect_refusal, same_changes
from engrambus.testing.conformance.messages import Team, draft
from engrambus.testing.harness import Harness

CLAIM = "The {} gateway keeps every lease until its ledger has been written, synced and read back by the other side."
COST = estimate_tokens(CLAIM.format(1000))
"""Tokens of each of `CLAIMS`."""
CLAIMS = [text for text in (CLAIM.format(number) for number in range(1000, 1400)) if estimate_tokens(text) == COST]


def claim(number: int) -> str:
    """Return one of many claims of the same size."""
    return CLAIMS[number]


def warnings_of(
    harness: Harness, operation: str, caller: Credential, /, **fields: Any
) -> tuple[Any, list[EngramBusError]]:
    """Return an answer and its warnings."""
    warnings: list[EngramBusError] = []
    declared = OPERATIONS[operation]
    request = to_request(fields, declared.request)
    return harness.gateway.call(declared, request, caller, warnings.append), warnings


class PutConformance:
    """Tokens, rates and the promotion floor of puts."""

    # decision 45: what an agent puts in a turn is limited like what it reads
    def test_an_agent_puts_a_limited_number_of_tokens_in_a_turn(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("apply_policy", policy={"put_tokens_per_turn": 3 * COST})
        for number in range(3):
            team.client.put(claim(number), team.paul)
        journal = harness.journal_bytes()
        refusal = catch_refusal(lambda: team.client.put(claim(3), team.paul))
        assert (refusal.code, refusal.status, refusal.field) == ("BUDGET_EXCEEDED", 413, "turn.put_tokens")
        assert (refusal.limit, refusal.used) == (3 * COST, 4 * COST)
        assert "less.message" in str(refusal.hint)
        assert same_changes(harness.journal_bytes(), journal)
        team.client.put(claim(3), team.pia)
        team.client.put_many([claim(number) for number in range(10, 30)])  # a person has no turn
        harness.reopen()
        harness.delete_index()
        with expect_refusal("BUDGET_EXCEEDED", "turn.put_tokens"):
            team.client.put(claim(3), team.paul, scope="run")
        team.client.report(team.paul)
        team.client.put(claim(3), team.paul, scope="run")
        (paul,) = (row for row in team.client.call("stats").agents if row.agent_id == "paul")
        assert (paul.turn.put_tokens, paul.limits.put_tokens) == (COST, 3 * COST)

    def test_a_turn_with_puts_ends_at_a_boundary_and_when_idle(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("apply_policy", policy={"put_tokens_per_turn": COST})
        team.client.put(claim(0), team.paul)
        assert team.client.call("close_turn", name="paul").turn == 2
        team.client.put(claim(1), team.paul)
        harness.clock.advance(seconds=600)
        with expect_refusal("BUDGET_EXCEEDED"):
            team.client.put(claim(2), team.paul)
        harness.clock.advance(seconds=1)
        team.client.put(claim(2), team.paul)

    def test_a_bulk_counts_all_its_tokens_or_none(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("apply_policy", policy={"put_tokens_per_turn": 3 * COST})
        refusal = catch_refusal(lambda: team.client.put_many([claim(number) for number in range(4)], team.paul))
        assert "never fits" in str(refusal.hint)
        team.client.put_many([claim(number) for number in range(3)], team.paul)
        with expect_refusal("BUDGET_EXCEEDED"):
            team.client.put(claim(5), team.paul)

    def test_a_repeated_claim_costs_no_tokens(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("apply_policy", policy={"put_tokens_per_turn": COST})
        for _ in range(3):
            team.client.put(claim(0), team.paul, refs=[NOTE])
        with expect_refusal("BUDGET_EXCEEDED"):
            team.client.put(claim(1), team.paul)

    def test_tags_and_keys_count_and_engrams_in_a_message_do_not(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("apply_policy", policy={"put_tokens_per_turn": COST})
        with expect_refusal("BUDGET_EXCEEDED"):
            team.client.put(claim(0), team.paul, tags=["a-tag-of-some-length"])
        with expect_refusal("BUDGET_EXCEEDED"):
            team.client.put(claim(0), team.paul, hash_keys=["a-key-of-some-length"])
        many = [draft(claim(number), f"sam:note:n{number}@v1") for number in range(5)]
        assert len(team.client.report(team.paul, engrams=many).engrams) == 5
        team.client.put(claim(9), team.paul)

    def test_a_speaker_pays_for_what_it_puts_under_other_names(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("apply_policy", policy={"put_tokens_per_turn": 2 * COST})
        for number, name in enumerate(("paul", "pia")):
            team.client.put(claim(number), msgspec.structs.replace(team.mia, speak_as=name))
        with expect_refusal("BUDGET_EXCEEDED", "turn.put_tokens"):
            team.client.put(claim(2), msgspec.structs.replace(team.mia, speak_as="pia"))
        harness.delete_index()
        with expect_refusal("BUDGET_EXCEEDED", "turn.put_tokens"):
            team.client.put(claim(2), team.mia)
        team.client.put(claim(2), team.pia)

    def test_the_window_of_a_rate_slides(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        ada = client.add_agent("ada")
        client.call("apply_policy", policy={"engrams_per_minute": 4})
        harness.clock.advance(seconds=59)
        client.put_many([claim(0), claim(1)], ada)
        harness.clock.advance(seconds=2)  # another minute of the clock
        client.put_many([claim(2), claim(3)], ada)
        for wait in (58, 57):
            refusal = catch_refusal(lambda: client.put(claim(4), ada))
            assert (refusal.code, refusal.field, refusal.used) == ("RATE_LIMITED", "engrams_per_minute", 4)
            assert refusal.hint == f"Try again in {wait} s."
            harness.reopen()
            harness.clock.advance(seconds=1)
        harness.clock.advance(seconds=56)
        client.put_many([claim(4), claim(5)], ada)
        with expect_refusal("RATE_LIMITED"):
            client.put(claim(6), ada)
        harness.clock.advance(seconds=2)
        client.put_many([claim(6), claim(7)], ada)

    def test_spawning_gains_no_rate(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("apply_policy", policy={"engrams_per_minute": 2, "lineage_engrams_per_minute": 5})
        team.client.put_many([claim(0), claim(1)], team.paul)
        team.client.put_many([claim(2), claim(3)], team.pia)
        harness.delete_index()
        refusal = catch_refusal(lambda: team.client.put_many([claim(4), claim(5)], team.mia))
        assert (refusal.field, refusal.limit, refusal.used) == ("lineage_engrams_per_minute", 5, 4)
        team.client.put(claim(4), team.mia)
        rex = team.client.add_agent("rex", "manager")
        team.client.put_many([claim(6), claim(7)], rex)  # a lineage of its own
        with expect_refusal("RATE_LIMITED", "lineage_engrams_per_minute"):
            team.client.put(claim(8), team.client.add_agent("kid", "programmer", team.mia))

    def test_limits_of_puts_that_are_not_enforced_are_counted(self, harness: Harness) -> None:
        team = Team(harness)
        policy = {"put_tokens_per_turn": COST, "engrams_per_minute": 1}
        relaxed = {"put_tokens": "warn", "put_rate": {"programmer": "warn"}}
        team.client.call("apply_policy", policy={**policy, "limits": relaxed})
        team.client.put(claim(0), team.paul)
        pointers = [{"type": "sam", "ref": NOTE}]
        _, warnings = warnings_of(harness, "put_engram", team.paul, claim=claim(1), pointers=pointers)
        assert [warning.code for warning in warnings] == ["RATE_LIMITED", "BUDGET_EXCEEDED"]
        team.client.call("apply_policy", policy={**policy, "limits": {"put_rate": "off"}})
        refusal = catch_refusal(lambda: team.client.put(claim(2), team.paul))
        assert (refusal.field, refusal.used) == ("turn.put_tokens", 3 * COST)

    # EB-20: what is not sure enough for the project stays in the run
    def test_a_put_below_the_promotion_floor_is_stored_at_run(self, harness: Harness) -> None:
        team = Team(harness)
        person = Credential(local_admin=True, run=team.client.call("list_agents").run_id)
        team.client.open_run()
        eve = team.client.add_agent("eve", "programmer")  # of the other run
        weak = {"claim": claim(0), "pointers": [{"type": "sam", "ref": NOTE}], "confidence": 0.3, "scope": "project"}
        for caller in (team.paul, person):
            engram, (notice, *_) = warnings_of(harness, "put_engram", caller, **weak)
            assert engram.scope == "run"
            assert (notice.code, notice.field, notice.limit, notice.used) == (
                "SCOPE_LOWERED",
                "confidence",
                0.5,
                0.3,
            )
            assert "stored at 'run'" in notice.detail
        assert team.client.query_claims("gateway lease", team.pia) == [claim(0)]
        assert team.client.query_claims("gateway lease", eve) == []
        weak_and_sure = [weak, {**weak, "claim": claim(1), "confidence": 0.5}]
        answer, (notice, *_) = warnings_of(harness, "put_engrams", team.pia, engrams=weak_and_sure)
        assert notice.field == "engrams[0].confidence"
        scopes = [team.client.call("get_engram", team.pia, id=engram_id).scope for engram_id in answer.ids]
        assert scopes == ["run", "project"]
        harness.delete_index()
        assert team.client.query_claims("gateway lease", eve) == [claim(1)]

    def test_the_floor_holds_in_messages_and_can_be_relaxed(self, harness: Harness) -> None:
        team = Team(harness)
        answer = team.client.report(team.paul, engrams=[draft(claim(0), confidence=0.2, scope="project")])
        assert team.client.call("get_engram", team.mia, id=answer.engrams[0]).scope == "run"
        team.client.call("apply_policy", policy={"limits": {"promotion_floor": {"programmer": "warn"}}})
        weak = {"claim": claim(1), "pointers": [{"type": "sam", "ref": NOTE}], "confidence": 0.2}
        engram, (warning,) = warnings_of(harness, "put_engram", team.paul, **weak)
        assert (engram.scope, warning.code) == ("project", "SCOPE_FORBIDDEN")
        engram, (notice,) = warnings_of(harness, "put_engram", team.mia, **{**weak, "claim": claim(2)})
        assert (engram.scope, notice.code) == ("run", "SCOPE_LOWERED")
