"""Turns, grants and dereferences driven by Hypothesis on one back end, beside a model in plain Python.

The model says of every dereference beforehand whether it must succeed; at the end the whole journal is audited, so that
no prefix of it overspends anything, whatever was restarted or deleted in between.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, rule

from engrambus.core import SECOND_US, estimate_tokens
from engrambus.errors import DerefDenied, EngramBusError, GrantRefusal
from engrambus.evidence.pointers import DerefAnswer, Pointer
from engrambus.policy.grants import attenuate, read_token
from engrambus.testing.client import GatewayClient, expect_refusal
from engrambus.testing.clock import ManualClock
from engrambus.testing.conformance.journal_figures import JournalFigures, check_figures
from engrambus.testing.fakes import SHA, repo_ref
from engrambus.testing.harness import Harness
from tests.harness.ledger import BlockLimits, Ledger

PARENTS = {"lead": None, "mia": "lead", "paul": "mia", "pia": "mia"}
ROLES = {"lead": "architect", "mia": "manager", "paul": "programmer", "pia": "programmer"}
POLICY = {"deref": {"repo": 2, "tokens": 220, "run_turns": 5}}
REFS = (repo_ref("src/a.py"), repo_ref("src/b.py", 3, 30), repo_ref("docs/c.md"))
TARGETS = {
    f"repo:src/a.py@{SHA}": REFS[:1],
    f"repo:src/*@{SHA}": REFS[:2],
    f"repo:*@{SHA}": REFS,
}
IDLE = 600 * SECOND_US
TOO_LONG = "It went on and on and said very little of any use. " * 80
CEILING = POLICY["deref"]["tokens"] * POLICY["deref"]["run_turns"]
"""What one agent may read in the whole run; a parent lowers turns, not this."""

agents = st.sampled_from(tuple(PARENTS))
targets = st.sampled_from(tuple(TARGETS))
caps = st.sampled_from((30, 90, 200, 1000))
uses = st.sampled_from((1, 1, 2, 5))


class Turn:
    """Where an agent stands, as the model has it."""

    def __init__(self) -> None:
        self.number, self.last_at, self.repo, self.tokens, self.in_run = 1, None, 0, 0, 0

    last_at: int | None

    def at(self, now: int) -> Turn:
        """Where it would stand now, moved on if it idled away; it is so only once something is committed."""
        moved = copy(self)
        if moved.last_at is not None and now - moved.last_at > IDLE:
            moved.close(now)
        return moved

    def close(self, now: int) -> None:
        """On to the next."""
        self.number, self.last_at, self.repo, self.tokens = self.number + 1, now, 0, 0


class Block:
    """One block of a budget token and what is left of it."""

    def __init__(self, child: str, refs: tuple[str, ...], cap: int, uses: int, expires_at: int) -> None:
        self.child, self.refs, self.cap, self.uses, self.expires_at = child, refs, cap, uses, expires_at
        self.revoked = False

    def pays(self, who: str, ref: str, now: int, least: int) -> bool:
        """Whether it lets this be read, at the least cost it could have."""
        fits = self.child in lineage(who) and ref in self.refs and now < self.expires_at
        return fits and not self.revoked and self.uses > 0 and self.cap >= least


class Token:
    """A budget token somebody holds, with its blocks."""

    def __init__(self, text: str, grant_id: str, parent: str, blocks: tuple[Block, ...]) -> None:
        self.text, self.grant_id, self.parent, self.blocks = text, grant_id, parent, blocks


def lineage(who: str) -> list[str]:
    """Somebody and its ancestors."""
    parent = PARENTS[who]
    return [who] if parent is None else [who, *lineage(parent)]


def least_cost(ref: str) -> int:
    """What an answer without a single line of the excerpt costs."""
    pointer = Pointer(type="repo", ref=ref)
    bare = DerefAnswer(excerpt="", pointer=pointer, content_digest="sha256:" + "0" * 64, truncated=True)
    return estimate_tokens(msgspec.json.encode(bare))


class BudgetRules(RuleBasedStateMachine):
    """One back end under the law. A subclass says which by `make_harness`."""

    make_harness: Callable[[ManualClock], Harness]

    tokens = Bundle("tokens")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.harness = type(self).make_harness(self.clock)
        self.client = GatewayClient(self.harness)
        self.turns = {name: Turn() for name in PARENTS}
        self.budgets: dict[str, dict[str, int]] = {}
        self.grants: list[Token] = []
        self.narrowed: dict[str, BlockLimits] = {}

    @initialize()
    def everybody_arrives(self) -> None:
        """A small tree of agents and a small policy."""
        self.client.call("apply_policy", policy=POLICY)
        self.who = {}
        for name, parent in PARENTS.items():
            self.who[name] = self.client.add_agent(name, ROLES[name], **({"parent": parent} if parent else {}))

    def teardown(self) -> None:
        """Whatever happened, no prefix of the journal overspends, and index and figures are what the journal says."""
        Ledger(self.narrowed).read(self.harness.journal_bytes())
        check_figures(self.client.call("stats", bucket="PT1M", last=168), JournalFigures(self.harness.journal_bytes()))
        assert self.harness.gateway.store.verify() == []
        self.harness.close()

    @property
    def now(self) -> int:
        """The project's clock: it never runs backwards past a commit."""
        with self.harness.gateway.store.read() as view:
            return view.as_of

    def limit(self, who: str, name: str, said: str) -> int:
        """A limit of the policy as the parents lowered it."""
        return min([POLICY["deref"][name], *(self.budgets.get(each, {}).get(said, 10**9) for each in lineage(who))])

    @rule(who=agents, ref=st.sampled_from(REFS), max_tokens=st.sampled_from((90, 400)))
    def deref(self, who: str, ref: str, max_tokens: int) -> None:
        """Read something without a token."""
        turn, least = self.turns[who].at(self.now), least_cost(ref)
        per_turn = self.limit(who, "tokens", "max_deref_tokens")
        in_run = CEILING - turn.in_run
        by_turn = turn.repo < self.limit(who, "repo", "max_repo_spans") and min(per_turn - turn.tokens, in_run) >= least
        paying = [grant for grant in self.grants if grant.blocks[0].pays(who, ref, self.now, least) and in_run >= least]
        if not by_turn and not paying:
            with expect_refusal("DEREF_DENIED"):
                self.client.deref(self.who[who], ref, max_tokens=max_tokens)
            return
        cost = self._read(who, turn, ref, max_tokens)
        if by_turn:
            turn.repo, turn.tokens = turn.repo + 1, turn.tokens + cost
            assert turn.tokens <= per_turn
        else:
            self._debit(paying[0].blocks, cost)  # the oldest that can

    @rule(who=agents, ref=st.sampled_from(REFS), max_tokens=st.sampled_from((90, 400)), token=tokens)
    def deref_with(self, who: str, ref: str, max_tokens: int, token: Token) -> None:
        """Read something with a token, be it one's own or not."""
        turn, least = self.turns[who].at(self.now), least_cost(ref)
        in_run = CEILING - turn.in_run
        if in_run >= least and all(block.pays(who, ref, self.now, least) for block in token.blocks):
            self._debit(token.blocks, self._read(who, turn, ref, max_tokens, budget_token=token.text))
            return
        try:
            self.client.deref(self.who[who], ref, max_tokens=max_tokens, budget_token=token.text)
        except (GrantRefusal, DerefDenied):
            return
        raise AssertionError("the token was taken")

    @rule(token=tokens, times=st.integers(2, 6))
    def use_up(self, token: Token, times: int) -> None:
        """Its last holder reads with a token until it is refused, and once more."""
        for _ in range(times):
            self.deref_with(token.blocks[-1].child, token.blocks[0].refs[0], 90, token)

    @rule(who=agents, times=st.integers(3, 5))
    def read_on(self, who: str, times: int) -> None:
        """Somebody reads on past the end of its turn."""
        for _ in range(times):
            self.deref(who, REFS[0], 90)

    def _read(self, who: str, turn: Turn, ref: str, max_tokens: int, **more: Any) -> int:
        cost = estimate_tokens(
            msgspec.json.encode(self.client.deref(self.who[who], ref, max_tokens=max_tokens, **more))
        )
        assert cost <= max_tokens
        self.turns[who] = turn
        turn.in_run, turn.last_at = turn.in_run + cost, self.now
        return cost

    def _debit(self, blocks: tuple[Block, ...], cost: int) -> None:
        for block in blocks:
            block.uses, block.cap = block.uses - 1, block.cap - cost
            assert block.cap >= 0

    @rule(who=agents)
    def report(self, who: str) -> None:
        """An accepted message closes the turn."""
        answer = self.client.report(self.who[who], role=ROLES[who])
        turn = self.turns[who] = self.turns[who].at(self.now)
        turn.close(self.now)
        assert answer.turn == turn.number

    @rule(who=agents)
    def say_too_much(self, who: str) -> None:
        """A message sent back closes nothing."""
        with expect_refusal("BUDGET_EXCEEDED"):
            self.client.report(self.who[who], TOO_LONG, role=ROLES[who])

    @rule(
        who=st.sampled_from(("lead", "mia")),
        budgets=st.sampled_from(({}, {"max_repo_spans": 1}, {"max_repo_spans": 9, "max_deref_tokens": 150})),
    )
    def broadcast(self, who: str, budgets: dict[str, int]) -> None:
        """A broadcast refills nothing and may lower what children get."""
        self.client.broadcast(self.who[who], "Go on.", role=ROLES[who], budgets=budgets)
        if budgets:
            self.budgets.update({child: budgets for child, parent in PARENTS.items() if parent == who})

    @rule(target=tokens, child=agents, by=agents, what=targets, cap=caps, uses=uses, minutes=st.sampled_from((5, 60)))
    def issue(self, child: str, by: str, what: str, cap: int, uses: int, minutes: int) -> Any:
        """A parent grants something to a descendant; nobody else can."""
        asked = {"child_id": child, "pointer": what, "cap_tokens": cap, "uses": uses, "expires_in": f"PT{minutes}M"}
        try:
            answer = self.client.call("issue_grant", self.who[by], **asked)
        except EngramBusError:
            assert child == by or by not in lineage(child)
            return multiple()
        assert child != by
        assert by in lineage(child)
        block = Block(child, TARGETS[what], cap, uses, self.now + minutes * 60 * SECOND_US)
        self.grants.append(Token(answer.budget_token, answer.grant_id, by, (block,)))
        return self.grants[-1]

    @rule(target=tokens, token=tokens, child=agents, cap=caps, uses=uses)
    def pass_on(self, token: Token, child: str, cap: int, uses: int) -> Any:
        """Whoever holds a token makes a narrower one of it; a larger number in it allows no more."""
        if len(token.blocks) >= 4:
            return multiple()
        text = attenuate(token.text, child=child, cap_tokens=cap, uses=uses)
        last = read_token(self.harness.gateway.grant_key, text).blocks[-1]
        self.narrowed[last.block_id] = BlockLimits(cap, uses)
        block = Block(child, REFS, cap, uses, token.blocks[0].expires_at)
        return Token(text, token.grant_id, token.parent, (*token.blocks, block))

    @rule(token=tokens)
    def revoke(self, token: Token) -> None:
        """Who gave a grant takes it back, with all that was narrowed from it."""
        self.client.call("revoke_grant", self.who[token.parent], id=token.grant_id)
        token.blocks[0].revoked = True

    @rule(seconds=st.sampled_from((-3600, -700, 1, 299, 301, 601, 3600)))
    def time_passes(self, seconds: int) -> None:
        """Also backwards."""
        self.clock.advance(seconds=seconds)

    @rule()
    def restart(self) -> None:
        """Another process opens the project."""
        self.harness.reopen()

    @rule()
    def lose_the_index(self) -> None:
        """Somebody deletes what can be rebuilt."""
        self.harness.delete_index()
