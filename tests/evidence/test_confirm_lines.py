"""An engram whose lines have changed leaves the briefs, and is confirmed with the lines that show it now."""  # BX-01

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from engrambus.edges.mcp.answers import compact_text
from engrambus.errors import EngramBusError, EvidenceStale, SpanNotFound
from engrambus.evidence.pointers import parse_ref
from engrambus.operations import OPERATIONS
from engrambus.testing.client import expect_refusal, same_changes
from tests.limits.team import Team
from tests.projects import commit_files, git

CLAIM = "The parser checks line eleven before it goes on."


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    team = Team(tmp_path)
    yield team
    team.gateway.close()


def put(team: Team, at: str = "src/parser.py:10-12", claim: str = CLAIM, **fields: object) -> str:
    """Put a constraint about some lines and return its id."""
    answer = team.client.call("put_engram", team.paul, claim=claim, at=[at], kind="constraint", **fields)
    engram_id: str = answer.id
    return engram_id


def edit(team: Team, old: str, new: str, path: str = "src/parser.py") -> None:
    """Change a file and commit it."""
    text = (team.repository.path / path).read_text("utf-8")
    assert old in text
    commit_files(team.repository.path, {path: text.replace(old, new)})


def state(team: Team, engram_id: str) -> str | None:
    evidence = team.client.call("show_engram", id=engram_id).about[engram_id].evidence
    return None if evidence is None else evidence.state


def briefed(team: Team) -> list[str]:
    """Return the lines of the brief that have the claim."""
    return [line for line in team.client.call("brief", team.paul).lines if "line eleven" in line]


def test_a_stale_engram_leaves_the_brief_until_it_is_confirmed_with_its_lines(team: Team) -> None:
    engram_id = put(team)
    assert len(briefed(team)) == 1
    edit(team, "line 11 of", "line eleven of")
    assert state(team, engram_id) == "changed"
    assert briefed(team) == []
    answer = team.client.call("brief", team.paul)
    assert answer.stale == 1
    assert "1 claim is stale and left out: engrambus check." in answer.lines
    with pytest.raises(EvidenceStale) as refused:
        team.client.call("confirm_engram", team.paul, id=engram_id)
    assert refused.value.field == "at"
    assert "confirm it with `at`" in (refused.value.hint or "")
    confirmed = team.client.call("confirm_engram", team.paul, id=engram_id, at=["src/parser.py:10-13"])
    assert confirmed.id == engram_id
    (ref,) = confirmed.pointers
    assert ref == f"repo:src/parser.py#L10-L13@{git(team.repository.path, 'rev-parse', 'HEAD')}"
    assert state(team, engram_id) == "same"
    assert len(briefed(team)) == 1
    assert team.client.call("brief", team.paul).stale == 0


def test_a_pinned_engram_stays_in_the_brief_and_says_that_its_lines_have_changed(team: Team) -> None:
    engram_id = put(team)
    team.client.call("pin_engram", id=engram_id)
    (before,) = briefed(team)
    edit(team, "line 11 of", "line eleven of")
    (line,) = briefed(team)
    assert line == f"{before[:-1]}, changed since)"


def test_lines_that_are_back_have_the_version_that_they_had(team: Team) -> None:
    put(team)
    put(team, "src/parser.py:20", "The parser ends in line twenty.")
    before = team.client.call("brief", team.paul).version
    file = team.repository.path / "src/parser.py"
    text = file.read_text("utf-8")
    file.write_text(text.replace("line 11 of", "line eleven of"), "utf-8")
    changed = team.client.call("brief", team.paul).version
    assert changed == before + 1
    file.write_text(text, "utf-8")
    assert team.client.call("brief", team.paul).version == before
    since = team.client.call("brief", team.paul, since=changed).lines
    assert any(line.startswith("+ [constraint] The parser checks line eleven") for line in since)


def test_of_several_pointers_the_changed_ones_are_replaced(team: Team) -> None:
    answer = team.client.call(
        "put_engram", team.paul, claim=CLAIM, at=["docs/design.md:7", "src/parser.py:10-12"], kind="constraint"
    )
    edit(team, "line 11 of", "line eleven of")
    confirmed = team.client.call("confirm_engram", team.paul, id=answer.id, at=["src/parser.py:11"])
    assert [getattr(parse_ref(ref), "path", "") for ref in confirmed.pointers] == ["docs/design.md", "src/parser.py"]
    assert confirmed.pointers[0] == answer.pointers[0].ref


def test_an_agent_does_not_move_a_claim_whose_lines_hold(team: Team) -> None:
    engram_id = put(team)
    with expect_refusal("FIELD_VALUE", "at"):
        team.client.call("confirm_engram", team.paul, id=engram_id, at=["src/parser.py:1"])
    assert team.client.call("confirm_engram", id=engram_id, at=["src/parser.py:10-11"]).pointers  # a person may


