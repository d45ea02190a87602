"""A grant allows what it says; everything else is refused by name."""  # EB-11

from __future__ import annotations

from typing import Any

import pytest

from engrambus.errors import BY_CODE, EngramBusError, FieldMissing, Forbidden, GrantRefusal
from engrambus.policy.grants import (
    GrantKey,
    GrantSpent,
    PointerTarget,
    Spent,
    attenuate,
    check_spend,
    debits,
    read,
)
from tests.grants.tree import FILE, GRANT, HOUR, KEY, LINEAGES, LINES, NOON, OTHER_SHA, PROJECT, RUN, SHA, ask, at, make


def test_a_grant_says_what_it_was_given_for() -> None:
    grant = ask(make(intended_use='Is "this" atomic? ünï'))
    assert grant.origin.grant_id == GRANT
    assert (grant.origin.project, grant.origin.run, grant.origin.parent) == (PROJECT, RUN, "lead")
    assert grant.origin.intended_use == 'Is "this" atomic? ünï'
    (block,) = grant.blocks
    assert (block.child, block.cap_tokens, block.uses, block.expires_at) == ("dev", 500, 3, NOON + HOUR)
    assert block.target == PointerTarget(address=at(LINES))


def test_a_descendant_of_the_child_may_use_it() -> None:
    assert ask(make(), lineage=LINEAGES["helper"])


@pytest.mark.parametrize(
    ("code", "changes", "limit", "used"),
    [
        ("GRANT_EXPIRED", {"now": NOON + HOUR}, "2026-01-08T13:00:00.000000Z", "2026-01-08T13:00:00.000000Z"),
        ("GRANT_EXPIRED", {"now": NOON + 24 * HOUR}, "2026-01-08T13:00:00.000000Z", "2026-01-09T12:00:00.000000Z"),
        ("GRANT_WRONG_CHILD", {"lineage": LINEAGES["tester"]}, "dev", None),
        ("GRANT_WRONG_CHILD", {"lineage": LINEAGES["lead"]}, "dev", None),
        ("GRANT_WRONG_CHILD", {"lineage": ()}, "dev", None),
        ("GRANT_WRONG_POINTER", {"pointer": at(FILE)}, LINES, FILE),
        ("GRANT_OVER_CAP", {"tokens": 501}, 500, 501),
        ("GRANT_OVER_CAP", {"pointer": None, "code_chars": 1, "tokens": 0}, 0, 1),
        ("GRANT_FOREIGN", {"project": "01K0000000000000000000PRJ2"}, None, None),
        ("GRANT_FOREIGN", {"run": "01K0000000000000000000RVN2"}, None, None),
        ("GRANT_FOREIGN", {"key": GrantKey(bytes(32))}, None, None),
        ("GRANT_TOO_DEEP", {"max_depth": 0}, 0, 1),
        ("FIELD_VALUE", {"tokens": -1}, 2**53 - 1, -1),
        ("FIELD_VALUE", {"code_chars": -1}, 2**53 - 1, -1),
    ],
)
def test_each_refusal_has_its_code(code: str, changes: dict[str, Any], limit: Any, used: Any) -> None:
    with pytest.raises(BY_CODE[code]) as refused:
        ask(make(), **changes)
    assert (refused.value.limit, refused.value.used) == (limit, used)
    if isinstance(refused.value, GrantRefusal):
        assert isinstance(refused.value, Forbidden)
        assert refused.value.status == 403
        assert refused.value.field == "budget_token"


def test_a_grant_is_good_until_the_moment_it_expires() -> None:
    assert ask(make(), now=NOON + HOUR - 1)
    with pytest.raises(BY_CODE["GRANT_EXPIRED"]):
        ask(make(), now=NOON + HOUR)


def test_all_of_the_cap_may_be_used() -> None:
    assert ask(make(), tokens=500)
    assert ask(make(cap_tokens=0), tokens=0)


def test_inline_code_needs_a_grant_that_allows_it_and_no_pointer() -> None:
    token = make(inline_code_chars=400)
    assert ask(token, pointer=None, tokens=0, code_chars=400).inline_code_chars == 400
    with pytest.raises(BY_CODE["GRANT_OVER_CAP"]) as refused:
        ask(token, pointer=None, tokens=0, code_chars=401)
    assert (refused.value.limit, refused.value.used) == (400, 401)
    narrowed = attenuate(token, inline_code_chars=100)
    assert read(KEY, narrowed).inline_code_chars == 100
    with pytest.raises(BY_CODE["GRANT_OVER_CAP"]):
        ask(narrowed, pointer=None, tokens=0, code_chars=101)


