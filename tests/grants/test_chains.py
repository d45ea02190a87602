"""Narrowing a grant never allows more than the token it was narrowed from."""  # EB-11

from __future__ import annotations

from datetime import timedelta
from typing import Any

from biscuit_auth import AuthorizationError, AuthorizerBuilder, Biscuit
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from engrambus.errors import GrantRefusal, GrantTooDeep
from engrambus.policy.grants import (
    BlockSpending,
    VerifiedGrant,
    attenuate,
    check_spend,
    debits,
)
from engrambus.policy.grants.keys import split
from engrambus.policy.grants.targets import PointerTarget
from engrambus.policy.grants.tokens import read_token
from tests.grants.samples import HOUR, KEY, LINEAGES, NOON, PROJECT, RUN, SHA, address, make_token, refusal_code, verify

POINTERS = [f"repo:src/{path}{lines}@{SHA}" for path in ("a.py", "b/c.py") for lines in ("", "#L1-L9", "#L3-L5")]
PREFIXES = [f"repo:{folder}*@{SHA}" for folder in ("", "src/", "src/b/")]

narrowings = st.fixed_dictionaries(
    {},
    optional={
        "child": st.sampled_from(sorted(LINEAGES)),
        "target": st.one_of(
            st.sampled_from(POINTERS).map(lambda ref: ("pointer", ref)),
            st.sampled_from(PREFIXES).map(lambda prefix: ("prefix", prefix)),
        ),
        "cap_tokens": st.integers(0, 12),
        "uses": st.integers(1, 5),
        "expires_us": st.integers(NOON - 2, NOON + 2),
        "inline_code_chars": st.integers(0, 3),
    },
).filter(bool)
uses_of_grant = st.fixed_dictionaries(
    {
        "pointer": st.none() | st.sampled_from(POINTERS).map(address),
        "lineage": st.sampled_from(sorted(LINEAGES.values())),
        "now_us": st.integers(NOON - 2, NOON + 2),
        "tokens": st.integers(0, 12),
        "code_chars": st.integers(0, 3),
    }
)


def narrowed(token: str, narrowing: dict[str, Any]) -> str:
    limits = dict(narrowing)
    kind, text = limits.pop("target", ("pointer", None))
    return attenuate(token, **{kind: text}, **limits)


def chain(first: dict[str, Any], narrowed_by: list[dict[str, Any]]) -> list[str]:
    """A grant and the tokens narrowed from it, each from the previous one."""
    changes: dict[str, Any] = {"cap_tokens": 10, "inline_code_chars": 2, "target": ("prefix", PREFIXES[0])} | first
    kind, text = changes.pop("target")
    tokens = [make_token(**{"pointer": None, kind: text}, **changes)]
    for narrowing in narrowed_by:
        tokens.append(narrowed(tokens[-1], narrowing))
    return tokens


@given(first=narrowings, narrowed_by=st.lists(narrowings, max_size=7), use=uses_of_grant)
def test_a_chain_allows_no_more_than_each_of_its_ancestors(
    first: dict[str, Any], narrowed_by: list[dict[str, Any]], use: dict[str, Any]
) -> None:
    verdicts = [refusal_code(token, **use) is None for token in chain(first, narrowed_by)]
    assert verdicts == sorted(verdicts, reverse=True)


@given(first=narrowings, narrowed_by=st.lists(narrowings, max_size=4), use=uses_of_grant)
def test_the_biscuit_engine_gives_the_same_result(
    first: dict[str, Any], narrowed_by: list[dict[str, Any]], use: dict[str, Any]
) -> None:
    for token in chain(first, narrowed_by):
        assert (refusal_code(token, **use) is None) == engine_allows(token, use)


def engine_allows(token: str, use: dict[str, Any]) -> bool:
    """Run Biscuit's own engine on the signed checks, with the targets that cover the pointer as facts."""
    source = (
        "project({project}); run({run}); now({now}); tokens({tokens}); code({code}); allow if grant($a,$b,$c,$d,$e);"
    )
    values: dict[str, Any] = {
        "now": use["now_us"],
        "tokens": use["tokens"],
        "project": PROJECT,
        "run": RUN,
        "code": use["code_chars"],
    }
    builder: Any = AuthorizerBuilder(source, values)
    for name in use["lineage"]:
        builder.add_code("lineage({name})", {"name": name})
    for block in read_token(KEY, token).blocks:
        target = block.target
        if target is not None and (use["pointer"] is None or target.covers(use["pointer"])):
            kind = "pointer" if isinstance(target, PointerTarget) else "prefix"
            builder.add_code(f"{kind}({{text}})", {"text": target.text})
    limits = builder.limits()
    limits.max_time = timedelta(seconds=10)  # its own limit of one millisecond refuses at random on a busy machine
    builder.set_limits(limits)
    try:
        builder.build(Biscuit.from_base64(split(token)[1], KEY.public)).authorize()
    except AuthorizationError:
        return False
    return True


