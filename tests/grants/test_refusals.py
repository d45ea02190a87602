"""A grant allows what its limits allow; everything else is refused with a code of its own."""  # EB-11

from __future__ import annotations

from typing import Any

import pytest

from engrambus.errors import BY_CODE, EngramBusError, FieldMissing, Forbidden, GrantRefusal
from engrambus.policy.grants import (
    BlockDebited,
    BlockSpending,
    GrantKey,
    attenuate,
    check_spend,
    debits,
)
from engrambus.policy.grants.targets import PointerTarget
from engrambus.policy.grants.tokens import read_token
from tests.grants.samples import (
    FILE,
    GRANT,
    HOUR,
    KEY,
    LINEAGES,
    LINES,
    NOON,
    OTHER_SHA,
    PROJECT,
    RUN,
    SHA,
    address,
    make_token,
    verify,
)


def test_a_grant_contains_its_origin_and_limits() -> None:
    grant = verify(make_token(intended_use='Is "this" atomic? ünï'))
    assert grant.origin.grant_id == GRANT
    assert (grant.origin.project, grant.origin.run, grant.origin.parent) == (PROJECT, RUN, "lead")
    assert grant.origin.intended_use == 'Is "this" atomic? ünï'
    (block,) = grant.blocks
    assert (block.child, block.cap_tokens, block.uses, block.expires_us) == ("dev", 500, 3, NOON + HOUR)
    assert block.target == PointerTarget(address=address(LINES))


def test_a_descendant_of_the_child_may_use_the_grant() -> None:
    assert verify(make_token(), lineage=LINEAGES["helper"])


@pytest.mark.parametrize(
    ("code", "changes", "limit", "used"),
    [
        ("GRANT_EXPIRED", {"now_us": NOON + HOUR}, "2026-01-08T13:00:00.000000Z", "2026-01-08T13:00:00.000000Z"),
        ("GRANT_EXPIRED", {"now_us": NOON + 24 * HOUR}, "2026-01-08T13:00:00.000000Z", "2026-01-09T12:00:00.000000Z"),
        ("GRANT_WRONG_CHILD", {"lineage": LINEAGES["tester"]}, "dev", "tester"),
        ("GRANT_WRONG_CHILD", {"lineage": LINEAGES["lead"]}, "dev", "lead"),
        ("GRANT_WRONG_CHILD", {"lineage": ()}, "dev", None),
        ("GRANT_WRONG_POINTER", {"pointer": address(FILE)}, LINES, FILE),
        ("GRANT_OVER_CAP", {"tokens": 501}, 500, 501),
        ("GRANT_OVER_CAP", {"pointer": None, "code_chars": 1, "tokens": 0}, 0, 1),
        ("GRANT_FOREIGN", {"project": "01K0000000000000000000PRJ2"}, None, None),
        ("GRANT_FOREIGN", {"run": "01K0000000000000000000RVN2"}, None, None),
        ("GRANT_FOREIGN", {"key": GrantKey(bytes(32))}, None, None),
        ("GRANT_TOO_DEEP", {"max_blocks": 0}, 0, 1),
        ("FIELD_VALUE", {"tokens": -1}, 2**53 - 1, -1),
        ("FIELD_VALUE", {"code_chars": -1}, 2**53 - 1, -1),
    ],
)
def test_each_refusal_has_its_code(code: str, changes: dict[str, Any], limit: Any, used: Any) -> None:
    with pytest.raises(BY_CODE[code]) as error:
        verify(make_token(), **changes)
    assert (error.value.limit, error.value.used) == (limit, used)
    if isinstance(error.value, GrantRefusal):
        assert isinstance(error.value, Forbidden)
        assert error.value.status == 403
        assert error.value.field == "budget_token"


def test_a_grant_is_valid_until_the_moment_it_expires() -> None:
    assert verify(make_token(), now_us=NOON + HOUR - 1)
    with pytest.raises(BY_CODE["GRANT_EXPIRED"]):
        verify(make_token(), now_us=NOON + HOUR)


def test_the_cap_can_be_used_up_completely() -> None:
    assert verify(make_token(), tokens=500)
    assert verify(make_token(cap_tokens=0), tokens=0)


