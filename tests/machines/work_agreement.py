"""Two back ends of the work plane driven side by side by Hypothesis: no difference allowed, and no law broken.

Every step asks both the same thing and compares answers, refusals and journals byte for byte. Besides, whatever
happens: nobody holds what another holds, each tuple has one last receipt, and a parent has spent what its family has.
"""

from __future__ import annotations

from collections.abc import Callable
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

from engrambus.errors import EngramBusError
from engrambus.space.tuples import (
    ENDED,
    BodyPurged,
    Claim,
    Completion,
    Fact,
    Fence,
    Price,
    SpaceSettings,
    TuplePattern,
    TupleSpace,
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
STATES = (None, "waiting", "claimed", "done", "dead", "cancelled")
FACT_KINDS = {kind.__struct_config__.tag for kind in Fact.__args__} - {BodyPurged.__struct_config__.tag}
"""Tags of the facts that a tuple space can journal; bodies are purged by the garbage collector."""
SETTINGS = SpaceSettings(queue_maxsize=8, max_retries=1)
TURNS = (-60, 0, 1, 2, 10, 31)

steps = st.integers(0, 3)
keys, requests = st.sampled_from(("k1", "k2", "k3", "k4")), st.sampled_from(("r1", "r2"))
prices = st.builds(Price, micros=st.sampled_from((0, 1, 4000, 9000)), tokens=st.sampled_from((0, 3)))


def drafts() -> st.SearchStrategy[dict[str, Any]]:
    """Tuples as callers send them; some not acceptable."""
    return st.builds(
        lambda lane, count, more: draft(lane, *range(count), **more),
        st.sampled_from(LANES),
        st.integers(1, 3),
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
                        {"budget_usd": -1},
                    )
                ),
                "flags": st.just({"no_cache": True}),
                "schema": st.sampled_from(("yool-tuple/v1", "yool-tuple/v2", "yool-tuple/v9")),
            },
        ),
    )