class GrantSpendingMachine(RuleBasedStateMachine):
    """Tokens are narrowed, spent and revoked in any order; the debits are the only state."""

    tokens: Bundle[str] = Bundle("tokens")
    revoked_tokens: Bundle[str] = Bundle("revoked_tokens")

    def __init__(self) -> None:
        super().__init__()
        self.spent: dict[str, BlockSpending] = {}
        self.revoked: set[str] = set()
        self.limits: dict[str, tuple[int | None, int | None]] = {}
        self.clock = NOON

    @initialize(target=tokens, cap=st.integers(0, 20), uses=st.integers(1, 6))
    def issue(self, cap: int, uses: int) -> str:
        return self.record(make_token(prefix=PREFIXES[0], cap_tokens=cap, uses=uses, expires_us=NOON + 4 * HOUR))

    @rule(target=tokens, token=tokens, cap=st.none() | st.integers(0, 30), uses=st.integers(1, 9))
    def narrow(self, token: str, cap: int | None, uses: int) -> Any:
        try:
            return self.record(attenuate(token, cap_tokens=cap, uses=uses))
        except GrantTooDeep:
            assert len(read_token(KEY, token).blocks) == 8
            return multiple()

    @rule(token=tokens, amount=st.integers(0, 8))
    def use(self, token: str, amount: int) -> None:
        try:
            grant = verify(token, pointer=address(POINTERS[0]), tokens=amount, now_us=self.clock)
            check_spend(grant, self.spent, amount, self.revoked)
        except GrantRefusal as refusal:
            assert self.must_refuse(read_token(KEY, token), amount), refusal  # noqa: PT017
            return
        assert not self.must_refuse(grant, amount)
        for debit in debits(grant, amount, "dev"):
            so_far = self.spent.get(debit.block_id, BlockSpending())
            self.spent[debit.block_id] = BlockSpending(tokens=so_far.tokens + debit.tokens, uses=so_far.uses + 1)

    @rule(target=revoked_tokens, token=consumes(tokens))
    def revoke(self, token: str) -> str:
        self.revoked.add(read_token(KEY, token).blocks[-1].block_id)
        return token

    @rule(hours=st.integers(0, 2))
    def time_passes(self, hours: int) -> None:
        self.clock += hours * HOUR // 2

    @rule(token=revoked_tokens)
    def a_revoked_token_stays_revoked(self, token: str) -> None:
        previous = dict(self.spent)
        self.use(token, 0)
        assert self.spent == previous

    @invariant()
    def nothing_is_overspent(self) -> None:
        for block_id, (cap, uses) in self.limits.items():
            so_far = self.spent.get(block_id, BlockSpending())
            assert cap is None or so_far.tokens <= cap
            assert uses is None or so_far.uses <= uses

    def record(self, token: str) -> str:
        for block in read_token(KEY, token).blocks:
            self.limits[block.block_id] = (block.cap_tokens, block.uses)
        return token

    def must_refuse(self, grant: Any, amount: int) -> bool:
        """True if the model, which only knows the totals, refuses too."""
        if self.clock >= NOON + 4 * HOUR:
            return True
        for block in grant.blocks:
            so_far = self.spent.get(block.block_id, BlockSpending())
            if block.block_id in self.revoked or so_far.uses + 1 > block.uses:
                return True
            if block.cap_tokens is not None and so_far.tokens + amount > block.cap_tokens:
                return True
        return False


TestGrantSpending = GrantSpendingMachine.TestCase
TestGrantSpending.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_only_a_checked_grant_is_a_verified_grant() -> None:
    token = make_token()
    assert isinstance(verify(token), VerifiedGrant)
    assert not isinstance(read_token(KEY, token), VerifiedGrant)