def test_inline_code_needs_a_grant_that_allows_it() -> None:
    token = make_token(inline_code_chars=400)
    assert verify(token, pointer=None, tokens=0, code_chars=400).inline_code_chars == 400
    with pytest.raises(BY_CODE["GRANT_OVER_CAP"]) as error:
        verify(token, pointer=None, tokens=0, code_chars=401)
    assert (error.value.limit, error.value.used) == (400, 401)
    narrowed = attenuate(token, inline_code_chars=100)
    assert read_token(KEY, narrowed).inline_code_chars == 100
    with pytest.raises(BY_CODE["GRANT_OVER_CAP"]):
        verify(narrowed, pointer=None, tokens=0, code_chars=101)


def test_a_grant_of_another_project_is_foreign() -> None:
    with pytest.raises(BY_CODE["GRANT_FOREIGN"]):
        verify(make_token(project="01K0000000000000000000PRJ2"))


class TestSpending:
    def test_a_grant_cannot_be_used_more_often_than_its_uses(self) -> None:
        grant = verify(make_token())
        (block,) = grant.blocks
        check_spend(grant, {block.block_id: BlockSpending(tokens=10, uses=2)}, 10)
        with pytest.raises(BY_CODE["GRANT_SPENT"]) as error:
            check_spend(grant, {block.block_id: BlockSpending(tokens=10, uses=3)}, 10)
        assert (error.value.limit, error.value.used, error.value.field) == (3, 3, "budget_token")

    def test_the_cap_counts_all_uses_together(self) -> None:
        grant = verify(make_token())
        (block,) = grant.blocks
        check_spend(grant, {block.block_id: BlockSpending(tokens=400, uses=1)}, 100)
        with pytest.raises(BY_CODE["GRANT_OVER_CAP"]) as error:
            check_spend(grant, {block.block_id: BlockSpending(tokens=401, uses=1)}, 100)
        assert (error.value.limit, error.value.used) == (500, 501)
        assert "99 of its 500" in error.value.detail

    def test_a_negative_amount_is_refused(self) -> None:
        with pytest.raises(BY_CODE["FIELD_VALUE"]):
            check_spend(verify(make_token()), {}, -1)

    def test_every_block_is_debited(self) -> None:
        token = attenuate(attenuate(make_token(), child="helper", uses=2), cap_tokens=50)
        grant = verify(token, lineage=LINEAGES["helper"], tokens=40)
        assert debits(grant, 40, "helper") == tuple(
            BlockDebited(grant_id=GRANT, block_id=block.block_id, tokens=40, by="helper") for block in grant.blocks
        )
        assert len({block.block_id for block in grant.blocks}) == 3

    def test_tokens_narrowed_from_one_grant_share_its_cap(self) -> None:
        token = make_token()
        first_token, second_token = (verify(attenuate(token, cap_tokens=300)) for _ in range(2))
        assert second_token.blocks[0].block_id == first_token.blocks[0].block_id
        assert second_token.blocks[1].block_id != first_token.blocks[1].block_id
        spent = {block.block_id: BlockSpending(tokens=300, uses=1) for block in first_token.blocks}
        check_spend(second_token, spent, 200)
        with pytest.raises(BY_CODE["GRANT_OVER_CAP"]):
            check_spend(second_token, spent, 201)

    def test_revoking_a_block_revokes_its_subtree_only(self) -> None:
        token = make_token()
        child, sibling = attenuate(token, uses=2), attenuate(token, uses=2)
        grandchild = attenuate(child, uses=1)
        revoked = {read_token(KEY, child).blocks[-1].block_id}
        for dead_token in (child, grandchild):
            with pytest.raises(BY_CODE["GRANT_REVOKED"]) as error:
                check_spend(verify(dead_token), {}, 1, revoked)
            assert error.value.field == "budget_token"
        for live_token in (token, sibling):
            check_spend(verify(live_token), {}, 1, revoked)
        everything = {read_token(KEY, token).blocks[0].block_id}
        for dead_token in (token, child, sibling, grandchild):
            with pytest.raises(BY_CODE["GRANT_REVOKED"]):
                check_spend(verify(dead_token), {}, 1, everything)


