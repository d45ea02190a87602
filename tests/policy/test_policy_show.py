"""`policy show`: every setting in force, where it was set, and how each limit applies.  # EB-06"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engrambus.policy import ROLES
from engrambus.policy.limits import LIMITS
from engrambus.policy.policy_keys import policy_keys
from engrambus.testing import expect_refusal
from tests.cli.runner import Shell
from tests.limits.team import Team
from tests.projects import Repository


@pytest.fixture
def team(tmp_path: Path) -> Any:
    team = Team(tmp_path)
    yield team
    team.gateway.close()


def shown(team: Team, key: str) -> Any:
    (row,) = [row for row in team.client.call("show_policy").settings if row.key == key]
    return row


def test_it_lists_every_key_and_every_limit(team: Team) -> None:
    answer = team.client.call("show_policy")
    assert [row.key for row in answer.settings] == [key.name for key in policy_keys()]
    assert [row.limit for row in answer.limits] == list(LIMITS)
    assert all(list(row.modes) == list(ROLES) for row in answer.limits)
    assert (answer.file, answer.applied_at) == ("applied", None)
    assert all(row.set_at is None for row in answer.settings)


def test_a_setting_names_the_policy_that_brought_it_in(team: Team) -> None:
    team.clock.advance(seconds=60)
    team.client.call("apply_policy", policy={"max_ttl": "P7D"})
    first = shown(team, "max_ttl")
    assert (first.value, first.set_by.endswith("/admin")) == ("P7D", True)
    team.clock.advance(seconds=60)
    team.client.call("apply_policy", policy={"max_ttl": "P7D", "engrams_per_minute": 5})
    assert shown(team, "max_ttl") == first
    assert shown(team, "engrams_per_minute").set_at > first.set_at
    team.clock.advance(seconds=60)
    team.client.call("apply_policy", policy={})
    team.client.call("apply_policy", policy={"max_ttl": "P7D"})
    assert shown(team, "max_ttl").set_at > first.set_at


def test_what_is_not_listed_shows_what_holds(team: Team) -> None:
    team.client.call("apply_policy", policy={"promotion_floor": {"org": 0.9}, "write_scopes": {"tool": ["run"]}})
    assert shown(team, "promotion_floor").value == {"run": 0.0, "project": 0.5, "org": 0.9, "global": 0.8}
    assert shown(team, "write_scopes").value["tool"] == ["run"]
    assert shown(team, "write_scopes").value["manager"] == ["run", "project"]


def test_a_role_sees_its_own_modes(team: Team) -> None:
    team.client.call(
        "apply_policy", policy={"limits": {"put_rate": {"programmer": "warn"}}, "memory_folders": ["/srv"]}
    )
    answer = team.client.call("show_policy", team.paul)
    assert {row.limit: row.modes for row in answer.limits}["put_rate"] == {"programmer": "warn"}
    assert "memory_folders" not in {row.key for row in answer.settings}
    with expect_refusal("ROLE_FORBIDDEN", "role"):
        team.client.call("show_policy", team.paul, role="manager")
    manager = team.client.call("show_policy", role="manager")
    assert {row.limit: row.modes for row in manager.limits}["put_rate"] == {"manager": "enforce"}


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("", "applied"),
        ("max_ttl: P7D\n", "edited"),
        ("max_tll: P7D\n", "invalid"),
        ("a: [\n", "invalid"),
        (None, "absent"),
    ],
)
def test_it_says_whether_the_file_is_what_is_applied(team: Team, text: str | None, state: str) -> None:
    file = team.repository.path / ".catalog" / "policy.yaml"
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    answer = team.client.call("show_policy")
    assert (answer.file, answer.problem is not None) == (state, state == "invalid")


def test_it_survives_a_rebuild_of_the_index(team: Team) -> None:
    team.client.call("apply_policy", policy={"max_ttl": "P7D"})
    before = team.client.call("show_policy")
    team.gateway.store.rebuild()
    assert team.client.call("show_policy") == before
    assert team.gateway.store.verify() == []


def test_the_command_line_prints_a_table(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(repository, tmp_path / "home", monkeypatch)
    shell.ok("init")
    file = shell.path / ".catalog" / "policy.yaml"
    file.write_text("limits: {inline_code: {programmer: warn}}\n")
    edited = shell.ok("policy", "show").out
    assert "was edited and is not applied; run `engrambus policy apply`" in edited
    shell.ok("policy", "apply")
    out = shell.ok("policy", "show").out
    assert ".catalog/policy.yaml says the same." in out
    assert "enforce, programmer warn" in out
    (line,) = [line for line in out.splitlines() if line.startswith("inline.max_engrams ")]
    assert line.split() == ["inline.max_engrams", "default", "12"]
    lines = shell.ok("policy", "show", "--role", "programmer").out.splitlines()
    (line,) = [line for line in lines if line.startswith("inline_code ")]
    assert line.split()[:3] == ["inline_code", "warn", "0"]
    assert shell.ok("policy", "show", "--json").json["file"] == "applied"
