"""The BUDGETS of a broadcast lower the children's limits for dereferencing, and what their brief shows as left."""

from __future__ import annotations

import pytest

from engrambus import Bus
from engrambus.errors import DerefDenied
from engrambus.gateway import LOCAL_ADMIN, Gateway
from tests.projects import Repository


@pytest.fixture
def bus(gateway: Gateway) -> Bus:
    """A project with an architect, a manager below it and a programmer below that."""
    bus = Bus(gateway, LOCAL_ADMIN, owns_transport=False)
    bus.add_agent("ada", role="architect")
    bus.add_agent("max", role="manager", parent="ada")
    bus.add_agent("pia", role="programmer", parent="max")
    return bus


def broadcast_budgets(bus: Bus, sender: str, role: str, **budgets: int) -> None:
    lines = "".join(f"  max_{name}: {limit}\n" for name, limit in budgets.items())
    bus.speak_as(sender).broadcast(f"ROLE: {role}\nBUDGETS:\n{lines}")


def test_the_lowest_limit_of_any_ancestor_applies(bus: Bus, repository: Repository) -> None:  # EB-07
    broadcast_budgets(bus, "ada", "architect", repo_spans=1)
    broadcast_budgets(bus, "max", "manager", repo_spans=2)
    pia = bus.speak_as("pia")
    pia.deref_pointer(f"repo:src/parser.py#L1-L1@{repository.sha}")
    with pytest.raises(DerefDenied) as error:
        pia.deref_pointer(f"repo:src/parser.py#L2-L2@{repository.sha}")
    assert (error.value.field, error.value.limit, error.value.used) == ("turn.repo", 1, 1)
    assert "0 repo, 2 artifact" in pia.brief().lines[-1]


def test_budgets_never_raise_the_limits_of_the_project(bus: Bus, repository: Repository) -> None:  # EB-07
    broadcast_budgets(bus, "max", "manager", repo_spans=9, sam_items=9)
    pia = bus.speak_as("pia")
    for line in (1, 2, 3):
        pia.deref_pointer(f"repo:src/parser.py#L{line}-L{line}@{repository.sha}")
    with pytest.raises(DerefDenied):
        pia.deref_pointer(f"repo:src/parser.py#L4-L4@{repository.sha}")
    assert "2 sam" in pia.brief().lines[-1]


def test_budgets_lower_the_tokens_of_a_turn_but_not_of_the_run(bus: Bus, repository: Repository) -> None:  # EB-07
    broadcast_budgets(bus, "max", "manager", deref_tokens=200)
    pia = bus.speak_as("pia")
    cut = pia.deref_pointer(f"repo:src/parser.py#L1-L30@{repository.sha}")
    assert cut.truncated
    with pytest.raises(DerefDenied) as error:
        pia.deref_pointer(f"repo:src/parser.py#L1-L30@{repository.sha}")
    assert (error.value.field, error.value.limit) == ("turn.tokens", 200)
    grant = bus.speak_as("max").issue_grant("pia", f"repo:src/parser.py#L1-L30@{repository.sha}", cap_tokens=1000)
    broadcast_budgets(bus, "max", "manager", deref_tokens=1)
    complete = pia.deref_pointer(f"repo:src/parser.py#L1-L30@{repository.sha}", budget_token=grant.budget_token)
    assert not complete.truncated
