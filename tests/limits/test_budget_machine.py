"""No budget is overspent at any prefix of a journal, for any sequence of operations."""  # EB-08, EB-09, EB-11

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from engrambus.testing import Harness, ManualClock
from tests.harness.ledger import Ledger
from tests.harness.stores import MemoryHarness, SqliteHarness
from tests.machines.budget_rules import BudgetRules

EXAMPLES = int(os.environ.get("ENGRAMBUS_MACHINE_EXAMPLES", "20"))
STEPS = int(os.environ.get("ENGRAMBUS_MACHINE_STEPS", "50"))
SCRATCH = "/dev/shm" if os.path.isdir("/dev/shm") else None  # in memory, because syncing is not tested here
SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize="ENGRAMBUS_MACHINE_EXAMPLES" not in os.environ,
)


class MemoryBudgetMachine(BudgetRules):
    """The rules on the reference back end."""

    @staticmethod
    def make_harness(clock: ManualClock) -> Harness:
        return MemoryHarness(clock)


class SqliteBudgetMachine(BudgetRules):
    """The rules on SQLite."""

    @staticmethod
    def make_harness(clock: ManualClock) -> Harness:
        return SqliteHarness(Path(tempfile.mkdtemp(dir=SCRATCH, prefix="engrambus-")) / "catalog", clock)

    def teardown(self) -> None:
        assert isinstance(self.harness, SqliteHarness)
        try:
            super().teardown()
        finally:
            shutil.rmtree(self.harness.folder.parent)


TestMemoryBudgets = MemoryBudgetMachine.TestCase
TestMemoryBudgets.settings = SETTINGS
TestSqliteBudgets = SqliteBudgetMachine.TestCase
TestSqliteBudgets.settings = SETTINGS


@pytest.mark.parametrize(
    "facts",
    [
        ['{"fact":"deref.proved","run":"r","agent":"a","turn":1,"type":"repo","tokens":9}'] * 4,
        ['{"fact":"deref.proved","run":"r","agent":"a","turn":1,"type":"sam","tokens":1201}'],
        ['{"fact":"deref.proved","run":"r","agent":"a","turn":2,"type":"sam","tokens":1}'],
        ['{"fact":"grant.spent","grant_id":"g","block_id":"b","tokens":11,"by":"a"}'],
        ['{"fact":"grant.spent","grant_id":"g","block_id":"b","tokens":1,"by":"a"}'] * 2,
        [
            '{"fact":"grant.revoked","block_id":"b","by":"a"}',
            '{"fact":"grant.spent","grant_id":"g","block_id":"b","tokens":1,"by":"a"}',
        ],
        ['{"fact":"deref.proved","run":"r","agent":"a","turn":1,"type":"sam","tokens":1,"granted":true}'],
    ],
)
def test_the_ledger_detects_overspending(facts: list[str]) -> None:
    lines = ['{"fact":"agent.added","run":"r","name":"a"}', *facts]
    grant = '{"fact":"grant.issued","block_id":"b","cap_tokens":10,"uses":1}'
    journal = "\n".join(
        ["{}", *(f'{{"at":"2026-01-01T00:00:00.000000Z","facts":[{fact}]}}' for fact in (grant, *lines))]
    )
    with pytest.raises((AssertionError, KeyError)):
        Ledger().read(journal.encode())
