"""The value of an engram: others who used it, confirmed it or had work accepted that rests on it."""  # EB-28

from __future__ import annotations

from engrambus.gateway import Credential
from engrambus.policy import PROJECT_SPACE
from engrambus.testing.client import GatewayClient
from engrambus.testing.conformance.adoption import FOREIGN_ID, Adopting, foreign_engram
from engrambus.testing.conformance.captures import Capturing
from engrambus.testing.harness import Harness


def value(harness: Harness, engram_id: str, *spaces: str) -> int:
    """Return the value of an engram, found in the project's space or in others."""
    with harness.gateway.store.read() as view:
        stored = view.find(spaces or (PROJECT_SPACE,), engram_id)
        assert stored is not None
        values = view.values([stored.ordinal])
    assert list(values) == [stored.ordinal]
    return values[stored.ordinal]


class EngramValueConformance:
    """What counts for the value of an engram, and what does not."""

    def test_an_engram_that_nobody_used_has_no_value(self, harness: Harness) -> None:  # EB-28
        client = GatewayClient(harness)
        engram = client.put("The ledger loses a lease")
        assert value(harness, engram.id) == 0
        with harness.gateway.store.read() as view:
            assert view.values([]) == {}
            assert view.values([1_000_000]) == {1_000_000: 0}

    def test_each_other_root_counts_once(self, harness: Harness) -> None:  # EB-28
        client = GatewayClient(harness)
        mia, rex = client.add_agent("mia", "manager"), client.add_agent("rex", "manager")
        kids = [client.add_agent(name, "programmer", mia) for name in ("paul", "pia", "pat")]
        engram = client.put("The ledger loses a lease", rex)
        for number, kid in enumerate((*kids, mia, mia)):
            client.put(f"We keep ledger {number}.", kid, kind="decision", used=[engram.id])
        assert value(harness, engram.id) == 1
        client.put("We keep the other ledger.", kind="decision", used=[engram.id])
        assert value(harness, engram.id) == 2

    def test_an_author_and_its_descendants_add_nothing(self, harness: Harness) -> None:  # EB-28
        client = GatewayClient(harness)
        mia = client.add_agent("mia", "manager")
        kid = client.add_agent("kid", "programmer", mia)
        engram = client.put("The ledger loses a lease", kid)
        for number, agent in enumerate((kid, mia)):
            client.put(f"We keep ledger {number}.", agent, kind="decision", used=[engram.id])
            client.call("confirm_engram", agent, id=engram.id)
        made = client.call("contribute", kid, content="Leases want a second look.", used=[engram.id])
        client.call("accept_contribution", mia, id=made.contribution_id)
        assert value(harness, engram.id) == 0

    def test_the_admin_is_one_person_in_all_runs(self, harness: Harness) -> None:  # EB-28
        client = GatewayClient(harness)
        own = client.put("The ledger loses a lease")
        for run in range(3):
            client.open_run(f"run {run}")
            client.put(f"We keep ledger {run}.", kind="decision", used=[own.id])
            client.call("confirm_engram", id=own.id)
        assert value(harness, own.id) == 0

    def test_confirmations_weigh_more_than_uses_and_accepted_work_most(self, harness: Harness) -> None:  # EB-28
        client = GatewayClient(harness)
        mia, rex = client.add_agent("mia", "manager"), client.add_agent("rex", "manager")
        kid = client.add_agent("kid", "programmer", mia)
        used, confirmed, accepted, rejected = (
            client.put(claim, rex)
            for claim in ("The ledger loses a lease", "Retries are idempotent", "The page is slow", "Tokens expire")
        )
        client.put("We keep the ledger.", kid, kind="decision", used=[used.id])
        client.call("confirm_engram", kid, id=confirmed.id)
        for engram, verdict in ((accepted, "accept_contribution"), (rejected, "reject_contribution")):
            made = client.call("contribute", kid, content=f"Seen again: {engram.claim}.", used=[engram.id])
            assert value(harness, engram.id) == 0
            reason = {"reason": "No."} if verdict.startswith("reject") else {}
            client.call(verdict, mia, id=made.contribution_id, **reason)
        values = [value(harness, engram.id) for engram in (used, confirmed, accepted, rejected)]
        assert values == [1, 2, 3, 0]
        harness.delete_index()
        harness.reopen()
        assert [value(harness, engram.id) for engram in (used, confirmed, accepted, rejected)] == values

    def test_later_runs_add_to_an_engram_of_the_project(self, harness: Harness) -> None:  # EB-28
        client = GatewayClient(harness)
        ada = client.add_agent("ada", "architect")
        engram = client.put("The ledger loses a lease", ada)
        seen = []
        for run in range(4):
            client.open_run(f"run {run}")
            again = client.add_agent("ada", "architect")  # the same name in another run is another agent
            client.put(f"We keep ledger {run}.", again, kind="decision", used=[engram.id])
            seen.append(value(harness, engram.id))
        assert seen == [1, 2, 2, 3]

    def test_what_a_run_keeps_to_itself_changes_nothing_for_other_runs(self, harness: Harness) -> None:  # EB-28
        client = GatewayClient(harness)
        engram = client.put("The ledger loses a lease")
        client.open_run("another")
        eve = client.add_agent("eve", "architect")
        client.put("Only here", eve, scope="run", used=[engram.id])
        client.report(eve, role="architect", used=[engram.id])
        client.call("contribute", eve, content="Leases want a second look.", used=[engram.id])
        assert value(harness, engram.id) == 0

    def test_inside_a_run_all_that_happens_there_counts(self, harness: Harness) -> None:  # EB-28
        client = GatewayClient(harness)
        engram = client.put("The ledger loses a lease", scope="run")
        eve, rex = client.add_agent("eve", "architect"), client.add_agent("rex", "architect")
        client.report(eve, role="architect", used=[engram.id])
        assert value(harness, engram.id, "r1") == 1
        client.put("Only here", rex, scope="run", used=[engram.id])
        assert value(harness, engram.id, "r1") == 2

    def test_a_use_ends_with_the_engram_that_made_it(self, harness: Harness) -> None:  # EB-28
        client = GatewayClient(harness)
        eve = client.add_agent("eve", "architect")
        engram = client.put("The ledger loses a lease")
        short = client.put("We keep the ledger.", eve, kind="decision", used=[engram.id], ttl="PT1H")
        assert value(harness, engram.id) == 1
        harness.clock.advance(seconds=3601)
        assert value(harness, engram.id) == 0
        assert short.id != engram.id

    def test_untrusted_and_unconfirmed_engrams_have_no_value(self, harness: Harness) -> None:  # EB-28
        project = Adopting(harness)
        project.adopt(foreign_engram())
        eve = _add(project.client, "eve")
        project.client.put("We keep the ledger.", eve, kind="decision", used=[FOREIGN_ID])
        assert value(harness, FOREIGN_ID, "u") == 0
        project.client.call("confirm_engram", id=FOREIGN_ID)
        assert value(harness, FOREIGN_ID) > 0

    def test_a_claim_from_prose_gets_its_value_with_its_confirmation(self, harness: Harness) -> None:  # EB-28
        team = Capturing(harness)
        engram_id = team.captured()
        eve = _add(team.client, "eve")
        team.client.put("We keep the lease.", eve, kind="decision", used=[engram_id])
        assert value(harness, engram_id, "cp", "cr1") == 0
        team.client.call("confirm_engram", team.mia, id=engram_id)
        assert value(harness, engram_id, "p", "r1") == 1


def _add(client: GatewayClient, name: str) -> Credential:
    return client.add_agent(name, "architect")