class WorkAgreement(RuleBasedStateMachine):
    """The reference and another back end. A subclass says which by `make_other`."""

    make_other: Callable[[ManualClock, SpaceSettings], WorkHarness]

    tuples = Bundle("tuples")
    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.reference: WorkHarness = MemoryWorkHarness(self.clock, SETTINGS)
        self.other = type(self).make_other(self.clock, SETTINGS)
        self.boots = 1

    def teardown(self) -> None:
        """Whatever happened, both show the same, the index is what the journal says, and the books are right."""
        self.do_one_of_everything()
        self.both(_everything)
        self.both(lambda space: _counted(space, self.reference.journal_bytes()))
        assert self.other.space.store.verify() == []
        # An agreement about what never happened would be none.
        assert FACT_KINDS - {fact["fact"] for fact in _told(self.reference.journal_bytes())} == set()
        self._check_books()
        self.reference.close()
        self.other.close()

    def do_one_of_everything(self) -> None:
        """Make every kind of fact happen once, from whatever state the rules have led to.

        The rules alone bring about the rare kinds only by luck. A lane and keys that no rule uses are never refused.
        """
        terms = {"budget_tokens": 10}
        drafts = [draft("last", *range(2), agent_terms=terms) for _ in range(3)]
        first, _, third = [answer.id for answer in self.both(lambda space: space.out(*drafts, **_AS_PERSON))]
        self.both(
            lambda space: space.out(space.public_tuple(first), accept=True, idempotency=("last", "r"), **_AS_PERSON)
        )
        one, other = self.both(lambda space: space.claim({"lane": "last"}, worker="w", limit=2))
        self.heartbeat([one, other])
        self.start_step(one, 0, Price(tokens=9))
        self.spend(one, 0, Price(tokens=9))
        self.finish_a_step(one, 0, 0.0, "last")
        hit = self.both(lambda space: _cached(space, "last"))
        self.both(lambda space: space.complete([Completion(id=one.id, fence=one.fence, hits=((1, hit.id),))]))
        self.both(lambda space: space.report_damage(hit.id, hit.stdout_sha))
        self.release(other, True)
        self.both(lambda space: space.complete([completion(self.reference, one)]))
        self.both(lambda space: space.in_({"lane": "last", "id": third}, by="me"))

    def both(self, ask: Callable[[TupleSpace], Any]) -> Any:
        """Ask both; what they say, if they agree and do not refuse."""
        expected, given = (_asked(ask, each.space) for each in (self.reference, self.other))
        assert given == expected
        return expected[1] if expected[0] == "ok" else None

    @initialize(target=claims)
    def begin(self) -> Any:
        """Somebody is at work already, on a family with a budget and on others, and has done two steps of it."""
        terms = {"budget_usd": 0.01, "budget_tokens": 10}
        (top,) = self.both(lambda space: space.out(draft("build", *range(3), agent_terms=terms), **_AS_PERSON))
        others = [
            draft(LANES[at % 2], *range(3), map_pos={"stack": "python", "n": at % 2}, parent_id=above)
            for at, above in enumerate((top.id, top.id, top.id, None, None))
        ]
        self.both(lambda space: space.out(*others, **_AS_PERSON))
        held = self.both(lambda space: space.claim({}, worker="w", limit=4))
        for claim in held[2:]:
            self.finish_a_step(claim, 2, 0.0, "k")
        return multiple(*held)

    @rule(target=tuples, one=drafts(), twice=st.booleans())
    def out(self, one: dict[str, Any], twice: bool) -> Any:
        """Put one, or the same work twice at once."""
        given = [one, one] if twice else [one]
        answer = self.both(lambda space: space.out(*given, authority=PERSON, run=RUN))
        return multiple(*(each.id for each in answer or ()))

    @rule(target=tuples, parent=tuples, one=drafts(), every_run=st.booleans())
    def out_a_child(self, parent: str, one: dict[str, Any], every_run: bool) -> Any:
        """Put a part of another."""
        child = {**one, "parent_id": parent}
        answer = self.both(lambda space: space.out(child, authority=PERSON, run="other", every_run=every_run))
        return multiple(*(each.id for each in answer or ()))

    @rule(one=tuples, asked=st.none() | st.tuples(keys, requests))
    def out_again_with_its_id(self, one: str, asked: tuple[str, str] | None) -> None:
        """Put what is there already, under a key or none."""
        self.both(
            lambda space: space.out(space.public_tuple(one), authority=PERSON, run=RUN, accept=True, idempotency=asked)
        )

    @rule(target=tuples, key=keys, request=requests)
    def dispatch(self, key: str, request: str) -> Any:
        """Put under a key, for a receipt."""
        answer = self.both(
            lambda space: space.out(draft(), authority=PERSON, run=RUN, accept=True, idempotency=(key, request))
        )
        return multiple(*(each.id for each in answer or ()))

    @rule(pattern=st.sampled_from(PATTERNS), state=st.sampled_from(STATES))
    def rd(self, pattern: dict[str, Any], state: str | None) -> None:
        """Read what matches."""
        wanted = pattern | ({"state": state} if state else {})
        self.both(lambda space: space.rd_all(wanted, limit=5))

    @rule(pattern=st.sampled_from(PATTERNS))
    def in_(self, pattern: dict[str, Any]) -> None:
        """Take one out."""
        self.both(lambda space: space.in_(pattern, by="me"))

    @rule(target=claims, pattern=st.sampled_from(PATTERNS), limit=st.integers(1, 3))
    def claim(self, pattern: dict[str, Any], limit: int) -> Any:
        """Hold some."""
        return multiple(*(self.both(lambda space: space.claim(pattern, worker="w", limit=limit)) or ()))

    @rule(held=st.lists(claims, max_size=3))
    def heartbeat(self, held: list[Claim]) -> None:
        """Go on holding, or find that one does not."""
        self.both(lambda space: space.renew([(each.id, each.fence) for each in held]))

    @rule(claim=claims, step=steps, price=prices)
    def start_step(self, claim: Claim, step: int, price: Price) -> None:
        """Begin a step, if it can be paid."""
        self.both(lambda space: space.start_step(claim, step, price))

    @rule(claim=claims, step=steps, price=prices)
    def spend(self, claim: Claim, step: int, price: Price) -> None:
        """Spend while a step runs."""
        self.both(lambda space: space.record_cost(claim.id, claim.fence, step, price))

    @rule(claim=claims, step=steps, usd=st.sampled_from((0.0, 0.003)), key=st.sampled_from((None, "k")))
    def finish_a_step(self, claim: Claim, step: int, usd: float, key: str | None) -> None:
        """One step is done."""
        one = receipt(self.reference, claim, step, usd=usd, key=key)
        self.both(lambda space: space.complete([Completion(id=claim.id, fence=claim.fence, receipts=(one,))]))

    @rule(claim=claims, step=steps)
    def hit(self, claim: Claim, step: int) -> None:
        """A step had been executed before."""
        found = self.both(lambda space: _cached(space, "k"))
        if found is not None:
            self.both(
                lambda space: space.complete([Completion(id=claim.id, fence=claim.fence, hits=((step, found.id),))])
            )

    @rule()
    def damage(self) -> None:
        """A body is not what it was."""
        found = self.both(lambda space: _cached(space, "k"))
        if found is not None:
            self.both(lambda space: space.report_damage(found.id, found.stdout_sha))

    @rule(target=claims, claim=consumes(claims), usd=st.sampled_from((0.0, 0.002)), more=st.integers(0, 2))
    def complete(self, claim: Claim, usd: float, more: int) -> Any:
        """All is done; more is claimed in the same commit."""
        one = completion(self.reference, claim, usd=usd)
        answer = self.both(lambda space: space.complete([one], claim_more=({"lane": "build"}, "w", more)))
        return multiple(*answer[1])

    @rule(claim=consumes(claims), why=st.sampled_from(("exit 1", "BUDGET_EXCEEDED")))
    def fail(self, claim: Claim, why: str) -> None:
        """It did not work."""
        one = failure(self.reference, claim, why=why, usd=0.001)
        self.both(lambda space: space.complete([one]))

    @rule(claim=consumes(claims), counts=st.booleans())
    def release(self, claim: Claim, counts: bool) -> None:
        """Give one back."""
        self.both(lambda space: space.release([(claim.id, claim.fence)], counts_attempt=counts))

    @rule(claim=claims)
    def let_go(self, claim: Claim) -> None:
        """Take one from a holder who is dead, or who has lost it long ago."""
        self.both(lambda space: space.release_dead([(claim.id, claim.fence)], reason="gone"))

    @rule(one=tuples)
    def cancel(self, one: str) -> None:
        """End one."""
        self.both(lambda space: space.cancel(one))

    @rule(target=tuples, one=tuples)
    def put_again(self, one: str) -> Any:
        """Put a dead letter once more."""
        answer = self.both(lambda space: space.put_again(one, authority=PERSON))
        return multiple(answer.id) if answer else multiple()

    @rule(seconds=st.sampled_from(TURNS))
    def turn_the_clock(self, seconds: int) -> None:
        """Let time pass, leases end, or the wall clock go back."""
        self.clock.advance(seconds=seconds)

    @rule()
    def restart(self) -> None:
        """Both stop and start."""
        self.reference.reopen()
        self.other.reopen()

    @rule()
    def start_the_machine(self) -> None:
        """Everybody is dead."""
        self.boots += 1
        self.reference.reboot(f"boot {self.boots}")
        self.other.reboot(f"boot {self.boots}")

    @rule()
    def delete_the_index(self) -> None:
        """Everything but the journal is taken away."""
        self.reference.delete_index()
        self.other.delete_index()

    @rule(one=tuples)
    def look(self, one: str) -> None:
        """Everything there is to see of one, and of all."""
        self.both(lambda space: space.public_tuple(one))
        self.both(lambda space: space.get(one))
        self.both(_figures)

    @invariant()
    def the_journals_are_the_same(self) -> None:
        """Byte for byte."""
        assert self.other.journal_bytes() == self.reference.journal_bytes()

    def _check_books(self) -> None:
        with self.reference.space.store.read() as view:
            # Also those that were taken out since: what they spent before is in their parents' books.
            found = (view.find(each) for each in _ids_told(self.reference.journal_bytes()))
            kept = [one for one in found if one is not None]
            own = dict.fromkeys((one.id for one in kept), 0)
            spent, at_end = _spent(self.reference.journal_bytes())
            for one in kept:
                ends = [each for each in view.receipt_ids(one.id) if _is_end(view.receipt(each))]
                assert len(ends) == (one.state in ENDED), one
                family = [each for each in kept if _descends(each, one.id, {other.id: other for other in kept})]
                own[one.id] = one.spent_micros - sum(each.spent_micros for each in family if each.parent_id == one.id)
                assert own[one.id] == one.own_micros >= 0
                assert one.own_spent == spent.get(one.id, Price())
                for last in map(view.receipt, ends):
                    assert last is not None
                    assert Price(micros=last.cost.usd_micros, tokens=last.cost.tokens) == at_end[one.id]
                assert one.state == "claimed" or one.reserved_micros == sum(
                    each.reserved_micros for each in family if each.parent_id == one.id
                )


