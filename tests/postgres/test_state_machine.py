"""The memory and PostgreSQL stores driven side by side by a state machine. # YT-19 # EB-13 # BX-03"""

from __future__ import annotations

import os
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from engrambus.backends.sql.knowledge import postings
from engrambus.testing import Harness, ManualClock
from tests.harness.postgres_stores import PostgresHarness
from tests.machines.store_agreement import StoreAgreement

SETTINGS = settings(
    max_examples=int(os.environ.get("ENGRAMBUS_MACHINE_EXAMPLES", "10")),
    stateful_step_count=int(os.environ.get("ENGRAMBUS_MACHINE_STEPS", "40")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize="ENGRAMBUS_MACHINE_EXAMPLES" not in os.environ,
)


class PostgresStoreAgreement(StoreAgreement):
    """PostgreSQL next to the reference."""

    url: ClassVar[str]

    @staticmethod
    def make_candidate(clock: ManualClock) -> Harness:
        """Create a project in the tests' database."""
        return PostgresHarness(PostgresStoreAgreement.url, clock)


@pytest.fixture
def machine(postgres_url: str) -> type[StoreAgreement]:
    """The machine, told where the tests' database is."""
    PostgresStoreAgreement.url = postgres_url
    return PostgresStoreAgreement


def test_both_give_the_same_answers(machine: type[StoreAgreement]) -> None:
    run_state_machine_as_test(machine, settings=SETTINGS)


def test_both_give_the_same_answers_when_posting_lists_move_into_blocks_early(
    machine: type[StoreAgreement], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "MAX_PENDING", 2)
    monkeypatch.setattr(postings, "MAX_TAIL", 3)
    run_state_machine_as_test(machine, settings=SETTINGS)
