"""Two back ends of the work plane driven side by side by Hypothesis: they must never differ.

Every step calls both and compares answers, refusals and journals byte for byte. At the end, each ended tuple has one
final receipt, and a parent has spent what its family has.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from engrambus.core.journal import JournalGap
from engrambus.core.project_clock import ClockAccepted, ClockCorrected
from engrambus.errors import EngramBusError
from engrambus.space.tuples import (
    ENDED,
    BatchSpace,
    BodyPurged,
    Claim,
    Completion,
    Fact,
    Fence,
    Price,
    SpaceSettings,
    TaskChanged,
    TuplePattern,
    TupleSpace,
    pause,
    read_match,
    remove_limit,
    room_in,
    set_limit,
    subject_of,
    unpause,
)
from engrambus.testing.clock import ManualClock
from engrambus.testing.work.harness import PERSON, RUN, WorkHarness, completion, draft, failure, receipt
from tests.harness.stores import MemoryWorkHarness

LANES = ("build", "test", "überprüfung 検査 🧪")
PATTERNS: tuple[dict[str, Any], ...] = (
    {},
    {"lane": "build"},
    {"lane": "test"},
    {"map_pos.stack": "python"},
    {"map_pos.n": 1},
    {"lane": {"prefix": "b"}, "map_pos.n": {"ge": 1}},
    {"priority": {"gt": 0}},
    {"parent_id": {"exists": True}},
    {"lane": "build", "map_pos.n": {"like": 1}},
)
STATES = (None, "waiting", "blocked", "claimed", "done", "dead", "cancelled")
UNTRIED = (BodyPurged, JournalGap, ClockAccepted, ClockCorrected, TaskChanged)
"""Facts that no rule of the machine makes."""
FACT_KINDS = {kind.__struct_config__.tag for kind in Fact.__args__ if kind not in UNTRIED}
"""Tags of the facts that a tuple space can journal; others are of the garbage collector and of `recover`."""
SETTINGS = SpaceSettings(queue_maxsize=8, max_retries=1)
RUFF, OTHER = "agent.lint.ruff", "agent.lint.other"
PAYLOADS: tuple[list[dict[str, Any]], ...] = (
    [],
    *([{"yool": yool, "args": {"n": n}} for n, yool in enumerate(yools)] for yools in ((RUFF,), (OTHER,))),
    [{"yool": yool, "args": {}} for yool in (RUFF, RUFF, OTHER)],
    [{"yool": yool, "args": {}, "after": after} for yool, after in ((RUFF, []), (OTHER, []), (RUFF, [1]))],
)
CODE: tuple[tuple[str, ...] | None, ...] = (None, (RUFF,), (OTHER,), ())
"""The yools that a worker has code for; None for a caller that does not ask."""
MATCHES: tuple[dict[str, str], ...] = (
    {"key": "a"},
    {"key": "a*"},
    {"lane": "build"},
    {"authority": "user"},
    {"run": "other"},
    {"lane": "test", "key": "a*"},
)
"""What limits and pauses of the machine are about."""
TURNS = (-60, 0, 1, 2, 10, 31)

steps = st.integers(0, 3)
keys, requests = st.sampled_from(("k1", "k2", "k3", "k4")), st.sampled_from(("r1", "r2"))
prices = st.builds(Price, micros=st.sampled_from((0, 1, 4000, 9000)), tokens=st.sampled_from((0, 3)))


def drafts() -> st.SearchStrategy[dict[str, Any]]:
    """Generate tuples as callers send them; some invalid."""
    return st.builds(
        lambda lane, payload, fields: draft(lane, payload=payload, **fields),
        st.sampled_from(LANES),
        st.sampled_from(PAYLOADS),
        st.fixed_dictionaries(
            {},
            optional={
                "priority": st.sampled_from((-1, 5, 2000)),
                "map_pos": st.sampled_from(({"stack": "python", "n": 1}, {"stack": "dotnet", "n": 1.0}, {"n": "1"})),
                "agent_terms": st.sampled_from(
                    (
                        {"budget_usd": 0.01},
                        {"budget_usd": 0.01, "budget_tokens": 10, "max_retries": 0},
                        {"max_retries": 3},
                        {"concurrency_key": "a"},
                        {"concurrency_key": "ab"},
                        {"budget_usd": -1},
                        {"not_before_iso": "2026-01-01T00:00:09Z"},
                        {"not_before_iso": "2026-01-01T00:00:02Z", "deadline_iso": "2026-01-01T00:00:40Z"},
                    )
                ),
                "flags": st.just({"no_cache": True}),
                "schema": st.sampled_from(("yool-tuple/v1", "yool-tuple/v2", "yool-tuple/v9")),
            },
        ),
    )


class WorkAgreement(RuleBasedStateMachine):
    """The reference and another back end. A subclass says which by `make_other`."""

    make_candidate: Callable[[ManualClock, SpaceSettings], WorkHarness]

    tuples = Bundle("tuples")
    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.reference: WorkHarness = MemoryWorkHarness(self.clock, SETTINGS)
        self.candidate = type(self).make_candidate(self.clock, SETTINGS)
        self.boots = 1

    def teardown(self) -> None:
        """Check that both stores show the same, that the index equals the journal, and that all spending adds up."""
        self.do_one_of_everything()
        self.both(_everything)
        self.both(lambda space: _counted(space, self.reference.journal_bytes()))
        assert self.candidate.space.store.verify() == []
        # An agreement about what never happened would be none.
        assert FACT_KINDS - {fact["fact"] for fact in facts_of(self.reference.journal_bytes())} == set()
        self._check_books()
        self.reference.close()
        self.candidate.close()

    def do_one_of_everything(self) -> None:
        """Make every kind of fact happen once, from the state that the rules have led to.

        The rules alone bring about the rare kinds only by luck. A lane and keys that no rule uses are never refused.
        """
        for match in MATCHES:
            self.change_a_limit(match, "unpause")
            self.change_a_limit(match, "remove")
        self.limit({"lane": "last"}, 2, None)
        self.change_a_limit({"lane": "last"}, "remove")
        terms = {"budget_tokens": 10}
        drafts = [draft("last", *range(2), agent_terms=terms) for _ in range(3)]
        first, _, third = [answer.id for answer in self.both(lambda space: space.out(*drafts, **_AS_PERSON))]
        self.both(
            lambda space: space.out(space.public_tuple(first), accept=True, idempotency=("last", "r"), **_AS_PERSON)
        )
        claim, released = self.both(lambda space: space.claim({"lane": "last"}, worker="w", limit=2))
        self.heartbeat([claim, released])
        self.start_step(claim, 0, Price(tokens=9))
        self.spend(claim, 0, Price(tokens=9))
        self.finish_a_step(claim, 0, 0.0, "last")
        hit = self.both(lambda space: _cached(space, "last"))
        self.both(lambda space: space.complete([Completion(id=claim.id, fence=claim.fence, hits=((1, hit.id),))]))
        self.both(lambda space: space.report_damage(hit.id, hit.stdout_sha))
        self.release(released, True)
        self.both(lambda space: space.complete([completion(self.reference, claim)]))
        self.both(lambda space: space.in_({"lane": "last", "id": third}, by="me"))
        self.block(released.id, None, "last")
        self.unblock(released.id, [])
        batch = self.both(
            lambda space: BatchSpace(space).spawn(draft("tree"), depth=2, branching=9, threshold=1, **_AS_PERSON)
        )
        self.both(lambda space: space.in_({"lane": "tree"}, by="me"))
        self.both(lambda space: BatchSpace(space).prune(batch.id))
        self.both(lambda space: space.cancel(batch.id))

    def both(self, ask: Callable[[TupleSpace], Any]) -> Any:
        """Call both and require the same outcome; return the answer, or None if both refused."""
        expected, actual = (_outcome(ask, harness.space) for harness in (self.reference, self.candidate))
        assert actual == expected
        return expected[1] if expected[0] == "ok" else None

    @initialize(target=claims)
    def begin(self) -> Any:
        """Start with claimed tuples of a budgeted family and of others, two of their steps finished."""
        terms = {"budget_usd": 0.01, "budget_tokens": 10}
        (top,) = self.both(lambda space: space.out(draft("build", *range(3), agent_terms=terms), **_AS_PERSON))
        drafts_of_all = [
            draft(LANES[number % 2], *range(3), map_pos={"stack": "python", "n": number % 2}, parent_id=above)
            for number, above in enumerate((top.id, top.id, top.id, None, None))
        ]
        self.both(lambda space: space.out(*drafts_of_all, **_AS_PERSON))
        claims = self.both(lambda space: space.claim({}, worker="w", limit=4))
        for claim in claims[2:]:
            self.finish_a_step(claim, 2, 0.0, "k")
        return multiple(*claims)

    @rule(target=tuples, new=drafts(), twice=st.booleans())
    def out(self, new: dict[str, Any], twice: bool) -> Any:
        """Put one tuple, or the same work twice in one call."""
        batch = [new, new] if twice else [new]
        answer = self.both(lambda space: space.out(*batch, authority=PERSON, run=RUN))
        return multiple(*(put.id for put in answer or ()))

    @rule(target=tuples, parent=tuples, new=drafts(), every_run=st.booleans())
    def out_a_child(self, parent: str, new: dict[str, Any], every_run: bool) -> Any:
        """Put a child of another tuple."""
        child = {**new, "parent_id": parent}
        answer = self.both(lambda space: space.out(child, authority=PERSON, run="other", every_run=every_run))
        return multiple(*(put.id for put in answer or ()))

    @rule(target=tuples, awaited=st.lists(tuples, min_size=1, max_size=3), new=drafts(), every_run=st.booleans())
    def out_after(self, awaited: list[str], new: dict[str, Any], every_run: bool) -> Any:
        """Put a tuple that comes after others."""
        later = {**new, "after": awaited}
        answer = self.both(lambda space: space.out(later, authority=PERSON, run=RUN, every_run=every_run))
        return multiple(*(put.id for put in answer or ()))

    @rule(tuple_id=tuples, awaited=st.none() | tuples, reason=st.sampled_from((None, "why", "another reason")))
    def block(self, tuple_id: str, awaited: str | None, reason: str | None) -> None:
        """Block a tuple in words, or by another that may wait for it."""
        on = [awaited] if awaited is not None else []
        self.both(lambda space: space.block(tuple_id, on=on, reason=reason, by="me"))
        self.both(lambda space: _blocks(space, tuple_id))

    @rule(tuple_id=tuples, awaited=st.lists(tuples, max_size=2))
    def unblock(self, tuple_id: str, awaited: list[str]) -> None:
        """Lift what blocks a tuple."""
        self.both(lambda space: space.unblock(tuple_id, on=awaited, by="me"))

    @invariant()
    def a_tuple_is_blocked_exactly_while_something_blocks_it(self) -> None:
        """What blocks it is in the space and not done."""
        # Both are read: a store goes on at half pace from when it first sees a clock that was set back.
        self.both(_check_blocks)

    @rule(tuple_id=tuples, idempotency=st.none() | st.tuples(keys, requests))
    def out_again_with_its_id(self, tuple_id: str, idempotency: tuple[str, str] | None) -> None:
        """Put an existing tuple, with an idempotency key or without."""
        self.both(
            lambda space: space.out(
                space.public_tuple(tuple_id), authority=PERSON, run=RUN, accept=True, idempotency=idempotency
            )
        )

    @rule(target=tuples, key=keys, request=requests)
    def dispatch(self, key: str, request: str) -> Any:
        """Put with an idempotency key, and ask for an acceptance receipt."""
        answer = self.both(
            lambda space: space.out(draft(), authority=PERSON, run=RUN, accept=True, idempotency=(key, request))
        )
        return multiple(*(put.id for put in answer or ()))

    @rule(pattern=st.sampled_from(PATTERNS), state=st.sampled_from(STATES))
    def rd(self, pattern: dict[str, Any], state: str | None) -> None:
        """Read matching tuples."""
        full_pattern = pattern | ({"state": state} if state else {})
        self.both(lambda space: space.rd_all(full_pattern, limit=5))

    @rule(pattern=st.sampled_from(PATTERNS))
    def in_(self, pattern: dict[str, Any]) -> None:
        """Take one tuple."""
        self.both(lambda space: space.in_(pattern, by="me"))

    @rule(target=claims, pattern=st.sampled_from(PATTERNS), limit=st.integers(1, 3), code=st.sampled_from(CODE))
    def claim(self, pattern: dict[str, Any], limit: int, code: tuple[str, ...] | None) -> Any:
        """Claim some tuples, perhaps for a worker that has code for some of them only."""
        can_run = None if code is None else code.__contains__
        before = self._fullest()
        claimed = self.both(lambda space: space.claim(pattern, worker="w", limit=limit, can_run=can_run))
        for pool, (used, most) in self._fullest().items():
            assert used <= max(most, before.get(pool, (0, 0))[0]), pool
        return multiple(*(claimed or ()))

    def _fullest(self) -> dict[str, tuple[int, int]]:
        """Return for every pool with a limit how many run in it, and how many may."""
        return self.both(_fullest)  # type: ignore[no-any-return]

    @rule(
        match=st.sampled_from(MATCHES),
        running=st.sampled_from((None, 0, 1, 2)),
        rate=st.sampled_from((None, "2/PT10S", "1/PT2S", "0/PT1S")),
    )
    def limit(self, match: dict[str, str], running: int | None, rate: str | None) -> None:
        """Set a limit, some invalid."""
        self.both(
            lambda space: space.store.commit(
                lambda view: (set_limit(view, read_match(**match), running=running, rate=rate, by="me")[0], None)
            )
        )

    @rule(match=st.sampled_from(MATCHES), change=st.sampled_from(("remove", "pause", "unpause")))
    def change_a_limit(self, match: dict[str, str], change: str) -> None:
        """Remove a limit, or begin or end a pause."""

        def decide(view: Any) -> Any:
            found = read_match(**match)
            if change == "remove":
                return remove_limit(view, found)[0], None
            if change == "pause":
                return pause(view, found, why="", by="me")[0], None
            return unpause(view, found, by="me")[0], None

        self.both(lambda space: space.store.commit(decide))

    @rule(held_claims=st.lists(claims, max_size=3))
    def heartbeat(self, held_claims: list[Claim]) -> None:
        """Renew claims, valid or not."""
        self.both(lambda space: space.renew([(claim.id, claim.fence) for claim in held_claims]))

    @rule(claim=claims, step=steps, price=prices)
    def start_step(self, claim: Claim, step: int, price: Price) -> None:
        """Start a step, if the budget allows it."""
        self.both(lambda space: space.start_step(claim, step, price))

    @rule(claim=claims, step=steps, price=prices)
    def spend(self, claim: Claim, step: int, price: Price) -> None:
        """Report the cost of a running step."""
        self.both(lambda space: space.record_cost(claim.id, claim.fence, step, price))

    @rule(claim=claims, step=steps, usd=st.sampled_from((0.0, 0.003)), key=st.sampled_from((None, "k")))
    def finish_a_step(self, claim: Claim, step: int, usd: float, key: str | None) -> None:
        """Complete one step."""
        step_receipt = receipt(self.reference, claim, step, usd=usd, key=key)
        self.both(lambda space: space.complete([Completion(id=claim.id, fence=claim.fence, receipts=(step_receipt,))]))

    @rule(claim=claims, step=steps)
    def hit(self, claim: Claim, step: int) -> None:
        """Complete a step with a cached result."""
        cached = self.both(lambda space: _cached(space, "k"))
        if cached is not None:
            self.both(
                lambda space: space.complete([Completion(id=claim.id, fence=claim.fence, hits=((step, cached.id),))])
            )

    @rule()
    def damage(self) -> None:
        """Report a damaged body."""
        cached = self.both(lambda space: _cached(space, "k"))
        if cached is not None:
            self.both(lambda space: space.report_damage(cached.id, cached.stdout_sha))

    @rule(target=claims, claim=consumes(claims), usd=st.sampled_from((0.0, 0.002)), extra=st.integers(0, 2))
    def complete(self, claim: Claim, usd: float, extra: int) -> Any:
        """Complete a tuple and claim others in the same commit."""
        completed = completion(self.reference, claim, usd=usd)
        answer = self.both(lambda space: space.complete([completed], claim_more=({"lane": "build"}, "w", extra)))
        return multiple(*answer[1])

    @rule(claim=consumes(claims), why=st.sampled_from(("exit 1", "the process died", "BUDGET_EXCEEDED")))
    def fail(self, claim: Claim, why: str) -> None:
        """Report a failure."""
        failed = failure(self.reference, claim, why=why, usd=0.001)
        self.both(lambda space: space.complete([failed]))

    @rule(claim=consumes(claims), counts=st.booleans())
    def release(self, claim: Claim, counts: bool) -> None:
        """Release a claim."""
        self.both(lambda space: space.release([(claim.id, claim.fence)], counts_attempt=counts))

    @rule(claim=claims)
    def release_dead(self, claim: Claim) -> None:
        """Release the claim of a dead worker, valid or not."""
        self.both(lambda space: space.release_dead([(claim.id, claim.fence)], reason="gone"))

    @rule(tuple_id=tuples)
    def cancel(self, tuple_id: str) -> None:
        """Cancel a tuple."""
        self.both(lambda space: space.cancel(tuple_id))

    @rule(target=tuples, tuple_id=tuples)
    def put_again(self, tuple_id: str) -> Any:
        """Put a dead letter again."""
        answer = self.both(lambda space: space.put_again(tuple_id, authority=PERSON))
        return multiple(answer.id) if answer else multiple()

    @rule(seconds=st.sampled_from(TURNS))
    def turn_the_clock(self, seconds: int) -> None:
        """Move the clock, so that leases end, or backwards."""
        self.clock.advance(seconds=seconds)

    @rule()
    def restart(self) -> None:
        """Reopen both stores."""
        self.reference.reopen()
        self.candidate.reopen()

    @rule()
    def reboot(self) -> None:
        """Reboot the machine: every claim ends."""
        self.boots += 1
        self.reference.reboot(f"boot {self.boots}")
        self.candidate.reboot(f"boot {self.boots}")

    @rule()
    def delete_the_index(self) -> None:
        """Delete the index of both open stores."""
        self.reference.delete_index()
        self.candidate.delete_index()

    @rule(tuple_id=tuples)
    def look(self, tuple_id: str) -> None:
        """Read one tuple, and all figures."""
        self.both(lambda space: space.public_tuple(tuple_id))
        self.both(lambda space: space.get(tuple_id))
        self.both(_figures)

    @invariant()
    def the_journals_are_the_same(self) -> None:
        """Compare the journals byte for byte."""
        lines = [harness.journal_bytes().splitlines() for harness in (self.candidate, self.reference)]
        assert [pair for pair in zip_longest(*lines) if pair[0] != pair[1]][:1] == []

    def _check_books(self) -> None:
        with self.reference.space.store.read() as view:
            # Also those that were taken out since: what they spent before is in their parents' books.
            candidates = (view.find(item) for item in dict.fromkeys(_put_ids(self.reference.journal_bytes())))
            records = [record for record in candidates if record is not None]
            own_micros = dict.fromkeys((record.id for record in records), 0)
            spent, at_end = _spent(self.reference.journal_bytes())
            for record in records:
                ends = [item for item in view.receipt_ids(record.id) if _is_end(view.receipt(item))]
                assert len(ends) == (record.state in ENDED), record
                family = [
                    item
                    for item in records
                    if _descends(item, record.id, {ancestor.id: ancestor for ancestor in records})
                ]
                own_micros[record.id] = record.spent_micros - sum(
                    item.spent_micros for item in family if item.parent_id == record.id
                )
                assert own_micros[record.id] == record.own_micros >= 0
                assert record.own_spent == spent.get(record.id, Price())
                agent = view.agents([record.id]).get(record.id)
                is_node = agent is not None and agent.position.children > 0
                for last in map(
                    view.receipt, [] if is_node else ends
                ):  # the receipt of a node has what all below spent
                    assert last is not None
                    assert Price(micros=last.cost.usd_micros, tokens=last.cost.tokens) == at_end[record.id]
                assert record.state == "claimed" or record.reserved_micros == sum(
                    item.reserved_micros for item in family if item.parent_id == record.id
                )


def _check_blocks(space: TupleSpace) -> None:
    with space.store.read() as view:
        for record in view.matching(_EVERYTHING, limit=10_000):
            blocks = view.blocks(record.id)
            assert bool(blocks) == (record.state == "blocked"), record
            awaited = [view.find(item.on) for item in blocks if item.on is not None]
            assert all(other is not None and other.state != "done" for other in awaited)


def _fullest(space: TupleSpace) -> dict[str, tuple[int, int]]:
    with space.store.read() as view:
        rules = view.limit_rules()
        claimed = view.list_claimed(None, limit=1000)
        pools = {pool: rule for record in claimed for rule, pool in rules.pools(subject_of(record))}
        return {
            pool: (view.pool_use(rule, pool).running, rule.running)
            for pool, rule in pools.items()
            if rule.running is not None
        }


def _descends(record: Any, ancestor: str, every: dict[str, Any]) -> bool:
    above = record.parent_id
    while above is not None and above in every:
        if above == ancestor:
            return True
        above = every[above].parent_id
    return False


def _is_end(receipt: Any) -> bool:
    return receipt is not None and receipt.yool == "tuple.run"


def _cached(space: TupleSpace, key: str) -> Any:
    with space.store.read() as view:
        return view.cached_receipt(key)


def _everything(space: TupleSpace) -> Any:
    with space.store.read() as view:
        records = view.matching(_EVERYTHING, limit=10_000)
        ids = [record.id for record in records]
        receipts: list[Any] = [(view.receipt_ids(tuple_id), view.finished_steps(tuple_id)) for tuple_id in ids]
        receipts += [(view.blocks(tuple_id), view.dependents(tuple_id)) for tuple_id in ids]
    return records, receipts, _figures(space)


def _blocks(space: TupleSpace, tuple_id: str) -> Any:
    with space.store.read() as view:
        return view.blocks(tuple_id), view.dependents(tuple_id)


def _put_ids(journal: bytes) -> list[str]:
    """Return the ids of all tuples ever put."""
    return [fact["id"] for fact in facts_of(journal) if fact["fact"] == "tuple.out"]


def _spent(journal: bytes) -> tuple[dict[str, Price], dict[str, Price]]:
    """Return what each tuple has spent itself, and what it had spent when it ended."""
    spent: dict[str, Price] = {}
    at_end: dict[str, Price] = {}
    for fact in facts_of(journal):
        if fact["fact"] in ("step.cost", "step.done"):
            cost = Price(micros=fact.get("micros", 0), tokens=fact.get("tokens", 0))
            spent[fact["id"]] = spent.get(fact["id"], Price()) + cost
        elif fact["fact"] == "tuple.done":
            at_end[fact["id"]] = spent.get(fact["id"], Price())
    return spent, at_end


def _counted(space: TupleSpace, journal: bytes) -> list[Price]:
    """Check the counted cost of every execution against the journal, and return it."""
    costs: dict[tuple[str, Fence, int], Price] = {}
    for fact in facts_of(journal):
        if fact["fact"] in ("step.cost", "step.done") and "counter" in fact:
            key = fact["id"], Fence(fact["epoch"], fact["counter"]), fact["step"]
            cost = Price(micros=fact.get("micros", 0), tokens=fact.get("tokens", 0))
            costs[key] = costs.get(key, Price()) + cost
    with space.store.read() as view:
        counted = [view.counted_cost(*key) for key in costs]
    assert counted == list(costs.values())
    return counted


def facts_of(journal: bytes) -> list[dict[str, Any]]:
    """Return all facts of a journal."""
    return [fact for line in map(msgspec.json.decode, journal.splitlines()) for fact in line.get("facts", ())]


def _figures(space: TupleSpace) -> Any:
    with space.store.read() as view:
        lists = [(view.list_ended(run, limit=1000), view.list_claimed(run, limit=1000)) for run in (RUN, "other", None)]
        ended = lists, view.list_ended(None, limit=2), view.list_dead(None, include_put_again=True, limit=1000)
        return (
            view.run_totals(),
            view.lane_counts(),
            view.waiting_groups(),
            [view.list_blocked(run, limit=1000) for run in (RUN, None)],
            [view.live_in(lane) for lane in LANES],
            # With limits, a store may tell a time at which a closer look shows that there is still no room.
            [view.next_due_us(_EVERYTHING, can_run=code.__contains__) for code in CODE if code is not None]
            if not view.limit_rules()
            else None,
            [(use, room_in(use.rule, view.pool_use(use.rule, use.rule.match.id))) for use in view.limit_uses()],
            view.current_epoch(),
            view.list_receipts(RUN, limit=1000),
            ended,
            view.as_of,
        )


def _outcome(ask: Callable[[TupleSpace], Any], space: TupleSpace) -> tuple[str, Any]:
    try:
        return "ok", ask(space)
    except EngramBusError as refusal:
        return "refused", msgspec.to_builtins(refusal.problem())


_AS_PERSON: dict[str, Any] = {"authority": PERSON, "run": RUN}
_EVERYTHING = TuplePattern()
