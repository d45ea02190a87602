"""What every back end of the work plane does, stated as tests. A subclass gives the fixture `harness`."""

from __future__ import annotations

from stigmergy.testing.work.budgets import Budgets
from stigmergy.testing.work.counting import Counting
from stigmergy.testing.work.holding import Holding
from stigmergy.testing.work.linda import Linda
from stigmergy.testing.work.paying import Keeping, Paying
from stigmergy.testing.work.waiting import Waiting


class WorkConformance(Linda, Waiting, Holding, Paying, Budgets, Counting, Keeping):
    """All of it."""
