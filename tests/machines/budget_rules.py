"""Turns, grants and dereferences driven by Hypothesis on one back end, next to a model in plain Python.

The model says of every dereference beforehand whether it must succeed; at the end the whole journal is audited, so that
no prefix of it overspends anything, however often the project was reopened or its index deleted.
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
from engrambus.evidence.pointers import DerefAnswer, Pointer, RepoAddress, parse_ref
from engrambus.gateway import Credential
from engrambus.policy.grants import MAX_BLOCKS, attenuate
from engrambus.policy.grants.tokens import read_token
from engrambus.testing.client import GatewayClient, expect_refusal
from engrambus.testing.clock import ManualClock
from engrambus.testing.conformance.journal_figures import JournalFigures, check_figures
from engrambus.testing.fakes import SHA, FakeRepository, repo_ref
from engrambus.testing.harness import Harness
from tests.harness.ledger import BlockLimits, Ledger

PARENTS = {"lead": None, "mia": "lead", "paul": "mia", "pia": "mia"}
ROLES = {"lead": "architect", "mia": "manager", "paul": "programmer", "pia": "programmer"}
SESSION_TURNS = {"lead": 1, "mia": 1, "paul": 1, "pia": 2}
DEREF = {"repo": 2, "tokens": 440, "run_turns": 5, "team_turns": 10}
PUT_TOKENS = 60
POLICY = {"deref": DEREF, "put_tokens_per_turn": PUT_TOKENS, "engrams_per_minute": 1000}
REFS = (repo_ref("src/a.py"), repo_ref("src/b.py", 3, 30), repo_ref("docs/c.md"))
TARGETS = {
    f"repo:src/a.py@{SHA}": REFS[:1],
    f"repo:src/*@{SHA}": REFS[:2],
    f"repo:*@{SHA}": REFS,
}
IDLE, SESSION_IDLE = 600 * SECOND_US, 60 * SECOND_US
TOO_LONG = "It went on and on and said very little of any use. " * 80
CEILING = DEREF["tokens"] * DEREF["run_turns"]
"""What one agent may read in the whole run; a parent lowers turns, not this."""
TEAM_CEILING = DEREF["tokens"] * DEREF["team_turns"]

agents = st.sampled_from(tuple(PARENTS))
targets = st.sampled_from(tuple(TARGETS))
caps = st.sampled_from((60, 180, 400, 2000))
uses = st.sampled_from((1, 1, 2, 5))


class Turn:
    """The turn of an agent in the model."""

    def __init__(self, idle: int) -> None:
        self.number, self.last_at, self.repo, self.tokens, self.in_run, self.put = 1, None, 0, 0, 0, 0
        self.idle = idle

    last_at: int | None

    def as_of(self, now: int) -> Turn:
        """Return the turn as of now: the next one after an idle pause."""
        moved = copy(self)
        if moved.last_at is not None and now - moved.last_at > self.idle:
            moved.close(now)
        return moved

    def close(self, now: int) -> None:
        """Begin the next turn."""
        self.number, self.last_at, self.repo, self.tokens, self.put = self.number + 1, now, 0, 0, 0


class Block:
    """One block of a budget token, with the uses and tokens it has left."""

    def __init__(self, child: str, refs: tuple[str, ...], cap: int, uses: int, expires_at: int) -> None:
        self.child, self.refs, self.cap, self.uses, self.expires_at = child, refs, cap, uses, expires_at
        self.revoked = False

    def pays(self, agent: str, ref: str, now: int, least: int) -> bool:
        """True if it allows this read at its least possible cost."""
        fits = self.child in lineage(agent) and ref in self.refs and now < self.expires_at
        return fits and not self.revoked and self.uses > 0 and self.cap >= least


class Token:
    """A budget token with its blocks: a handle, which only its holder can use, or a Biscuit."""

    def __init__(
        self, text: str, grant_id: str, parent: str, blocks: tuple[Block, ...], issuer: str | None = None
    ) -> None:
        self.text, self.grant_id, self.parent, self.blocks = text, grant_id, parent, blocks
        self.issuer = issuer or parent
        """The agent that gave the first grant of the chain."""

    @property
    def is_handle(self) -> bool:
        """True if the text is a handle."""
        return self.text.startswith("g_")

    def pays(self, agent: str, ref: str, now: int, least: int) -> bool:
        """True if every block allows this read at its least possible cost."""
        if self.is_handle and agent != self.blocks[-1].child:
            return False
        return all(block.pays(agent, ref, now, least) for block in self.blocks)


def lineage(agent: str) -> list[str]:
    """Return an agent and its ancestors."""
    parent = PARENTS[agent]
    return [agent] if parent is None else [agent, *lineage(parent)]


def least_cost(ref: str) -> int:
    """Return the cost of an answer without any line of the excerpt."""
    pointer = Pointer(type="repo", ref=ref)
    address = parse_ref(ref)
    assert isinstance(address, RepoAddress)
    digest = FakeRepository().resolve(address).digest
    bare = DerefAnswer(excerpt="", pointer=pointer, content_digest=digest, truncated=True)
    return estimate_tokens(msgspec.json.encode(bare))


def payers_of(agent: str, speaker: str) -> list[str]:
    """Return who pays: the agent, and a speaker that is another agent and may speak for it."""
    return [agent, speaker] if speaker in lineage(agent)[1:] else [agent]


def is_freed(payer: str, reader: str, grant: Token) -> bool:
    """True if the grant pays instead of a payer's turn: a speaker's only if it was not granted by itself or below."""
    return payer == reader or payer not in lineage(grant.issuer)


class BudgetRules(RuleBasedStateMachine):
    """One back end checked against the model. A subclass chooses it with `make_harness`."""

    make_harness: Callable[[ManualClock], Harness]

    tokens = Bundle("tokens")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.harness = type(self).make_harness(self.clock)
        self.client = GatewayClient(self.harness)
        self.turns = {name: Turn(SESSION_IDLE if times > 1 else IDLE) for name, times in SESSION_TURNS.items()}
        self.by_team = 0
        self.puts = 0
        self.budgets: dict[str, dict[str, int]] = {}
        self.grants: list[Token] = []
        self.narrowed: dict[str, BlockLimits] = {}

    @initialize()
    def add_agents(self) -> None:
        """A small tree of agents and a small policy."""
        self.client.call("apply_policy", policy=POLICY)
        self.credentials = {}
        for name, parent in PARENTS.items():
            of_parent = {"parent": parent} if parent else {}
            turns = SESSION_TURNS[name]
            self.credentials[name] = self.client.add_agent(name, ROLES[name], session_turns=turns, **of_parent)

    def teardown(self) -> None:
        """Check that no prefix of the journal overspends, and that index and figures equal the journal."""
        Ledger(self.narrowed).read(self.harness.journal_bytes())
        check_figures(self.client.call("stats", bucket="PT1M", last=168), JournalFigures(self.harness.journal_bytes()))
        assert self.harness.gateway.store.verify() == []
        self.harness.close()

    @property
    def now(self) -> int:
        """The project's clock: it never runs backwards past a commit."""
        with self.harness.gateway.store.read() as view:
            return view.as_of

    @property
    def expiry(self) -> int:
        """The time as of which grants have expired: it waits while the machine's clock is behind the journal."""
        with self.harness.gateway.store.read() as view:
            return view.expiry_us

    def limit(self, agent: str, name: str, budget: str) -> int:
        """A limit of the policy as the parents lowered it."""
        return min(
            [
                DEREF[name] * SESSION_TURNS[agent],
                *(self.budgets.get(name_in_line, {}).get(budget, 10**9) for name_in_line in lineage(agent)),
            ]
        )

    def has_room(self, agent: str, least: int, *, granted: bool = False) -> bool:
        """True if the agent can pay for the smallest answer: by its ceiling and, unless granted, by its turn."""
        turn = self.turns[agent].as_of(self.now)
        if min(CEILING - turn.in_run, TEAM_CEILING - self.by_team) < least:
            return False
        per_turn = self.limit(agent, "tokens", "max_deref_tokens")
        return granted or (turn.repo < self.limit(agent, "repo", "max_repo_spans") and per_turn - turn.tokens >= least)

    @rule(agent=agents, speaker=agents, ref=st.sampled_from(REFS), max_tokens=st.sampled_from((180, 800)))
    def deref(self, agent: str, speaker: str, ref: str, max_tokens: int) -> None:
        """Read something without a token, as oneself or by a speaker that is an ancestor."""
        least, payers = least_cost(ref), payers_of(agent, speaker)
        by_turn = all(self.has_room(payer, least) for payer in payers)
        paying = [grant for grant in self.grants if self.grant_pays(grant, payers, ref, least)]
        if not by_turn and not paying:
            with expect_refusal("DEREF_DENIED"):
                self.client.deref(self._credential(payers), ref, max_tokens=max_tokens)
            return
        grant = None if by_turn else paying[0]  # the oldest that can
        self._read(payers, ref, max_tokens, grant)
        for payer in payers if by_turn else ():  # a grant also pays where a parent lowered the turn below what was read
            assert self.turns[payer].tokens <= self.limit(payer, "tokens", "max_deref_tokens")

    def grant_pays(self, grant: Token, payers: list[str], ref: str, least: int) -> bool:
        """True if the grant and all payers allow this read at its least possible cost."""
        fits = grant.pays(payers[0], ref, self.expiry, least)
        return fits and all(self.has_room(payer, least, granted=is_freed(payer, payers[0], grant)) for payer in payers)

    @rule(agent=agents, speaker=agents, ref=st.sampled_from(REFS), max_tokens=st.sampled_from((180, 800)), token=tokens)
    def deref_with(self, agent: str, speaker: str, ref: str, max_tokens: int, token: Token) -> None:
        """Read something with a token, the agent's own or another's."""
        payers = payers_of(agent, speaker)
        if self.grant_pays(token, payers, ref, least_cost(ref)):
            self._read(payers, ref, max_tokens, token, budget_token=token.text)
            return
        try:
            self.client.deref(self._credential(payers), ref, max_tokens=max_tokens, budget_token=token.text)
        except (GrantRefusal, DerefDenied):
            return
        raise AssertionError("the token was taken")

    @rule(agent=agents, speaker=agents, count=st.integers(1, 4), size=st.sampled_from((1, 12)))
    def put(self, agent: str, speaker: str, count: int, size: int) -> None:
        """Put some engrams at once, as oneself or by a speaker that is an ancestor."""
        payers = payers_of(agent, speaker)
        claims = [f"Part {self.puts + number} holds{' and holds' * size}." for number in range(count)]
        self.puts += count
        cost = sum(map(estimate_tokens, claims))
        turns = {payer: self.turns[payer].as_of(self.now) for payer in payers}
        if any(turn.put + cost > PUT_TOKENS * SESSION_TURNS[payer] for payer, turn in turns.items()):
            with expect_refusal("BUDGET_EXCEEDED", "turn.put_tokens"):
                self.client.put_many(claims, self._credential(payers))
            return
        self.client.put_many(claims, self._credential(payers))
        for payer, turn in turns.items():
            turn.put, turn.last_at = turn.put + cost, self.now
            self.turns[payer] = turn

    @rule(token=tokens, times=st.integers(2, 6))
    def use_up(self, token: Token, times: int) -> None:
        """Read with a token until it is refused, and once more."""
        for _ in range(times):
            child = token.blocks[-1].child
            self.deref_with(child, child, token.blocks[0].refs[0], 180, token)

    @rule(agent=agents, times=st.integers(3, 5))
    def read_on(self, agent: str, times: int) -> None:
        """Read past the limits of a turn."""
        for _ in range(times):
            self.deref(agent, agent, REFS[0], 180)

    def _credential(self, payers: list[str]) -> Credential:
        """The credential of the agent itself, or of the speaker with the agent's name."""
        return msgspec.structs.replace(self.credentials[payers[-1]], speak_as=payers[0])

    def _read(self, payers: list[str], ref: str, max_tokens: int, grant: Token | None, **fields: Any) -> None:
        """Read and charge the cost to every payer, once to the team, and to the blocks of the grant."""
        answer = self.client.deref(self._credential(payers), ref, max_tokens=max_tokens, **fields)
        cost = estimate_tokens(msgspec.json.encode(answer))
        assert cost <= max_tokens
        self.by_team += cost
        for payer in payers:
            turn = self.turns[payer] = self.turns[payer].as_of(self.now)
            turn.in_run, turn.last_at = turn.in_run + cost, self.now
            if grant is None or not is_freed(payer, payers[0], grant):
                turn.repo, turn.tokens = turn.repo + 1, turn.tokens + cost
        for block in grant.blocks if grant is not None else ():
            block.uses, block.cap = block.uses - 1, block.cap - cost
            assert block.cap >= 0

    @rule(agent=agents)
    def report(self, agent: str) -> None:
        """An accepted message closes the turn."""
        answer = self.client.report(self.credentials[agent], role=ROLES[agent])
        turn = self.turns[agent] = self.turns[agent].as_of(self.now)
        turn.close(self.now)
        assert answer.turn == turn.number

    @rule(agent=agents)
    def send_too_long_a_message(self, agent: str) -> None:
        """A rejected message closes no turn."""
        with expect_refusal("BUDGET_EXCEEDED"):
            self.client.report(self.credentials[agent], TOO_LONG, role=ROLES[agent])

    @rule(
        agent=st.sampled_from(("lead", "mia")),
        budgets=st.sampled_from(({}, {"max_repo_spans": 1}, {"max_repo_spans": 9, "max_deref_tokens": 300})),
    )
    def broadcast(self, agent: str, budgets: dict[str, int]) -> None:
        """A broadcast restores no budget and may lower those of children."""
        self.client.broadcast(self.credentials[agent], "Go on.", role=ROLES[agent], budgets=budgets)
        if budgets:
            self.budgets.update({child: budgets for child, parent in PARENTS.items() if parent == agent})

    @rule(
        target=tokens,
        child=agents,
        by=agents,
        target_pointer=targets,
        cap=caps,
        uses=uses,
        minutes=st.sampled_from((5, 60)),
    )
    def issue(self, child: str, by: str, target_pointer: str, cap: int, uses: int, minutes: int) -> Any:
        """Issue a grant, which only an ancestor may."""
        request = {
            "child_id": child,
            "pointer": target_pointer,
            "cap_tokens": cap,
            "uses": uses,
            "expires_in": f"PT{minutes}M",
            "biscuit": True,
        }
        try:
            answer = self.client.call("issue_grant", self.credentials[by], **request)
        except EngramBusError:
            assert child == by or by not in lineage(child)
            return multiple()
        assert child != by
        assert by in lineage(child)
        block = Block(child, TARGETS[target_pointer], cap, uses, self.now + minutes * 60 * SECOND_US)
        self.grants.append(Token(answer.budget_token, answer.grant_id, by, (block,)))
        return multiple(self.grants[-1], Token(answer.biscuit, answer.grant_id, by, (block,)))

    @rule(target=tokens, token=tokens, child=agents, cap=caps, uses=uses)
    def pass_on(self, token: Token, child: str, cap: int, uses: int) -> Any:
        """Attenuate a token; a larger number in it allows no more."""
        if len(token.blocks) >= 4 or token.is_handle:
            return multiple()
        text = attenuate(token.text, child=child, cap_tokens=cap, uses=uses)
        last = read_token(self.harness.gateway.grant_key, text).blocks[-1]
        self.narrowed[last.block_id] = BlockLimits(cap, uses)
        block = Block(child, REFS, cap, uses, token.blocks[0].expires_at)
        return Token(text, token.grant_id, token.parent, (*token.blocks, block), token.issuer)

    @rule(target=tokens, token=tokens, by=agents, child=agents, cap=caps, uses=uses)
    def narrow(self, token: Token, by: str, child: str, cap: int, uses: int) -> Any:
        """Pass a grant on at the gateway, which refuses to pass on more than is left."""
        blocks = token.blocks
        allowed = (
            (by == blocks[-1].child if token.is_handle else all(block.child in lineage(by) for block in blocks))
            and child != by
            and by in lineage(child)
            and not any(block.revoked or self.expiry >= block.expires_at for block in blocks)
            and min(block.uses for block in blocks) >= uses
            and min(block.cap for block in blocks) >= cap
            and len(blocks) < MAX_BLOCKS
        )
        request = {"budget_token": token.text, "child_id": child, "cap_tokens": cap, "uses": uses}
        try:
            answer = self.client.call("narrow_grant", self.credentials[by], **request)
        except EngramBusError:
            assert not allowed
            return multiple()
        assert allowed
        refs = tuple(ref for ref in REFS if all(ref in block.refs for block in blocks))
        block = Block(child, refs, cap, uses, min(block.expires_at for block in blocks))
        self.grants.append(Token(answer.budget_token, answer.grant_id, by, (*blocks, block), token.issuer))
        return self.grants[-1]

    @rule(token=tokens)
    def revoke(self, token: Token) -> None:
        """Revoke a grant with everything narrowed from it."""
        self.client.call("revoke_grant", self.credentials[token.parent], id=token.grant_id)
        issued = next(grant for grant in self.grants if grant.grant_id == token.grant_id)
        issued.blocks[-1].revoked = True

    @rule(seconds=st.sampled_from((-3600, -700, 1, 299, 301, 601, 3600)))
    def time_passes(self, seconds: int) -> None:
        """Move the clock, also backwards."""
        self.clock.advance(seconds=seconds)

    @rule()
    def restart(self) -> None:
        """Reopen the project."""
        self.harness.reopen()

    @rule()
    def delete_the_index(self) -> None:
        """Delete the index of the open store."""
        self.harness.delete_index()
