"""However a grant is passed on, nobody ever gets more than anyone before them."""  # EB-11

from __future__ import annotations

from datetime import timedelta
from typing import Any

from biscuit_auth import AuthorizationError, AuthorizerBuilder, Biscuit
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from engrambus.errors import GrantRefusal, GrantTooDeep
from engrambus.policy.grants import (
    PointerTarget,
    Spent,
    VerifiedGrant,
    attenuate,
    check_spend,
    debits,
    read,
)
from engrambus.policy.grants.keys import split
from tests.grants.tree import HOUR, KEY, LINEAGES, NOON, PROJECT, RUN, SHA, ask, at, make, refusal

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
        "expires_at": st.integers(NOON - 2, NOON + 2),
        "inline_code_chars": st.integers(0, 3),
    },
).filter(bool)
questions = st.fixed_dictionaries(
    {
        "pointer": st.none() | st.sampled_from(POINTERS).map(at),
        "lineage": st.sampled_from(sorted(LINEAGES.values())),
        "now": st.integers(NOON - 2, NOON + 2),
        "tokens": st.integers(0, 12),
        "code_chars": st.integers(0, 3),
    }
)


def narrowed(token: str, narrowing: dict[str, Any]) -> str:
    """The token, narrowed."""
    given_ = dict(narrowing)
    kind, text = given_.pop("target", ("pointer", None))
    return attenuate(token, **{kind: text}, **given_)


def chain(first: dict[str, Any], rest: list[dict[str, Any]]) -> list[str]:
    """A grant and everything narrowed from it, each from the one before."""
    changes: dict[str, Any] = {"cap_tokens": 10, "inline_code_chars": 2, "target": ("prefix", PREFIXES[0])} | first
    kind, text = changes.pop("target")
    tokens = [make(**{"pointer": None, kind: text}, **changes)]
    for narrowing in rest:
        tokens.append(narrowed(tokens[-1], narrowing))
    return tokens


@given(first=narrowings, rest=st.lists(narrowings, max_size=7), question=questions)
def test_a_chain_allows_no_more_than_each_of_its_ancestors(
    first: dict[str, Any], rest: list[dict[str, Any]], question: dict[str, Any]
) -> None:
    verdicts = [refusal(token, **question) is None for token in chain(first, rest)]
    assert verdicts == sorted(verdicts, reverse=True)


@given(first=narrowings, rest=st.lists(narrowings, max_size=4), question=questions)
def test_biscuit_itself_comes_to_the_same_verdict(
    first: dict[str, Any], rest: list[dict[str, Any]], question: dict[str, Any]
) -> None:
    for token in chain(first, rest):
        assert (refusal(token, **question) is None) == engine_allows(token, question)


def engine_allows(token: str, question: dict[str, Any]) -> bool:
    """What Biscuit's own engine makes of the signed checks, told which of their targets the pointer lies in."""
    source = (
        "project({project}); run({run}); now({now}); tokens({tokens}); code({code}); allow if grant($a,$b,$c,$d,$e);"
    )
    values: dict[str, Any] = {name: question[name] for name in ("now", "tokens")}
    values |= {"project": PROJECT, "run": RUN, "code": question["code_chars"]}
    builder: Any = AuthorizerBuilder(source, values)
    for name in question["lineage"]:
        builder.add_code("lineage({name})", {"name": name})
    for block in read(KEY, token).blocks:
        target = block.target
        if target is not None and (question["pointer"] is None or target.covers(question["pointer"])):
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


class Treasury(RuleBasedStateMachine):
    """Tokens are passed on, spent and revoked in any order; the journal's debits are the only memory."""

    tokens: Bundle[str] = Bundle("tokens")
    dead: Bundle[str] = Bundle("dead")

    def __init__(self) -> None:
        super().__init__()
        self.spent: dict[str, Spent] = {}
        self.revoked: set[str] = set()
        self.limits: dict[str, tuple[int | None, int | None]] = {}
        self.clock = NOON

    @initialize(target=tokens, cap=st.integers(0, 20), uses=st.integers(1, 6))
    def issued(self, cap: int, uses: int) -> str:
        return self.known(make(prefix=PREFIXES[0], cap_tokens=cap, uses=uses, expires_at=NOON + 4 * HOUR))

    @rule(target=tokens, token=tokens, cap=st.none() | st.integers(0, 30), uses=st.integers(1, 9))
    def passed_on(self, token: str, cap: int | None, uses: int) -> Any:
        try:
            return self.known(attenuate(token, cap_tokens=cap, uses=uses))
        except GrantTooDeep:
            assert len(read(KEY, token).blocks) == 8
            return multiple()

    @rule(token=tokens, amount=st.integers(0, 8))
    def used(self, token: str, amount: int) -> None:
        try:
            grant = ask(token, pointer=at(POINTERS[0]), tokens=amount, now=self.clock)
            check_spend(grant, self.spent, amount, self.revoked)
        except GrantRefusal as refused:
            assert self.excuse(read(KEY, token), amount), refused  # noqa: PT017
            return
        assert not self.excuse(grant, amount)
        for debit in debits(grant, amount, "dev"):
            so_far = self.spent.get(debit.block_id, Spent())
            self.spent[debit.block_id] = Spent(tokens=so_far.tokens + debit.tokens, uses=so_far.uses + 1)

    @rule(target=dead, token=consumes(tokens))
    def taken_back(self, token: str) -> str:
        self.revoked.add(read(KEY, token).blocks[-1].block_id)
        return token

    @rule(hours=st.integers(0, 2))
    def time_passes(self, hours: int) -> None:
        self.clock += hours * HOUR // 2

    @rule(token=dead)
    def stays_dead(self, token: str) -> None:
        before = dict(self.spent)
        self.used(token, 0)
        assert self.spent == before

    @invariant()
    def nothing_is_overspent(self) -> None:
        for block_id, (cap, uses) in self.limits.items():
            so_far = self.spent.get(block_id, Spent())
            assert cap is None or so_far.tokens <= cap
            assert uses is None or so_far.uses <= uses

    def known(self, token: str) -> str:
        for block in read(KEY, token).blocks:
            self.limits[block.block_id] = (block.cap_tokens, block.uses)
        return token

    def excuse(self, grant: Any, amount: int) -> bool:
        """Whether the model, which knows only sums, would refuse too."""
        if self.clock >= NOON + 4 * HOUR:
            return True
        for block in grant.blocks:
            so_far = self.spent.get(block.block_id, Spent())
            if block.block_id in self.revoked or so_far.uses + 1 > block.uses:
                return True
            if block.cap_tokens is not None and so_far.tokens + amount > block.cap_tokens:
                return True
        return False


TestTreasury = Treasury.TestCase
TestTreasury.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_verified_grant_is_a_value_of_its_own() -> None:
    token = make()
    assert isinstance(ask(token), VerifiedGrant)
    assert not isinstance(read(KEY, token), VerifiedGrant)
