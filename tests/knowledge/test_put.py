"""The rules of putting an engram, without a store."""  # EB-21

from __future__ import annotations

from typing import Any

import pytest

from engrambus.core import SECOND_US, parse_time
from engrambus.errors import BudgetExceeded, IdTaken, PhantomRead, RateLimited
from engrambus.knowledge.engrams import (
    EngramConfirmed,
    EngramPut,
    PromotionView,
    RecentPuts,
    put_all,
    put_one,
    put_or_confirm,
)
from engrambus.policy import DEFAULT_POLICY, Policy, Turn
from tests.knowledge.plain_view import (
    DAY_US,
    ENFORCED,
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


def put(view: PromotionView, claim: str = "The parser trusts its input.", by: str = "ada", **fields: Any) -> Any:
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
        limits=ENFORCED,
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
            limits=ENFORCED,
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


def rate_of(count: int, puts: list[RecentPuts], by: str = "ada", **policy: Any) -> RateLimited | None:
    """Return the refusal of putting `count` engrams after these puts."""
    claims = [prepared(f"Part {number} of the parser trusts its input.") for number in range(count)]
    try:
        put_all(
            view_of(puts=puts),
            claims,
            caller=caller(by),
            policy=Policy(**policy),
            limits=ENFORCED,
            randomness=no_randomness,
            field="engrams",
        )
    except RateLimited as refusal:
        return refusal
    return None


def seconds_ago(seconds: float, engrams: int = 1, by: str = "ada") -> RecentPuts:
    """Return puts that were made so long before now."""
    return RecentPuts(NOW_US - int(seconds * SECOND_US), f"{RUN.run_id}/{by}", engrams)


def test_an_agent_puts_a_limited_number_in_sixty_seconds_and_the_admin_any() -> None:
    for by, engrams in (("ada", 2), ("admin", 3)):
        assert rate_of(1, [seconds_ago(1, engrams)], by, engrams_per_minute=3) is None
    refusal = rate_of(1, [seconds_ago(1, 3)], engrams_per_minute=3)
    assert refusal is not None
    assert (refusal.field, refusal.limit, refusal.used) == ("engrams_per_minute", 3, 3)


@pytest.mark.parametrize(
    ("count", "ages", "wait"),
    [
        (1, [(59.5, 1), (30, 1), (10, 1)], 1),
        (2, [(59.5, 1), (30, 1), (10, 1)], 30),
        (3, [(59.5, 1), (30, 1), (10, 1)], 50),
        (1, [(40, 3)], 20),
        (1, [(60, 2), (20.5, 1), (1, 2)], 40),
    ],
)
def test_the_hint_names_the_time_after_which_the_puts_fit(count: int, ages: list[tuple[float, int]], wait: int) -> None:
    puts = [seconds_ago(*age) for age in ages]
    refusal = rate_of(count, puts, engrams_per_minute=3)
    assert refusal is not None
    assert refusal.hint == f"Try again in {wait} s."
    later = [row._replace(last_us=row.last_us - wait * SECOND_US) for row in puts]
    assert rate_of(count, later, engrams_per_minute=3) is None
    sooner = [row._replace(last_us=row.last_us - (wait - 1) * SECOND_US) for row in puts]
    assert rate_of(count, sooner, engrams_per_minute=3) is not None


def test_a_bulk_that_never_fits_is_told_so() -> None:
    refusal = rate_of(4, [], engrams_per_minute=3)
    assert refusal is not None
    assert "never fit" in refusal.detail
    assert "at most 3 at a time" in str(refusal.hint)


def test_a_lineage_has_a_rate_of_its_own() -> None:
    others = [seconds_ago(5, 6, by="lead"), seconds_ago(4, 5, by="eve")]
    assert rate_of(1, others, engrams_per_minute=3) is None  # 4 times one agent's by default
    refusal = rate_of(2, others, engrams_per_minute=3)
    assert refusal is not None
    assert (refusal.field, refusal.limit, refusal.used) == ("lineage_engrams_per_minute", 12, 11)
    assert "'lead' with all its descendants" in refusal.detail
    assert rate_of(2, others, engrams_per_minute=3, lineage_engrams_per_minute=13) is None


def test_tokens_put_in_a_turn_are_limited() -> None:  # EB-21
    policy = Policy(put_tokens_per_turn=100)

    def put_after(used: int, last_us: int = NOW_US) -> list[Any]:
        turn = Turn(number=4, last_us=last_us, put_tokens=used)
        facts, _ = put_one(
            view_of(turn=turn),
            prepared(),
            caller=caller(),
            policy=policy,
            limits=ENFORCED,
            randomness=no_randomness,
        )
        return facts

    (fact,) = put_after(90)
    assert (fact.turn, fact.put_tokens, fact.root) == (4, 10, "lead")
    with pytest.raises(BudgetExceeded) as caught:
        put_after(91)
    assert (caught.value.field, caught.value.limit, caught.value.used) == ("turn.put_tokens", 100, 101)
    (fact,) = put_after(91, NOW_US - 601 * SECOND_US)  # an idle turn has ended
    assert fact.turn == 5