def _descends(one: Any, ancestor: str, every: dict[str, Any]) -> bool:
    above = one.parent_id
    while above is not None and above in every:
        if above == ancestor:
            return True
        above = every[above].parent_id
    return False


def _is_end(one: Any) -> bool:
    return one is not None and one.yool == "tuple.run"


def _cached(space: TupleSpace, key: str) -> Any:
    with space.store.read() as view:
        return view.cached_receipt(key)


def _everything(space: TupleSpace) -> Any:
    with space.store.read() as view:
        kept = view.matching(_EVERYTHING, limit=10_000)
        ids = [one.id for one in kept]
        said = [(view.receipt_ids(each), view.finished_steps(each)) for each in ids]
    return kept, said, _figures(space)


def _ids_told(journal: bytes) -> list[str]:
    """The ids of all tuples that were ever put."""
    return [fact["id"] for fact in _told(journal) if fact["fact"] == "tuple.out"]


def _spent(journal: bytes) -> tuple[dict[str, Price], dict[str, Price]]:
    """What each tuple has spent itself, and what it had spent when it ended."""
    spent: dict[str, Price] = {}
    at_end: dict[str, Price] = {}
    for fact in _told(journal):
        if fact["fact"] in ("step.cost", "step.done"):
            more = Price(micros=fact.get("micros", 0), tokens=fact.get("tokens", 0))
            spent[fact["id"]] = spent.get(fact["id"], Price()) + more
        elif fact["fact"] == "tuple.done":
            at_end[fact["id"]] = spent.get(fact["id"], Price())
    return spent, at_end


