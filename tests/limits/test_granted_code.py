"""A grant for inline code admits code of the granted file, and no other."""  # EB-07, EB-11

from __future__ import annotations

import pytest

from engrambus.errors import BudgetExceeded
from engrambus.testing import expect_refusal
from tests.limits.team import Team
from tests.projects import commit_files

FILE = (
    "def login(user):\n    token = make_token(user)\n    return token + '-tok'\n\n\ndef logout(user):\n    drop(user)\n"
)
LOGIN = "".join(FILE.splitlines(keepends=True)[:3])
OTHER = "def leave(team):\n    team.members.clear()\n    return team.name\n"


@pytest.fixture
def sha(team: Team) -> str:
    """A commit with the file and others."""
    return commit_files(team.repository.path, {"src/auth.py": FILE, "src/auth/team.py": OTHER, "src/other.py": OTHER})


def token_for(team: Team, pointer: str, chars: int = 500) -> str:
    """The budget token of a grant for inline code."""
    grant = team.client.call("issue_grant", team.mia, child_id="paul", pointer=pointer, inline_code_chars=chars, uses=9)
    return str(grant.budget_token)


def test_code_of_the_granted_file_counts_against_the_grant(team: Team, sha: str) -> None:
    token = token_for(team, f"repo:src/auth.py@{sha}", len(LOGIN))
    assert team.client.report(team.paul, LOGIN, token=token).to == "mia"
    with pytest.raises(BudgetExceeded) as refused:
        team.client.report(team.paul, FILE, token=token)
    (exceeded,) = refused.value.exceeded
    assert (exceeded["what"], exceeded["limit"]) == ("granted_code_chars", len(LOGIN))


@pytest.mark.parametrize("quote", ["> {}", "12: {}", "+{}"])
def test_marks_of_quoting_make_no_difference(team: Team, sha: str, quote: str) -> None:
    quoted = "\n".join(quote.format(line) for line in LOGIN.splitlines())
    assert team.client.report(team.paul, quoted, token=token_for(team, f"repo:src/auth.py@{sha}")).to == "mia"


def test_other_code_counts_against_the_ordinary_allowance(team: Team, sha: str) -> None:
    token = token_for(team, f"repo:src/auth.py@{sha}")
    for code in (OTHER, LOGIN.replace("token", "ticket"), LOGIN + OTHER):
        with pytest.raises(BudgetExceeded) as refused:
            team.client.report(team.paul, code, token=token)
        assert [(item["what"], item["limit"]) for item in refused.value.exceeded] == [("inline_code_chars", 0)]


def test_only_the_granted_lines_are_admitted(team: Team, sha: str) -> None:
    token = token_for(team, f"repo:src/auth.py#L1-L3@{sha}")
    assert team.client.report(team.paul, LOGIN, token=token).to == "mia"
    with expect_refusal("BUDGET_EXCEEDED", "OUTPUT.summary"):
        team.client.report(team.paul, FILE, token=token)


def test_the_commit_is_the_granted_one(team: Team, sha: str) -> None:
    later = commit_files(team.repository.path, {"src/auth.py": FILE.replace("-tok", "-token")})
    changed = LOGIN.replace("-tok", "-token")
    with expect_refusal("BUDGET_EXCEEDED", "OUTPUT.summary"):
        team.client.report(team.paul, changed, token=token_for(team, f"repo:src/auth.py@{sha}"))
    assert team.client.report(team.paul, changed, token=token_for(team, f"repo:src/auth.py@{later}")).to == "mia"


def test_a_grant_for_a_folder_admits_code_of_its_files(team: Team, sha: str) -> None:
    token = token_for(team, f"repo:src/auth/*@{sha}")
    assert team.client.report(team.paul, OTHER, token=token).to == "mia"
    with expect_refusal("BUDGET_EXCEEDED", "OUTPUT.summary"):
        team.client.report(team.paul, LOGIN, token=token)


def test_a_use_is_only_spent_by_granted_code(team: Team, sha: str) -> None:
    grant = team.client.call(
        "issue_grant", team.mia, child_id="paul", pointer=f"repo:src/auth.py@{sha}", inline_code_chars=500, uses=1
    )
    team.client.report(team.paul, "Nothing to show.", token=grant.budget_token)
    team.client.report(team.paul, LOGIN, token=grant.budget_token)
    with expect_refusal("GRANT_SPENT"):
        team.client.report(team.paul, LOGIN, token=grant.budget_token)
