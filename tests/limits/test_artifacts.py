"""New code is stored as an artifact and pointed at: by the agent that was refused, on every edge."""  # EB-07

from __future__ import annotations

import os

import pytest

from engrambus.core import digest
from engrambus.errors import BudgetExceeded
from engrambus.gateway import LOCAL_ADMIN
from engrambus.testing import expect_refusal
from tests.limits.team import Team

BLOCK = "def login(user):\n    token = make_token(user)\n    return token"


def test_an_agent_stores_what_was_refused_and_points_at_it(team: Team) -> None:
    refusal = team.refusal("request_deref", team.paul, pointer=team.lines(), reason=f"See this.\n\n{BLOCK}\n")
    assert isinstance(refusal, BudgetExceeded)
    stored = team.client.call("store_artifact", team.paul, text=BLOCK)
    assert [stored.pointer] == [pointer["ref"] for pointer in refusal.pointers]
    assert stored.pointer == f"artifact:{digest(f'{BLOCK}{chr(10)}'.encode())}#L1-L3"
    engram = team.client.put("The proposed login makes a token for each user.", team.paul, refs=[stored.pointer])
    assert engram.pointers[0].ref == stored.pointer
    assert team.client.deref(team.paul, stored.pointer).excerpt == f"{BLOCK}\n"


@pytest.mark.parametrize("text", [BLOCK, f"{BLOCK}\n", f"\n\n{BLOCK}\n\n", BLOCK.replace("\n", "\r\n")])
def test_every_copy_of_a_block_has_the_same_pointer(team: Team, text: str) -> None:
    first = team.client.call("store_artifact", team.paul, text=BLOCK)
    assert team.client.call("store_artifact", team.mia, text=text).pointer == first.pointer


def test_its_receipt_names_the_artifact_and_who_stored_it(team: Team) -> None:
    stored = team.client.call("store_artifact", team.paul, text=BLOCK, name="login.py")
    receipt = team.client.call("receipt_get", team.paul, id=stored.receipt_id).receipt
    (artifact,) = receipt["artifacts"]
    assert (artifact["path"], artifact["sha"]) == ("login.py", stored.pointer.removeprefix("artifact:").split("#")[0])
    work = team.client.call("tuple_rd", team.paul, lane="artifacts")
    assert (work.state, work.tuple["authority"]["agent"].split("/")[1]) == ("done", "paul")


def test_a_secret_is_refused_and_nothing_is_stored(team: Team) -> None:
    secret = "AKIA" + "Q3EGRZ7PLMNB2XYT"
    with expect_refusal("SECRET_FOUND", "text"):
        team.client.call("store_artifact", team.paul, text=f'{BLOCK}\nKEY = "{secret}"\n')
    assert not (team.repository.path / ".catalog" / "cas").exists()


def test_a_text_that_is_too_long_is_refused(team: Team) -> None:
    with expect_refusal("FIELD_VALUE", "text"):
        team.client.call("store_artifact", team.paul, text="x" * 65_537)


def test_it_is_read_within_the_budget_of_the_turn(team: Team) -> None:
    refs = [team.client.call("store_artifact", team.mia, text=f"{BLOCK}  # {number}").pointer for number in range(3)]
    for ref in refs[:2]:
        team.client.deref(team.paul, ref)
    with expect_refusal("DEREF_DENIED", "turn.artifact"):
        team.client.deref(team.paul, refs[2])


def test_garbage_collection_keeps_it_while_an_engram_points_at_it(team: Team) -> None:
    pinned, left = (team.client.call("store_artifact", team.paul, text=f"{BLOCK}  # {number}") for number in range(2))
    team.client.put("The proposed login makes a token.", team.paul, refs=[pinned.pointer], ttl="P90D")
    team.clock.advance(seconds=40 * 86_400)
    for body in (team.repository.path / ".catalog" / "cas").rglob("[0-9a-f]*"):
        os.utime(body, (0, 0))  # as if it had neither been written nor read since
    answer = team.client.call("collect_garbage")
    assert (answer.pinned, answer.freed[0].why, answer.freed[0].bodies) == (1, "artifact", 1)
    assert BLOCK in team.client.deref(LOCAL_ADMIN, pinned.pointer).excerpt
    with expect_refusal("BODY_NOT_FOUND"):
        team.client.deref(LOCAL_ADMIN, left.pointer)