def _counted(space: TupleSpace, journal: bytes) -> list[Price]:
    """What is counted of every execution that spent anything: what the journal says of it, added up."""
    told: dict[tuple[str, Fence, int], Price] = {}
    for fact in _told(journal):
        if fact["fact"] in ("step.cost", "step.done") and "counter" in fact:
            key = fact["id"], Fence(fact["epoch"], fact["counter"]), fact["step"]
            more = Price(micros=fact.get("micros", 0), tokens=fact.get("tokens", 0))
            told[key] = told.get(key, Price()) + more
    with space.store.read() as view:
        counted = [view.counted_cost(*key) for key in told]
    assert counted == list(told.values())
    return counted


def _told(journal: bytes) -> list[dict[str, Any]]:
    return [fact for line in map(msgspec.json.decode, journal.splitlines()) for fact in line.get("facts", ())]


def _figures(space: TupleSpace) -> Any:
    with space.store.read() as view:
        told = [(view.list_ended(run, limit=1000), view.list_claimed(run, limit=1000)) for run in (RUN, "other", None)]
        ended = told, view.list_ended(None, limit=2), view.list_dead(None, include_put_again=True, limit=1000)
        return (
            view.run_totals(),
            view.lane_counts(),
            view.current_epoch(),
            view.list_receipts(RUN, limit=1000),
            ended,
            view.as_of,
        )


def _asked(ask: Callable[[TupleSpace], Any], space: TupleSpace) -> tuple[str, Any]:
    try:
        return "ok", ask(space)
    except EngramBusError as refusal:
        return "refused", msgspec.to_builtins(refusal.problem())


_AS_PERSON: dict[str, Any] = {"authority": PERSON, "run": RUN}
_EVERYTHING = TuplePattern()
