"""Code in a final answer: stored as an artifact, or found in the repository, and pointed at."""  # EB-07

from __future__ import annotations

import pytest

from engrambus.core import digest
from engrambus.errors import BudgetExceeded
from engrambus.gateway import Credential
from engrambus.testing import expect_refusal
from tests.limits.team import Team
from tests.projects import commit_files

BLOCK = "def login(user):\n    token = make_token(user)\n    return token\n"
REF = f"artifact:{digest(BLOCK.encode())}#L1-L3"
STOPPED = Credential(local_admin=True, speak_as="paul")
"""How a hook hands in what a sub-agent answered."""


@pytest.mark.parametrize("fence", ["```python\n{}```\n", "~~~\n{}~~~\n", "{}"])
def test_new_code_is_stored_and_a_pointer_takes_its_place(team: Team, fence: str) -> None:
    text = f"The token is missing. I propose:\n\n{fence.format(BLOCK)}\nIt is untested."
    answer = team.client.call("take_answer", STOPPED, text=text)
    assert answer.pointers == [REF]
    assert answer.text.split() == f"The token is missing. I propose: {REF} It is untested.".split()
    assert answer.pointer is None, "the message says everything"
    (mail,) = team.client.call("inbox", team.mia).mail
    assert (mail.item, mail.sender) == (answer.message_id, "paul")
    assert 'summary: "The token is missing. I propose: It is untested."' in mail.text
    assert REF in mail.text
    assert team.client.deref(team.paul, REF).excerpt == BLOCK


def test_code_of_the_repository_becomes_its_pointer_and_is_not_stored(team: Team) -> None:
    sha = commit_files(team.repository.path, {"src/auth.py": f"import tokens\n\n\n{BLOCK}"})
    answer = team.client.call("take_answer", STOPPED, text=f"The fault is here:\n\n```\n{BLOCK}```\n")
    assert answer.pointers == [f"repo:src/auth.py#L4-L6@{sha}"]
    assert not (team.repository.path / ".catalog" / "cas").exists()


def test_several_blocks_are_stored_with_one_receipt(team: Team) -> None:
    second = BLOCK.replace("login", "logout")
    text = f"First:\n\n```\n{BLOCK}```\n\nSecond:\n\n```\n{second}```\n\nFirst again:\n\n```\n{BLOCK}```\n"
    answer = team.client.call("take_answer", STOPPED, text=text)
    other = f"artifact:{digest(second.encode())}#L1-L3"
    assert answer.pointers == [REF, other, REF]
    assert answer.text == f"First:\n\n{REF}\n\nSecond:\n\n{other}\n\nFirst again:\n\n{REF}\n"
    work = team.client.call("tuple_rd", team.paul, lane="artifacts")
    assert len(work.tuple["payload"][0]["args"]["artifacts"]) == 2


def test_a_secret_is_refused_before_anything_is_stored(team: Team) -> None:
    secret = "AKIA" + "Q3EGRZ7PLMNB2XYT"
    with expect_refusal("SECRET_FOUND", "text"):
        team.client.call("take_answer", STOPPED, text=f'I propose:\n\n```\n{BLOCK}KEY = "{secret}"\n```\n')
    assert not (team.repository.path / ".catalog" / "cas").exists()


def test_the_rest_of_the_answer_keeps_its_budget(team: Team) -> None:
    rest = "This sentence says very little and says it slowly. " * 80
    with pytest.raises(BudgetExceeded) as refused:
        team.client.call("take_answer", STOPPED, text=f"{rest}\n\n```\n{BLOCK}```\n", handed_over=True)
    assert [item["what"] for item in refused.value.exceeded] == ["inline_tokens"]
    assert not (team.repository.path / ".catalog" / "cas").exists()
    long_block = BLOCK * 100
    text = f"I propose:\n\n```\n{long_block}```\n"
    assert team.client.call("take_answer", STOPPED, text=text, handed_over=True).tokens < 100


def test_a_message_with_the_same_code_is_refused_and_stores_nothing(team: Team) -> None:
    with expect_refusal("BUDGET_EXCEEDED", "OUTPUT.summary"):
        team.client.report(team.paul, f"I propose this.\n\n{BLOCK}")
    assert not (team.repository.path / ".catalog" / "cas").exists()


def test_what_an_agent_hands_in_itself_counts_against_its_turn(team: Team) -> None:
    team.client.call("apply_policy", policy={"put_tokens_per_turn": 60})
    text = f"I propose:\n\n```\n{BLOCK}```\n"
    team.client.call("take_answer", team.paul, text=text)
    team.client.call("store_artifact", team.paul, text=BLOCK)
    for name, fields in (
        ("take_answer", {"text": text.replace(BLOCK, BLOCK * 2)}),
        ("store_artifact", {"text": BLOCK * 2}),
    ):
        with expect_refusal("BUDGET_EXCEEDED", "turn.put_tokens"):
            team.client.call(name, team.paul, **fields)
    assert team.client.call("take_answer", STOPPED, text=text).pointers == [REF]
    assert team.client.call("store_artifact", text=BLOCK * 9).tokens > 60  # a person


def test_a_project_that_allows_code_gets_the_answer_as_it_is(team: Team) -> None:
    for policy in ({"inline": {"max_inline_code_chars": 2000}}, {"limits": {"inline_code": "warn"}}):
        team.client.call("apply_policy", policy=policy)
        answer = team.client.call("take_answer", STOPPED, text=f"I propose:\n\n```\n{BLOCK}```\n")
        assert (answer.pointers, answer.text) == ([], None)