def test_the_same_key_under_another_project_is_foreign() -> None:
    with pytest.raises(BY_CODE["GRANT_FOREIGN"]):
        ask(make(project="01K0000000000000000000PRJ2"))


class TestSpending:
    def test_replayed_beyond_its_uses(self) -> None:
        grant = ask(make())
        (block,) = grant.blocks
        check_spend(grant, {block.block_id: Spent(tokens=10, uses=2)}, 10)
        with pytest.raises(BY_CODE["GRANT_SPENT"]) as refused:
            check_spend(grant, {block.block_id: Spent(tokens=10, uses=3)}, 10)
        assert (refused.value.limit, refused.value.used, refused.value.field) == (3, 3, "budget_token")

    def test_the_cap_counts_all_uses_together(self) -> None:
        grant = ask(make())
        (block,) = grant.blocks
        check_spend(grant, {block.block_id: Spent(tokens=400, uses=1)}, 100)
        with pytest.raises(BY_CODE["GRANT_OVER_CAP"]) as refused:
            check_spend(grant, {block.block_id: Spent(tokens=401, uses=1)}, 100)
        assert (refused.value.limit, refused.value.used) == (500, 501)
        assert "99 of its 500" in refused.value.detail

    def test_a_negative_amount_credits_nobody(self) -> None:
        with pytest.raises(BY_CODE["FIELD_VALUE"]):
            check_spend(ask(make()), {}, -1)

    def test_every_block_is_debited(self) -> None:
        token = attenuate(attenuate(make(), child="helper", uses=2), cap_tokens=50)
        grant = ask(token, lineage=LINEAGES["helper"], tokens=40)
        assert debits(grant, 40, "helper") == tuple(
            GrantSpent(grant_id=GRANT, block_id=block.block_id, tokens=40, by="helper") for block in grant.blocks
        )
        assert len({block.block_id for block in grant.blocks}) == 3

    def test_siblings_share_what_their_parent_was_given(self) -> None:
        token = make()
        one, two = (ask(attenuate(token, cap_tokens=300)) for _ in range(2))
        first = one.blocks[0].block_id
        assert two.blocks[0].block_id == first
        assert two.blocks[1].block_id != one.blocks[1].block_id
        spent = {block.block_id: Spent(tokens=300, uses=1) for block in one.blocks}
        check_spend(two, spent, 200)
        with pytest.raises(BY_CODE["GRANT_OVER_CAP"]):
            check_spend(two, spent, 201)

    def test_revoking_takes_the_subtree_and_nothing_else(self) -> None:
        token = make()
        child, sibling = attenuate(token, uses=2), attenuate(token, uses=2)
        grandchild = attenuate(child, uses=1)
        revoked = {read(KEY, child).blocks[-1].block_id}
        for dead in (child, grandchild):
            with pytest.raises(BY_CODE["GRANT_REVOKED"]) as refused:
                check_spend(ask(dead), {}, 1, revoked)
            assert refused.value.field == "budget_token"
        for live in (token, sibling):
            check_spend(ask(live), {}, 1, revoked)
        everything = {read(KEY, token).blocks[0].block_id}
        for dead in (token, child, sibling, grandchild):
            with pytest.raises(BY_CODE["GRANT_REVOKED"]):
                check_spend(ask(dead), {}, 1, everything)