class TestNarrowing:
    def test_narrowing_needs_no_key(self) -> None:
        narrowed = attenuate(
            make_token(), child="helper", pointer=f"repo:src/ledger/reservation.py#L5-L30@{SHA}", uses=1
        )
        assert verify(narrowed, lineage=LINEAGES["helper"])
        with pytest.raises(BY_CODE["GRANT_WRONG_CHILD"]):
            verify(narrowed)
        with pytest.raises(BY_CODE["GRANT_WRONG_POINTER"]):
            verify(
                narrowed,
                lineage=LINEAGES["helper"],
                pointer=address(f"repo:src/ledger/reservation.py#L4-L30@{SHA}"),
            )

    @pytest.mark.parametrize(
        ("wider", "use", "code"),
        [
            ({"cap_tokens": 10_000}, {"tokens": 501}, "GRANT_OVER_CAP"),
            ({"expires_us": NOON + 9 * HOUR}, {"now_us": NOON + HOUR}, "GRANT_EXPIRED"),
            ({"child": "tester"}, {"lineage": LINEAGES["tester"]}, "GRANT_WRONG_CHILD"),
            ({"child": "lead"}, {"lineage": LINEAGES["lead"]}, "GRANT_WRONG_CHILD"),
            ({"pointer": FILE}, {"pointer": address(FILE)}, "GRANT_WRONG_POINTER"),
            ({"prefix": f"repo:*@{SHA}"}, {"pointer": address(f"repo:x@{SHA}")}, "GRANT_WRONG_POINTER"),
            (
                {"inline_code_chars": 99},
                {"pointer": None, "code_chars": 99, "tokens": 0},
                "GRANT_OVER_CAP",
            ),
        ],
    )
    def test_narrowing_cannot_widen(self, wider: dict[str, Any], use: dict[str, Any], code: str) -> None:
        with pytest.raises(BY_CODE[code]):
            verify(attenuate(make_token(), **wider), **use)

    def test_more_uses_than_the_parent_has_do_not_help(self) -> None:
        grant = verify(attenuate(make_token(), uses=1000))
        with pytest.raises(BY_CODE["GRANT_SPENT"]):
            check_spend(grant, {grant.blocks[0].block_id: BlockSpending(uses=3)}, 0)

    def test_narrowing_without_a_limit_is_refused(self) -> None:
        with pytest.raises(FieldMissing):
            attenuate(make_token())

    def test_a_chain_has_at_most_eight_blocks(self) -> None:
        token = make_token()
        for uses in range(7):
            token = attenuate(token, uses=uses + 1)
        assert len(verify(token).blocks) == 8
        with pytest.raises(BY_CODE["GRANT_TOO_DEEP"]) as error:
            attenuate(token, uses=1)
        assert (error.value.limit, error.value.used, error.value.field) == (8, 9, "budget_token")
        too_deep = attenuate(token, uses=1, max_blocks=9)
        with pytest.raises(BY_CODE["GRANT_TOO_DEEP"]) as error:
            verify(too_deep)
        assert (error.value.limit, error.value.used) == (8, 9)
        assert verify(too_deep, max_blocks=9)


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
        ({"expires_us": -1}, "expires_us", "FIELD_VALUE"),
        ({"inline_code_chars": -1}, "inline_code_chars", "FIELD_VALUE"),
        ({"intended_use": "x" * 501}, "intended_use", "FIELD_VALUE"),
        ({"intended_use": "\ud800"}, "intended_use", "FIELD_VALUE"),
    ],
)
def test_an_invalid_grant_is_refused_with_its_field(changes: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(EngramBusError) as error:
        make_token(**changes)
    assert (error.value.field, error.value.code) == (field, code)


def test_the_admin_may_be_the_parent_and_the_largest_grant_fits() -> None:
    path = "x" * (300 - len(f"repo:@{SHA}"))
    token = make_token(parent="admin", pointer=f"repo:{path}@{SHA}", intended_use="文" * 500, cap_tokens=2**53 - 1)
    assert read_token(KEY, token).origin.parent == "admin"


def test_equal_grants_have_different_block_ids() -> None:
    assert read_token(KEY, make_token()).blocks[0].block_id != read_token(KEY, make_token()).blocks[0].block_id


def test_another_commit_is_another_pointer() -> None:
    with pytest.raises(BY_CODE["GRANT_WRONG_POINTER"]):
        verify(make_token(), pointer=address(f"repo:src/ledger/reservation.py#L10-L20@{OTHER_SHA}"))
