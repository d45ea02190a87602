"""What every back end of the work plane does, stated as tests. A subclass gives the fixture `harness`."""

from __future__ import annotations

from engrambus.testing.work.budgets import Budgets
from engrambus.testing.work.counting import Counting
from engrambus.testing.work.holding import Holding
from engrambus.testing.work.linda import Linda
from engrambus.testing.work.paying import Keeping, Paying
from engrambus.testing.work.waiting import Waiting


class WorkConformance(Linda, Waiting, Holding, Paying, Budgets, Counting, Keeping):
    """All of it."""
