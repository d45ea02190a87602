"""The work store on PostgreSQL and the one in memory, driven side by side. # YT-05 # YT-16 # YT-19"""

from __future__ import annotations

import os

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from engrambus.space.tuples import SpaceSettings
from engrambus.testing import ManualClock
from engrambus.testing.work import WorkHarness
from tests.harness.postgres_work import PostgresWorkHarness, TwoHostsHarness
from tests.harness.stores import MemoryWorkHarness
from tests.machines.batch_agreement import SETTINGS, BatchAgreement, manual_clocks
from tests.machines.full_work_agreement import FullWorkAgreement

EXAMPLES = int(os.environ.get("ENGRAMBUS_MACHINE_EXAMPLES", "12"))
STEPS = int(os.environ.get("ENGRAMBUS_MACHINE_STEPS", "40"))


def run(machine: type[RuleBasedStateMachine], *, examples: int, steps: int) -> None:
    """Run a machine as a test."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize="ENGRAMBUS_MACHINE_EXAMPLES" not in os.environ,
            phases=[Phase.explicit, Phase.generate],
        ),
    )


@pytest.mark.parametrize("kind", [PostgresWorkHarness, TwoHostsHarness])
def test_it_agrees_with_the_reference(postgres_url: str, kind: type[PostgresWorkHarness]) -> None:
    """All rules of work, with indexed fields: on one host, and on two that take turns."""

    class PostgresWorkAgreement(FullWorkAgreement):
        @staticmethod
        def make_candidate(clock: ManualClock, space_settings: SpaceSettings) -> WorkHarness:
            indexed = msgspec.structs.replace(space_settings, indexed_fields=("map_pos.n", "map_pos.stack"))
            return kind(postgres_url, clock, indexed)

    run(PostgresWorkAgreement, examples=EXAMPLES, steps=STEPS)


def test_batches_are_folded_as_in_memory(postgres_url: str) -> None:
    """Batches of which much is folded, on two hosts."""

    class PostgresLikeMemory(BatchAgreement):
        def make_spaces(self) -> list[WorkHarness]:
            first, second = manual_clocks(2)
            return [MemoryWorkHarness(first, SETTINGS), TwoHostsHarness(postgres_url, second, SETTINGS)]

    run(PostgresLikeMemory, examples=EXAMPLES, steps=min(STEPS, 30))
