"""The rules of putting an engram, without a store."""  # EB-21

from __future__ import annotations

from typing import Any

import pytest

from engrambus.core import parse_time
from engrambus.errors import IdTaken, PhantomRead, RateLimited
from engrambus.knowledge.engrams import EngramConfirmed, EngramPut, EngramView, put_all, put_one, put_or_confirm
from engrambus.policy import DEFAULT_POLICY, Policy
from tests.knowledge.plain_view import (
    DAY_US,
    NOW_US,
    RUN,
    caller,
    no_randomness,
    prepared,
    stored_engram,
    view_of,
    with_digest,
)

OWN_ID = "01JH000000000000000000000A"
DIGEST = "sha256:" + "0" * 64


def put(view: EngramView, claim: str = "The parser trusts its input.", by: str = "ada", **fields: Any) -> Any:
    """Return the fact of one put."""
    return put_or_confirm(view, prepared(claim, **fields), caller=caller(by), randomness=no_randomness)[0]


def test_a_new_claim_is_put_with_its_author_and_lifetime() -> None:
    fact = put(view_of())
    assert isinstance(fact, EngramPut)
    assert fact.engram.provenance.created_by == f"{RUN.run_id}/ada"
    assert parse_time(fact.engram.provenance.created_at) == NOW_US
    assert (fact.expires_at, fact.pointed_tokens) == (NOW_US + 90 * DAY_US, 7)


def test_a_repeated_claim_confirms_the_stored_engram() -> None:
    stored = stored_engram()
    fact, engram = put_or_confirm(
        view_of(stored),
        prepared("The parser trusts the input."),
        caller=caller("ada"),
        randomness=no_randomness,
    )
    assert isinstance(fact, EngramConfirmed)
    assert engram is stored.engram
    assert (fact.id, fact.by, fact.root) == (stored.engram.id, f"{RUN.run_id}/ada", f"{RUN.run_id}/lead")
    assert fact.expires_at == NOW_US + 90 * DAY_US


@pytest.mark.parametrize(
    ("claim", "fields"),
    [
        ("The parser never trusts its input.", {}),
        ("The parser trusts its input.", {"kind": "risk"}),
        ("The parser trusts its input.", {"scope": "run"}),
        ("The parser trusts its input.", {"id": OWN_ID}),
    ],
    ids=["reversed", "another kind", "another scope", "an id of the author's choice"],
)
def test_another_claim_is_put_as_a_new_engram(claim: str, fields: dict[str, Any]) -> None:
    assert isinstance(put(view_of(stored_engram()), claim, **fields), EngramPut)


def test_a_claim_repeated_in_one_request_is_put_once() -> None:
    facts, ids = put_all(
        view_of(),
        [prepared("The parser trusts its input."), prepared("The parser trusts the input.")],
        caller=caller(),
        policy=DEFAULT_POLICY,
        randomness=no_randomness,
        field="engrams",
    )
    (fact,) = facts
    assert isinstance(fact, EngramPut)
    assert ids == [fact.engram.id] * 2


def test_an_id_can_be_used_once() -> None:
    with pytest.raises(IdTaken):
        put(view_of(stored_engram(id=OWN_ID)), "Another claim entirely.", id=OWN_ID)
    with pytest.raises(IdTaken) as caught:
        put_all(
            view_of(),
            [prepared("One claim.", id=OWN_ID), prepared("Another claim entirely.", id=OWN_ID)],
            caller=caller(),
            policy=DEFAULT_POLICY,
            randomness=no_randomness,
            field="engrams",
        )
    assert caught.value.field == "engrams[1].id"


def test_a_digest_must_have_been_read_in_the_run() -> None:
    item = with_digest(prepared(), DIGEST)
    with pytest.raises(PhantomRead):
        put_or_confirm(view_of(), item, caller=caller(), randomness=no_randomness)
    for view, author in ((view_of(read_digests=[DIGEST]), caller()), (view_of(), caller("admin"))):
        assert isinstance(put_or_confirm(view, item, caller=author, randomness=no_randomness)[0], EngramPut)


def test_an_agent_puts_a_limited_number_a_minute_and_the_admin_any() -> None:
    policy = Policy(engrams_per_minute=3)
    for by, puts in (("ada", 2), ("admin", 3)):
        facts, _ = put_one(view_of(puts=puts), prepared(), caller=caller(by), policy=policy, randomness=no_randomness)
        assert len(facts) == 1
    with pytest.raises(RateLimited) as caught:
        put_one(view_of(puts=3), prepared(), caller=caller(), policy=policy, randomness=no_randomness)
    assert (caught.value.limit, caught.value.used) == (3, 3)
