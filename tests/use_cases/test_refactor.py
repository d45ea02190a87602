"""UC1: a team refactors, on a history made for it and on that of this repository."""  # EB-30, LESS 10 UC1

from __future__ import annotations

from pathlib import Path

import pytest
from use_cases.commits import History, git
from use_cases.output import Output
from use_cases.refactor import SPANS_A_TURN, Refactoring, Result, choose_commit, main, refactor

from engrambus import Bus
from engrambus.errors import EvidenceStale
from tests.use_cases.budgets import assert_within_budgets, facts
from tests.use_cases.conftest import bus_at


def chosen(history: History) -> Refactoring:
    refactoring = choose_commit(history)
    assert refactoring is not None
    return refactoring


def silent(bus: Bus, refactoring: Refactoring, history: History, checkout: Path) -> Result:
    return refactor(bus, refactoring, history, checkout, Output(silent=True))


def test_evidence_follows_the_refactoring_within_the_budgets(history: History, tmp_path: Path) -> None:
    refactoring = chosen(history)
    commit = refactoring.commit
    with bus_at(history, commit.parent, tmp_path) as (bus, checkout):
        result = silent(bus, refactoring, history, checkout)
        brief = bus.speak_as("cleo").brief()
        agents = {agent.agent_id: agent.role for agent in bus.stats(last=0).agents}
        checked = bus.check_evidence(kind="fact", all=True)
        sound = bus.verify().sound
    assert_within_budgets(checkout, spans=SPANS_A_TURN, inline_tokens=800)
    assert list(agents.values()) == ["architect", "director", "manager", *["programmer"] * 3]
    assert sum(result.states.values()) == len(refactoring.known)
    assert result.states.keys() <= {"moved", "changed", "gone"}, "every known place was in a file that moved"
    assert 0 <= result.right <= result.led <= len(refactoring.known)
    assert 0 < result.reached <= result.changed
    assert "BUDGET_EXCEEDED" in result.refusals
    # what the newcomer is told of is at its current place: stale claims are in no brief
    stale = {engram.claim for engram in checked.engrams if is_stale(checked.about[engram.id])}
    lines = [line for line in brief.lines if line.startswith("[fact]")]
    for claim in stale:
        assert not any(claim[:40] in line for line in lines)
    assert sound
    tokens = result.tokens  # BX-08
    assert tokens.bus == sum(tokens.by_kind.values()) > 0
    assert 0 < tokens.functions <= tokens.files


def is_stale(about: object) -> bool:
    evidence = getattr(about, "evidence", None)
    return evidence is not None and evidence.state in ("changed", "gone")


def test_the_newcomer_gets_the_current_lines_and_old_copies_are_refused(post_office: Path, tmp_path: Path) -> None:
    history = History(post_office)
    refactoring = chosen(history)
    commit = refactoring.commit
    with bus_at(history, commit.parent, tmp_path) as (bus, checkout):
        result = silent(bus, refactoring, history, checkout)
        brief = "\n".join(bus.speak_as("cleo").brief().lines)
        claims = {engram.claim.partition("(")[0]: engram for engram in bus.query_engrams(k=9, kind="fact").engrams}
    assert commit.subject.startswith("Routes move to the network")
    assert result.states == {"moved": 2, "changed": 1}
    assert (result.led, result.right) == (3, 3)
    assert (result.changed, result.reached) == (2, 2)
    assert result.refusals == ["BUDGET_EXCEEDED", "DIGEST_MISMATCH"]
    assert "post/routes.py:" not in brief
    for place in ("post/network/zones.py:11-19", "post/network/zones.py:23-25", "post/network/zones.py:33-35"):
        assert place in brief, place
    # the changed claim was confirmed at its lines now, by its own id
    (pointer,) = claims["route_of"].pointers
    assert pointer.ref == f"repo:post/network/zones.py#L11-L19@{commit.sha}"
    assert claims["route_of"].provenance.created_by.endswith("ada")
    refused = [fact for fact in facts(checkout) if fact["fact"] == "message.rejected"]
    assert [fact["agent"] for fact in refused] == ["ben"]
    assert not any(engram.claim.startswith("I have read") for engram in claims.values())


def test_a_changed_claim_is_not_confirmed_without_its_lines(post_office: Path, tmp_path: Path) -> None:
    """The script reads and names the lines because nothing less is accepted."""
    history = History(post_office)
    refactoring = chosen(history)
    function, text = next(pair for pair in refactoring.known if pair[0].name == "route_of")
    with bus_at(history, refactoring.commit.parent, tmp_path) as (bus, checkout):
        engram = bus.put_engram(text, pointers=[function.at(refactoring.commit.parent)])
        git(checkout, "checkout", "--quiet", "--detach", refactoring.commit.sha)
        with pytest.raises(EvidenceStale):
            bus.confirm_engram(engram.id)


def test_the_script_tells_what_is_real_and_changes_nothing(
    post_office: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = git(post_office, "status", "--porcelain", "--ignored"), git(post_office, "rev-parse", "HEAD")
    result = main([str(post_office)])
    printed = capsys.readouterr().out
    assert "no model runs" in printed
    assert "post/routes.py is now post/network/zones.py" in printed
    assert f"{result.tokens.bus:,}" in printed
    assert (git(post_office, "status", "--porcelain", "--ignored"), git(post_office, "rev-parse", "HEAD")) == before


def test_a_history_without_such_a_commit_gets_a_small_repository(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = main([str(tmp_path)])
    assert "a small post office, made for this" in capsys.readouterr().out
    assert result.states == {"moved": 2, "changed": 1}
