"""The org and global stores: closed until an admin opens them, then shared by several projects."""  # EB-20

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engrambus.app import init_project, open_project
from engrambus.errors import ScopeForbidden
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway, to_request
from engrambus.knowledge.engrams import Engram
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings
from engrambus.testing import ManualClock, expect_refusal

OPEN = {"scopes": ["run", "project", "org", "global"]}


class Team:
    """Several projects of one account."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.clock = ManualClock()
        self.settings = Settings.from_environment({"HOME": str(home)})
        self.gateways: dict[str, Gateway] = {}

    def project(self, name: str) -> Gateway:
        """Return the project with that name; create it on first use."""
        if name not in self.gateways:
            (self.home / name).mkdir(exist_ok=True)
            init_project(self.home / name, self.settings, clock=self.clock)
            self.reopen(name)
        return self.gateways[name]

    def reopen(self, name: str) -> Gateway:
        """Close the project, so that it is opened again on its next use."""
        if name in self.gateways:
            self.gateways[name].close()
        self.gateways[name] = open_project(self.home / name, self.settings, clock=self.clock)
        return self.gateways[name]

    def call(self, project: str, operation: str, caller: Credential = LOCAL_ADMIN, /, **fields: Any) -> Any:
        """Call an operation of a project."""
        declared = OPERATIONS[operation]
        return self.project(project).call(declared, to_request(fields, declared.request), caller)

    def put(self, project: str, claim: str, caller: Credential = LOCAL_ADMIN, /, **fields: Any) -> Engram:
        """Put an engram."""
        note = self.call(project, "store_artifact", text="A note to point at.").pointer
        answer: Engram = self.call(project, "put_engram", caller, claim=claim, at=[note], **fields)
        return answer

    def claims(self, project: str, question: str = "") -> list[str]:
        """Return the claims a query finds."""
        return [engram.claim for engram in self.call(project, "query_engrams", q=question).engrams]


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    team = Team(tmp_path)
    yield team
    for gateway in team.gateways.values():
        gateway.close()


def test_shared_scopes_are_closed_until_an_admin_opens_them(team: Team) -> None:
    engram = team.put("one", "Alpha holds")
    for act in (
        lambda: team.put("one", "Alpha for all", scope="org"),
        lambda: team.call("one", "promote_engram", id=engram.id, scope="org"),
    ):
        with expect_refusal("SCOPE_FORBIDDEN"):
            act()
    assert not (team.home / ".local/share/engrambus").exists()
    assert team.call("one", "query_engrams", q="alpha", scope="org").engrams == []


def test_a_promoted_engram_is_seen_by_every_project_that_opened_the_scope(team: Team) -> None:
    for name in ("one", "two"):
        team.call(name, "apply_policy", policy=OPEN)
    team.project("three")
    engram = team.put("one", "Alpha holds everywhere")
    promoted = team.call("one", "promote_engram", id=engram.id, scope="org")
    assert (promoted.id, promoted.scope) == (engram.id, "org")
    assert team.claims("one", "alpha") == team.claims("two", "alpha") == ["Alpha holds everywhere"]
    assert team.claims("three", "alpha") == []  # it did not open the scope
    assert team.call("two", "get_engram", id=engram.id).scope == "org"
    with expect_refusal("ENGRAM_NOT_FOUND"):
        team.call("three", "get_engram", id=engram.id)
    assert [answer.id for answer in team.call("two", "query_engrams", scope="org").engrams] == [engram.id]
    assert team.claims("two") == []  # the feed is the project's own


def test_promotion_goes_one_scope_at_a_time_up_to_global(team: Team) -> None:
    team.call("one", "apply_policy", policy=OPEN)
    engram = team.put("one", "Alpha climbs", confidence=0.9)
    with expect_refusal("SCOPE_FORBIDDEN"):
        team.call("one", "promote_engram", id=engram.id, scope="global")
    team.call("one", "promote_engram", id=engram.id, scope="org")
    assert team.call("one", "promote_engram", id=engram.id, scope="global").scope == "global"
    assert team.call("one", "query_engrams", q="alpha", scope="org").engrams == []
    assert team.claims("one", "alpha") == ["Alpha climbs"]
    with pytest.raises(ScopeForbidden, match="There is no wider scope"):
        team.call("one", "promote_engram", id=engram.id, scope="org")


def test_an_engram_below_the_confidence_floor_is_not_promoted(team: Team) -> None:
    team.call("one", "apply_policy", policy=OPEN)
    engram = team.put("one", "Alpha is a guess", confidence=0.6)
    with expect_refusal("SCOPE_FORBIDDEN"):
        team.call("one", "promote_engram", id=engram.id, scope="org")
    assert team.call("one", "get_engram", id=engram.id).scope == "project"


def test_nearer_scopes_come_first_among_equal_matches(team: Team) -> None:
    team.call("one", "apply_policy", policy=OPEN)
    wide = team.put("one", "Alpha beta")
    team.call("one", "promote_engram", id=wide.id, scope="org")
    team.clock.advance(seconds=60)
    near = team.put("one", "Alpha beta")
    answer = team.call("one", "query_engrams", q="alpha beta")
    assert [engram.id for engram in answer.engrams] == [near.id, wide.id]


def test_an_engram_is_delivered_once_even_if_a_process_dies(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    team.call("one", "apply_policy", policy=OPEN)
    engram = team.put("one", "Alpha travels")
    gateway = team.project("one")
    with monkeypatch.context() as patch:  # after the project let it go
        patch.setattr(type(gateway.shared), "deliver", _die)
        with pytest.raises(RuntimeError):
            team.call("one", "promote_engram", id=engram.id, scope="org")
    with monkeypatch.context() as patch:  # after the shared store took it in
        patch.setattr("engrambus.knowledge.engrams.mark_delivered", _die)
        with pytest.raises(RuntimeError):
            gateway.shared.deliver(gateway.store)
    gateway = team.reopen("one")
    assert team.claims("one", "alpha") == ["Alpha travels"]
    with gateway.store.read() as view:
        assert view.outbox() == []
    assert gateway.store.verify() == []
    assert gateway.shared.store("org").verify() == []


def test_an_admin_forgets_in_a_shared_store_and_an_agent_cannot_promote_there(team: Team) -> None:
    team.call("one", "apply_policy", policy=OPEN)
    token = team.call("one", "add_agent", name="ada", role="architect").token
    engram = team.put("one", "Alpha is shared")
    team.call("one", "promote_engram", id=engram.id, scope="org")
    with expect_refusal("ENGRAM_NOT_FOUND"):
        team.call("one", "promote_engram", Credential(token=token), id=engram.id, scope="global")
    team.call("one", "forget_engram", id=engram.id)
    assert team.claims("one", "alpha") == []


def test_a_role_may_write_to_org_only_if_the_policy_allows_it(team: Team) -> None:
    team.call("one", "apply_policy", policy=OPEN)
    with expect_refusal("SCOPE_FORBIDDEN"):
        team.put("one", "Alpha at once", scope="org")
    team.call("one", "apply_policy", policy={**OPEN, "write_scopes": {"admin": ["run", "project", "org"]}})
    assert team.put("one", "Alpha at once", scope="org").scope == "org"
    assert team.claims("one", "alpha") == ["Alpha at once"]


def _die(*_: object, **__: object) -> None:
    raise RuntimeError("killed")
