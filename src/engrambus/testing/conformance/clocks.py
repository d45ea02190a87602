"""A machine's clock that is ahead, behind or set right again (decision 91)."""

from __future__ import annotations

from engrambus.core import SECOND_US, parse_time, print_time
from engrambus.core.project_clock import ClockAccepted, ClockCorrected
from engrambus.testing.client import GatewayClient, catch_refusal, expect_refusal
from engrambus.testing.clock import NEW_YEAR
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import Harness

HOUR = 3600
DAY = 86_400


class ClockConformance:
    """Commits under a clock that cannot be believed, on any back end."""  # BX-03

    def test_a_clock_that_jumps_ahead_in_one_boot_is_refused(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        client.put("Alpha stays", ttl="P7D")
        harness.clock.set(NEW_YEAR + 100 * 365 * DAY * SECOND_US)
        refusal = catch_refusal(lambda: client.put("Beta"))
        assert refusal.code == "CLOCK_AHEAD"
        assert parse_time(str(refusal.limit)) == NEW_YEAR + HOUR * SECOND_US
        assert "recover --clock --accept" in str(refusal.hint)
        assert client.query_claims() == ["Alpha stays"]
        assert client.query().as_of == print_time(NEW_YEAR)
        harness.clock.set(NEW_YEAR + SECOND_US)
        client.put("Gamma")
        assert set(client.query_claims()) == {"Alpha stays", "Gamma"}

    def test_an_hour_ahead_in_all_is_allowed_in_one_boot(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        client.put("Alpha")
        harness.clock.advance(seconds=1000)
        harness.clock.set(harness.clock.now() + 50 * 60 * SECOND_US)
        client.put("Beta")
        harness.clock.set(harness.clock.now() + 20 * 60 * SECOND_US)
        with expect_refusal("CLOCK_AHEAD"):
            client.put("Gamma")
        harness.clock.advance(seconds=-10 * 60)
        client.put("Gamma")

    def test_a_machine_that_was_off_may_be_many_days_later(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        client.put("Alpha", ttl="P7D")
        harness.clock.restart()
        harness.clock.set(NEW_YEAR + 399 * DAY * SECOND_US)
        client.put("Beta")
        harness.clock.restart()
        harness.clock.set(harness.clock.now() + 401 * DAY * SECOND_US)
        with expect_refusal("CLOCK_AHEAD"):
            client.put("Gamma")

    def test_a_machine_without_a_battery_clock_may_find_its_time_later(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        client.put("Alpha")
        harness.clock.restart()
        harness.clock.set(0)
        client.put("Beta")
        harness.reopen()
        harness.clock.advance(seconds=30)
        client.put("Gamma")
        harness.clock.set(NEW_YEAR + 300 * DAY * SECOND_US)
        client.put("Delta")
        harness.clock.set(harness.clock.now() + 2 * HOUR * SECOND_US)
        with expect_refusal("CLOCK_AHEAD"):
            client.put("Epsilon")

    def test_a_bound_holds_in_another_process(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        client.put("Alpha")
        harness.reopen()
        harness.delete_index()
        harness.clock.set(NEW_YEAR + 2 * HOUR * SECOND_US)
        with expect_refusal("CLOCK_AHEAD"):
            client.put("Beta")

    def test_nothing_expires_while_the_clock_is_behind(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        lead = client.add_agent("lead", "architect")
        token = client.call("agent_token", name="lead", expires_in="PT2H").token
        client.put("Alpha passes", ttl="PT1H")
        client.put("Beta passed", ttl="PT10S")
        harness.clock.advance(seconds=20)
        client.put("Something at that time")
        harness.clock.advance(seconds=-30 * DAY)
        harness.clock.advance(seconds=5 * DAY)
        client.put("Later, by a clock that is behind", ttl="PT1H")
        harness.reopen()
        harness.clock.advance(seconds=5 * DAY)
        expected = {"Alpha passes", "Something at that time", "Later, by a clock that is behind"}
        assert set(client.query_claims()) == expected
        client.call("query_engrams", type(lead)(token=token))
        harness.clock.advance(seconds=60 * DAY)
        assert "Alpha passes" not in client.query_claims()
        with expect_refusal("TOKEN_EXPIRED"):
            client.call("query_engrams", type(lead)(token=token))

    def test_an_expired_token_does_not_live_again_when_the_clock_is_set_back(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        lead = client.add_agent("lead", "architect")
        short = type(lead)(token=client.call("agent_token", name="lead", expires_in="PT30S").token)
        harness.clock.advance(seconds=31)
        with expect_refusal("TOKEN_EXPIRED"):
            client.call("query_engrams", short)
        lines = harness.gateway.store.last_line()
        with expect_refusal("TOKEN_EXPIRED"):
            client.call("query_engrams", short)
        assert harness.gateway.store.last_line() == lines
        harness.clock.advance(seconds=-20)
        for _ in range(2):
            with expect_refusal("TOKEN_EXPIRED"):
                client.call("query_engrams", short)
            harness.reopen()

    def test_an_expired_grant_does_not_live_again_when_the_clock_is_set_back(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        lead = client.add_agent("lead", "architect")
        kid = client.add_agent("kid", "programmer", lead)
        pointer = {"type": "repo", "ref": repo_ref("a.py")}
        grant = client.call(
            "issue_grant", lead, child_id="kid", pointer=pointer, cap_tokens=100, uses=5, expires_in="PT30S"
        )
        read = {"pointer": pointer, "budget_token": grant.budget_token, "max_tokens": 50}
        harness.clock.advance(seconds=31)
        with expect_refusal("GRANT_EXPIRED"):
            client.call("deref_pointer", kid, **read)
        harness.clock.advance(seconds=-20)
        harness.reopen()
        with expect_refusal("GRANT_EXPIRED"):
            client.call("deref_pointer", kid, **read)

    def test_a_person_accepts_a_clock_that_is_far_ahead(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        client.put("Alpha", ttl="P7D")
        client.put("Beta", ttl="P180D")
        harness.clock.set(NEW_YEAR + 30 * DAY * SECOND_US)
        state = harness.gateway.store.clock_state()
        assert (state.is_ahead, state.is_behind, state.last_us) == (True, False, NEW_YEAR)
        harness.gateway.store.set_time(ClockAccepted(was_us=state.last_us))
        assert not harness.gateway.store.clock_state().is_ahead
        client.put("Gamma")
        assert set(client.query_claims()) == {"Beta", "Gamma"}
        harness.clock.set(harness.clock.now() + 2 * HOUR * SECOND_US)
        with expect_refusal("CLOCK_AHEAD"):
            client.put("Delta")
        assert harness.gateway.store.verify() == []

    def test_what_only_a_wrong_clock_had_ended_comes_back(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        lead = client.add_agent("lead", "architect")
        client.put_many([f"The common matter {number}" for number in range(300)], ttl="P7D")
        client.put("Alpha passes", ttl="PT1H")
        harness.clock.restart()
        harness.clock.set(NEW_YEAR + 300 * DAY * SECOND_US)
        client.put("Put by a wrong clock", ttl="P1D")
        assert client.query_claims("common") == []
        harness.clock.set(NEW_YEAR + 2 * HOUR * SECOND_US)
        state = harness.gateway.store.clock_state()
        assert (state.is_ahead, state.is_behind) == (False, True)
        harness.gateway.store.set_time(ClockCorrected(was_us=state.last_us))
        assert len(client.query_claims("common", k=50)) == 50
        assert client.query_claims("alpha") == []
        assert client.query_claims("wrong clock") == ["Put by a wrong clock"]
        with expect_refusal("TOKEN_REVOKED"):
            client.call("query_engrams", lead)
        assert harness.gateway.store.verify() == []
        harness.reopen()
        fresh = type(lead)(token=client.call("agent_token", name="lead").token)
        client.call("query_engrams", fresh)
        harness.clock.advance(seconds=DAY)
        assert client.query_claims("wrong clock") == []
        assert len(client.query_claims("common", k=50)) == 50
        harness.clock.advance(seconds=7 * DAY)
        assert client.query_claims("common") == []
        assert harness.gateway.store.verify() == []

    def test_agents_are_not_held_up_after_a_correction(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        lead = client.add_agent("lead", "architect")
        client.put("Alpha")
        harness.clock.restart()
        harness.clock.set(NEW_YEAR + 300 * DAY * SECOND_US)
        fresh = type(lead)(token=client.call("agent_token", name="lead").token)
        for number in range(60):  # as many as an agent may put in a minute
            client.put(f"Claim number {number}", fresh)
        harness.clock.set(NEW_YEAR + HOUR * SECOND_US)
        harness.gateway.store.set_time(ClockCorrected(was_us=NEW_YEAR + 300 * DAY * SECOND_US))
        later = type(lead)(token=client.call("agent_token", name="lead").token)
        client.put("One more at the right time", later)