def test_lines_of_the_disk_need_a_snapshot(team: Team) -> None:
    engram_id = put(team)
    edit(team, "line 11 of", "line eleven of")
    file = team.repository.path / "src/parser.py"
    file.write_text(file.read_text("utf-8") + "def check_eleven(): ...\n", "utf-8")
    with pytest.raises(SpanNotFound) as refused:
        team.client.call("confirm_engram", team.paul, id=engram_id, at=["src/parser.py:31"])
    assert "snapshot" in (refused.value.hint or "")
    confirmed = team.client.call("confirm_engram", team.paul, id=engram_id, at=["src/parser.py:31"], snapshot=True)
    assert confirmed.pointers[0].startswith("repo:src/parser.py#L31")


def test_a_digest_that_nobody_read_is_refused(team: Team) -> None:  # EB-06
    engram_id = put(team)
    edit(team, "line 11 of", "line eleven of")
    head = git(team.repository.path, "rev-parse", "HEAD")
    digest = f"sha256:{hashlib.sha256(b'line 10 of the parser' + bytes([10])).hexdigest()}"
    named = {"type": "repo", "ref": f"repo:src/parser.py#L10@{head}", "digest": digest}
    with expect_refusal("PHANTOM_READ", "pointers[0].digest"):
        team.client.call("confirm_engram", team.paul, id=engram_id, pointers=[named])
    team.client.deref(team.paul, named["ref"])
    assert team.client.call("confirm_engram", team.paul, id=engram_id, pointers=[named]).pointers == [
        f"repo:src/parser.py#L10-L10@{head}"
    ]


@pytest.mark.parametrize("way", ["put", "put_many", "message"])
def test_repeating_a_stale_claim_at_its_new_lines_points_it_there(team: Team, way: str) -> None:
    engram_id = put(team)
    edit(team, "line 11 of", "line eleven of")
    if way == "put":
        assert put(team, "src/parser.py:11-12") == engram_id
    elif way == "put_many":
        engram = {"claim": CLAIM, "at": ["src/parser.py:11-12"], "kind": "constraint"}
        assert team.client.call("put_engrams", team.paul, engrams=[engram]).ids == [engram_id]
    else:
        engrams = f'ENGRAMS:\n  - {{claim: "{CLAIM}", kind: constraint, at: ["src/parser.py:11-12"]}}\n'
        text = f"ROLE: Programmer\nTASK_STATUS: done\n{engrams}OUTPUT: {{summary: ok}}\n"
        assert team.client.call("send_message", team.paul, text=text).engrams == [engram_id]
    assert state(team, engram_id) == "same"
    (engram,) = team.client.call("show_engram", id=engram_id).engrams
    assert "#L11-L12@" in engram.pointers[0].ref
    assert len(briefed(team)) == 1


def test_repeating_a_claim_whose_lines_hold_does_not_move_it(team: Team) -> None:
    engram_id = put(team)
    assert put(team, "src/parser.py:11-12") == engram_id
    (engram,) = team.client.call("show_engram", id=engram_id).engrams
    assert "#L10-L12@" in engram.pointers[0].ref


@pytest.mark.parametrize("place", ["src/parser.py:10-12", "src/parser.py:31", "src/parser.py"])
def test_a_snapshot_of_uncommitted_lines_is_the_same_as_the_disk(team: Team, place: str) -> None:
    file = team.repository.path / "src/parser.py"
    text = file.read_text("utf-8")
    file.write_text(text.replace("line 11 of", "line eleven of") + "def check_eleven(): ...\n", "utf-8")
    engram_id = put(team, place, snapshot=True)
    assert state(team, engram_id) == "same"
    assert len(briefed(team)) == 1
    file.write_text(text, "utf-8")
    assert state(team, engram_id) in ("changed", "gone")
    assert briefed(team) == []


def test_mail_says_which_of_its_engrams_are_stale(team: Team) -> None:
    engrams = f'ENGRAMS:\n  - {{claim: "{CLAIM}", kind: constraint, at: ["src/parser.py:10-12"]}}\n'
    text = f"ROLE: Programmer\nTASK_STATUS: done\n{engrams}OUTPUT: {{summary: ok}}\n"
    sent = team.client.call("send_message", team.paul, text=text)
    assert team.client.call("read_mail", team.mia, id=sent.message_id).stale == []
    edit(team, "line 11 of", "line eleven of")
    mail = team.client.call("read_mail", team.mia, id=sent.message_id)
    assert mail.stale == sent.engrams
    assert f"{sent.engrams[0][:13]}(stale)" in compact_text(OPERATIONS["read_mail"], mail)


@pytest.mark.parametrize("place", ["src/nowhere.py:1", "src/parser.py:40-41", "src", "docs/design.md:90"])
def test_lines_that_are_not_there_confirm_nothing(team: Team, place: str) -> None:
    engram_id = put(team)
    edit(team, "line 11 of", "line eleven of")
    before = team.journal()
    with pytest.raises(EngramBusError) as refused:
        team.client.call("confirm_engram", id=engram_id, at=[place])
    assert (refused.value.field or "").startswith("at")
    assert same_changes(team.journal(), before)
    assert state(team, engram_id) == "changed"
