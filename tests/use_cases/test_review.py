"""UC3: a team reviews a commit, on a history made for it and on that of this repository."""  # EB-30, LESS 10 UC3

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from use_cases.commits import History, git
from use_cases.functions import Function
from use_cases.output import Output
from use_cases.post_office import make_repository
from use_cases.review import SPANS_A_TURN, Result, Reviewed, choose_commit, look_at, main, review

from engrambus import Bus
from tests.projects import commit_files
from tests.use_cases.budgets import assert_within_budgets
from tests.use_cases.conftest import bus_at


def chosen(history: History) -> Reviewed:
    reviewed = choose_commit(history)
    assert reviewed is not None
    return reviewed


def silent(bus: Bus, reviewed: Reviewed, history: History, tests_in: Path | None = None) -> Result:
    return review(bus, reviewed, history, Output(silent=True), tests_in=tests_in)


def failing_tests(checkout: Path) -> set[str]:
    """The tests that fail in a checkout, as pytest names them."""
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
    out = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False).stdout
    return {line.split()[1] for line in out.splitlines() if line.startswith(("FAILED", "ERROR"))}


def broken(checkout: Path, functions: list[Function]) -> None:
    """Make functions raise before they do anything else."""
    for function in sorted(functions, key=lambda item: (item.path, -item.first)):
        file = checkout / function.path
        lines = file.read_text("utf-8").splitlines(keepends=True)
        indent = " " * (8 if "." in function.name else 4)
        lines.insert(function.first, f'{indent}raise RuntimeError("broken")\n')
        file.write_text("".join(lines), "utf-8")


def test_a_review_stays_within_its_budgets_and_reaches_changed_lines(history: History, tmp_path: Path) -> None:
    reviewed = chosen(history)
    with bus_at(history, reviewed.commit.sha, tmp_path) as (bus, checkout):
        result = silent(bus, reviewed, history)
        gate = bus.check_gate(reviewed.commit.parent, head=reviewed.commit.sha)
        engrams = bus.query_engrams(k=50, scope="run").engrams
        sound = bus.verify().sound
    assert_within_budgets(checkout, spans=SPANS_A_TURN, inline_tokens=600)
    assert "BUDGET_EXCEEDED" in result.refusals  # ada's message with pasted code
    assert 0 < result.reached <= result.changed == len(reviewed.functions)
    assert sum(result.states.values()) == len(reviewed.known)
    assert result.passed == gate.passed == (gate.open == 0)
    assert {pointer.type for engram in engrams for pointer in engram.pointers} >= {"repo", "diff"}
    assert all(engram.pointers for engram in engrams)
    assert sound
    tokens = result.tokens  # BX-08
    assert tokens.bus == sum(tokens.by_kind.values()) > 0
    assert set(tokens.by_kind) <= {
        "claims put", "parents → children", "children → parents", "reads", "refused", "checks",
    }  # fmt: skip
    assert tokens.readers in (3, 4)
    assert 0 < tokens.functions <= tokens.files
    assert tokens.files % tokens.readers == tokens.patch % tokens.readers == 0, "once for each reader"


def test_what_was_known_before_the_commit_is_followed_and_renewed(post_office: Path, tmp_path: Path) -> None:
    history = History(post_office)
    reviewed = chosen(history)
    with bus_at(history, reviewed.commit.sha, tmp_path) as (bus, _):
        result = silent(bus, reviewed, history)
        (constraint,) = bus.query_engrams(k=5, kind="constraint").engrams
    assert result.states == {"changed": 3, "same": 1}
    assert constraint.claim.startswith("route_of(address) is called by Office.take_in")
    assert [pointer.ref for pointer in constraint.pointers] == [
        f"repo:post/network/zones.py#L11-L20@{reviewed.commit.sha}"
    ]
    assert (result.findings, result.passed) == (3, False)  # one stale constraint, which was renewed, and two risks


def test_risks_point_at_exactly_the_lines_that_show_them(post_office: Path, tmp_path: Path) -> None:
    history = History(post_office)
    reviewed = chosen(history)
    with bus_at(history, reviewed.commit.sha, tmp_path) as (bus, _):
        silent(bus, reviewed, history)
        risks = {engram.claim: engram.pointers for engram in bus.query_engrams(k=9, kind="risk").engrams}
        texts = {claim: bus.deref_pointer(pointers[0], max_tokens=400).excerpt for claim, pointers in risks.items()}
    catches = next(claim for claim in texts if "catches every error" in claim)
    assert texts[catches].splitlines()[0].strip() == "except Exception:"
    arguments = next(claim for claim in texts if "arguments of price_of" in claim)
    assert texts[arguments].strip() == "def price_of(grams, express=False, island=False):"