class TestNarrowing:
    def test_it_needs_no_key(self) -> None:
        narrowed = attenuate(make(), child="helper", pointer=f"repo:src/ledger/reservation.py#L5-L30@{SHA}", uses=1)
        assert ask(narrowed, lineage=LINEAGES["helper"])
        with pytest.raises(BY_CODE["GRANT_WRONG_CHILD"]):
            ask(narrowed)
        with pytest.raises(BY_CODE["GRANT_WRONG_POINTER"]):
            ask(
                narrowed,
                lineage=LINEAGES["helper"],
                pointer=at(f"repo:src/ledger/reservation.py#L4-L30@{SHA}"),
            )

    @pytest.mark.parametrize(
        ("wider", "asked", "code"),
        [
            ({"cap_tokens": 10_000}, {"tokens": 501}, "GRANT_OVER_CAP"),
            ({"expires_at": NOON + 9 * HOUR}, {"now": NOON + HOUR}, "GRANT_EXPIRED"),
            ({"child": "tester"}, {"lineage": LINEAGES["tester"]}, "GRANT_WRONG_CHILD"),
            ({"child": "lead"}, {"lineage": LINEAGES["lead"]}, "GRANT_WRONG_CHILD"),
            ({"pointer": FILE}, {"pointer": at(FILE)}, "GRANT_WRONG_POINTER"),
            ({"prefix": f"repo:*@{SHA}"}, {"pointer": at(f"repo:x@{SHA}")}, "GRANT_WRONG_POINTER"),
            (
                {"inline_code_chars": 99},
                {"pointer": None, "code_chars": 99, "tokens": 0},
                "GRANT_OVER_CAP",
            ),
        ],
    )
    def test_it_cannot_widen(self, wider: dict[str, Any], asked: dict[str, Any], code: str) -> None:
        with pytest.raises(BY_CODE[code]):
            ask(attenuate(make(), **wider), **asked)

    def test_more_uses_than_the_parent_has_are_worth_nothing(self) -> None:
        grant = ask(attenuate(make(), uses=1000))
        with pytest.raises(BY_CODE["GRANT_SPENT"]):
            check_spend(grant, {grant.blocks[0].block_id: Spent(uses=3)}, 0)

    def test_to_nothing_in_particular_is_refused(self) -> None:
        with pytest.raises(FieldMissing):
            attenuate(make())

    def test_a_chain_has_an_end(self) -> None:
        token = make()
        for uses in range(7):
            token = attenuate(token, uses=uses + 1)
        assert len(ask(token).blocks) == 8
        with pytest.raises(BY_CODE["GRANT_TOO_DEEP"]) as refused:
            attenuate(token, uses=1)
        assert (refused.value.limit, refused.value.used, refused.value.field) == (8, 9, "budget_token")
        too_deep = attenuate(token, uses=1, max_depth=9)
        with pytest.raises(BY_CODE["GRANT_TOO_DEEP"]) as refused:
            ask(too_deep)
        assert (refused.value.limit, refused.value.used) == (8, 9)
        assert ask(too_deep, max_depth=9)


@pytest.mark.parametrize(
    ("changes", "field", "code"),
    [
        ({"pointer": None}, "pointer", "FIELD_MISSING"),
        ({"pointer": FILE, "prefix": f"repo:src/*@{SHA}"}, "prefix", "FIELD_VALUE"),
        ({"pointer": "repo:src/x.py"}, "pointer", "POINTER_NOT_PINNED"),
        ({"child": "Dev Two"}, "child", "FIELD_VALUE"),
        ({"child": "admin"}, "child", "FIELD_VALUE"),
        ({"parent": 'x"); grant("y'}, "parent", "FIELD_VALUE"),
        ({"grant_id": 'x"'}, "grant_id", "FIELD_VALUE"),
        ({"run": "a\n"}, "run", "FIELD_VALUE"),
        ({"project": ""}, "project", "FIELD_VALUE"),
        ({"cap_tokens": -1}, "cap_tokens", "FIELD_VALUE"),
        ({"cap_tokens": 2**53}, "cap_tokens", "FIELD_VALUE"),
        ({"uses": 0}, "uses", "FIELD_VALUE"),
        ({"expires_at": -1}, "expires_at", "FIELD_VALUE"),
        ({"inline_code_chars": -1}, "inline_code_chars", "FIELD_VALUE"),
        ({"intended_use": "x" * 501}, "intended_use", "FIELD_VALUE"),
        ({"intended_use": "\ud800"}, "intended_use", "FIELD_VALUE"),
    ],
)
def test_what_cannot_be_granted(changes: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(EngramBusError) as refused:
        make(**changes)
    assert (refused.value.field, refused.value.code) == (field, code)


def test_the_admin_may_be_the_parent_and_the_largest_grant_fits() -> None:
    path = "x" * (300 - len(f"repo:@{SHA}"))
    token = make(parent="admin", pointer=f"repo:{path}@{SHA}", intended_use="文" * 500, cap_tokens=2**53 - 1)
    assert read(KEY, token).origin.parent == "admin"


def test_ids_are_not_shared_between_grants_that_say_the_same() -> None:
    assert read(KEY, make()).blocks[0].block_id != read(KEY, make()).blocks[0].block_id


def test_another_commit_is_another_pointer() -> None:
    with pytest.raises(BY_CODE["GRANT_WRONG_POINTER"]):
        ask(make(), pointer=at(f"repo:src/ledger/reservation.py#L10-L20@{OTHER_SHA}"))
