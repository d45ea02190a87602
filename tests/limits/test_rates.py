"""However puts are spread over time and agents, no sixty seconds hold more than a rate allows."""  # EB-21

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engrambus.core import SECOND_US
from engrambus.errors import RateLimited
from engrambus.testing import Harness, ManualClock
from engrambus.testing.client import GatewayClient
from tests.harness.stores import MemoryHarness, SqliteHarness

PER_AGENT, PER_LINEAGE = 4, 6
WINDOW_US = 60 * SECOND_US
TEAM = {"lead": "architect", "mia": "manager", "paul": "programmer"}

steps = st.lists(
    st.tuples(
        st.sampled_from((0, 1, 300_000, 999_999, 7 * SECOND_US, 29 * SECOND_US, 60 * SECOND_US)),
        st.sampled_from(tuple(TEAM)),
        st.integers(1, 5),
        st.booleans(),
    ),
    max_size=40,
)


@pytest.fixture(params=["memory", "sqlite"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    clock = ManualClock()
    harness: Harness = MemoryHarness(clock) if request.param == "memory" else SqliteHarness(tmp_path / "catalog", clock)
    yield harness
    harness.close()


class Team:
    """A lead, its child and its grandchild, of a run of their own."""

    def __init__(self, harness: Harness) -> None:
        self.client = GatewayClient(harness)
        self.client.call("apply_policy", policy={
            "engrams_per_minute": PER_AGENT, "lineage_engrams_per_minute": PER_LINEAGE,
        })  # fmt: skip
        self.client.open_run()
        self.members = {}
        parent: dict[str, str] = {}
        for name, role in TEAM.items():
            self.members[name] = self.client.add_agent(name, role, **parent)
            parent = {"parent": name}

    def put(self, name: str, number: int, count: int) -> RateLimited | None:
        """Put engrams that no other step puts; return the refusal."""
        claims = [f"Part {number}.{part} of it." for part in range(count)]
        try:
            self.client.put_many(claims, self.members[name], scope="run")
        except RateLimited as refusal:
            return refusal
        return None


def most_in_a_window(times_us: list[int]) -> int:
    """Return the largest number of these moments that lie within sixty seconds."""
    return max((sum(start <= time < start + WINDOW_US for time in times_us) for start in times_us), default=0)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_no_sixty_seconds_hold_more_than_the_rates_allow(
    harness: Harness, steps: list[tuple[int, str, int, bool]]
) -> None:
    team = Team(harness)
    accepted: dict[str, list[int]] = {name: [] for name in TEAM}
    for number, (pause_us, name, count, reopens) in enumerate(steps):
        harness.clock.advance(microseconds=pause_us)
        if reopens:
            harness.reopen()
        now_us = harness.clock.now()
        refusal = team.put(name, number, count)
        if refusal is None:
            accepted[name] += [now_us] * count
        everyone = [time for times in accepted.values() for time in times]
        if refusal is not None:
            of_agent = refusal.field == "engrams_per_minute"
            # A second is held until its last put leaves the window, so up to a second more than sixty may count.
            since_us = now_us - WINDOW_US - SECOND_US
            recent = sum(time > since_us for time in (accepted[name] if of_agent else everyone))
            assert recent + count > (PER_AGENT if of_agent else PER_LINEAGE), "it was refused without need"
        assert most_in_a_window(accepted[name]) <= PER_AGENT
        assert most_in_a_window(everyone) <= PER_LINEAGE
    assert harness.gateway.store.verify() == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_after_the_time_in_the_hint_the_puts_fit(harness: Harness, steps: list[tuple[int, str, int, bool]]) -> None:
    team = Team(harness)
    for number, (pause_us, name, count, _) in enumerate(steps):
        harness.clock.advance(microseconds=pause_us)
        refusal = team.put(name, number, min(count, PER_AGENT))
        if refusal is not None:
            harness.clock.advance(seconds=int(str(refusal.hint).split()[3]))
            again = team.put(name, number, min(count, PER_AGENT))
            assert again is None or again.field != refusal.field, "the other rate may need longer"