def test_patch_pointers_lead_to_exactly_the_hunks_of_the_commit(post_office: Path, tmp_path: Path) -> None:
    history = History(post_office)
    reviewed = chosen(history)
    commit = reviewed.commit
    with bus_at(history, commit.sha, tmp_path) as (bus, _):
        silent(bus, reviewed, history)
        pointers = {
            pointer.ref for engram in bus.query_engrams(k=9, kind="diff").engrams for pointer in engram.pointers
        }
        patches = {ref: bus.deref_pointer(ref, max_tokens=4000).excerpt for ref in pointers}
    assert {ref.partition("@")[0] for ref in patches} == {f"diff:{change.path}" for change in commit.sources}
    for ref, patch in patches.items():
        path = ref.removeprefix("diff:").partition("@")[0]
        wanted = git(post_office, "diff", "-U0", commit.parent, commit.sha, "--", path)
        assert changes_of(patch) == changes_of(wanted)


def changes_of(patch: str) -> list[str]:
    return [line for line in patch.splitlines() if line[:1] in "+-" and not line.startswith(("+++", "---"))]


def test_impacted_tests_are_those_that_fail_when_the_change_is_broken(post_office: Path, tmp_path: Path) -> None:
    history = History(post_office)
    reviewed = chosen(history)
    impacted = {test.node for tests in reviewed.tests.values() for test in tests}
    with bus_at(history, reviewed.commit.sha, tmp_path) as (bus, checkout):
        reported = silent(bus, reviewed, history).tests
        assert failing_tests(checkout) == set()
        broken(checkout, reviewed.functions)
        assert set(reported) == impacted == failing_tests(checkout)


@pytest.mark.parametrize("index", range(5))
def test_no_test_that_fails_is_missed(post_office: Path, tmp_path: Path, index: int) -> None:
    history = History(post_office)
    reviewed = chosen(history)
    function = reviewed.functions[index]
    with bus_at(history, reviewed.commit.sha, tmp_path) as (_, checkout):
        broken(checkout, [function])
        failing = failing_tests(checkout)
    assert failing
    assert failing <= {test.node for test in reviewed.tests[function]}


def test_test_results_are_receipts_that_claims_point_at(tmp_path: Path) -> None:
    make_repository(tmp_path / "office")
    tariff = (tmp_path / "office" / "post" / "tariff.py").read_text("utf-8")
    office = (tmp_path / "office" / "post" / "office.py").read_text("utf-8")
    commit_files(
        tmp_path / "office",
        {
            "post/tariff.py": tariff.replace("return price +", "return 1 + price +"),
            "post/office.py": office.replace("paid < price:", "paid <= price:"),
        },
    )
    history = History(tmp_path / "office")
    reviewed = look_at(history, next(history.commits(limit=1)))
    with bus_at(history, reviewed.commit.sha, tmp_path) as (bus, checkout):
        silent(bus, reviewed, history, tests_in=checkout)
        failing = failing_tests(checkout)
        (claim,) = bus.query_engrams(k=5, kind="test").engrams
        results = {ref: bus.deref_pointer(ref).excerpt for pointer in claim.pointers if "test:" in (ref := pointer.ref)}
    assert failing
    assert f"and {len(failing)} failed" in claim.claim
    for ref, text in results.items():
        assert ref.removeprefix("test:").partition("@")[0] in failing
        assert "failed" in text.splitlines()[0]
    assert len(results) == min(2, len(failing))


def test_the_script_tells_what_is_real_and_changes_nothing(
    post_office: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = git(post_office, "status", "--porcelain", "--ignored"), git(post_office, "rev-parse", "HEAD")
    result = main([str(post_office), "--run-tests"])
    printed = capsys.readouterr().out
    assert "no model runs" in printed
    assert "runs them: 10 passed and 0 failed" in printed
    assert f"{result.tokens.bus:,}" in printed
    assert f"{result.reached} of the {result.changed} changed functions" in printed
    assert (git(post_office, "status", "--porcelain", "--ignored"), git(post_office, "rev-parse", "HEAD")) == before


@pytest.mark.parametrize("arguments", [["absent"], ["--commit", "deadbeef"]], ids=["folder", "commit"])
def test_what_is_named_has_to_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert arguments[-1] in capsys.readouterr().err.splitlines()[-1]


def test_a_history_without_such_a_commit_gets_a_small_repository(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = main([str(tmp_path)])
    assert "a small post office, made for this" in capsys.readouterr().out
    assert (result.changed, result.reached) == (5, 5)


def test_the_scripts_are_short_enough_to_read() -> None:
    for name in ("review", "refactor"):
        path = Path(sys.modules["use_cases.review"].__file__ or "").with_name(f"{name}.py")
        code = [line for line in path.read_text("utf-8").splitlines() if line.strip()]
        assert len(code) < 330, name
