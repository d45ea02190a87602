"""A parent's budget, steps of any announced and any real price, and workers that may be killed. # YT-11"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engrambus.errors import BudgetExceeded, BudgetReserved
from engrambus.evidence.receipts import Cost, receipt_id
from engrambus.space.tuples import Claim, Completion, Price, SpaceSettings, estimate_price
from engrambus.testing.work.harness import completion, draft, put, receipt
from tests.harness.stores import MemoryWorkHarness

CHILDREN = 12
PRICES = st.builds(Price, micros=st.integers(0, 60), tokens=st.integers(0, 60))


class Yool(msgspec.Struct, frozen=True):
    """A yool that announces one price and has another."""

    name: str
    announced: Price
    true: Price


class Execution(msgspec.Struct):
    """A step that a worker runs."""

    claim: Claim
    yool: Yool
    spent: Price = Price()


class ParentBudget(RuleBasedStateMachine):
    """Workers run the children of a parent with a budget."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = MemoryWorkHarness(settings=SpaceSettings(max_retries=100, backoff_us=0, alarm_pct=0))
        self.space = self.harness.space
        self.running: dict[str, Execution] = {}
        self.largest = Price()
        """The most that one execution has spent."""

    @initialize(
        budget_micros=st.none() | st.integers(0, 300),
        budget_tokens=st.none() | st.integers(0, 300),
        prices=st.lists(st.tuples(PRICES, PRICES), min_size=1, max_size=3),
        nested=st.booleans(),
    )
    def set_up(
        self,
        budget_micros: int | None,
        budget_tokens: int | None,
        prices: list[tuple[Price, Price]],
        nested: bool,
    ) -> None:
        """Put a parent and its children, or grandchildren."""
        self.yools = [Yool(f"agent.price.y{n}.v1", *pair) for n, pair in enumerate(prices)]
        terms: dict[str, Any] = {"budget_micros": budget_micros, "budget_tokens": budget_tokens}
        terms = {name: value for name, value in terms.items() if value is not None}
        (self.parent,) = put(self.harness, draft("top", schema="yool-tuple/v2", agent_terms=terms))
        (middle,) = put(self.harness, draft("middle", parent_id=self.parent))
        above = [middle if nested and number % 2 else self.parent for number in range(CHILDREN)]
        self.children = put(self.harness, *(draft("low", n, parent_id=above[n]) for n in range(CHILDREN)))

    @rule(number=st.integers(0, CHILDREN - 1), yool=st.integers(0, 2))
    def begin(self, number: int, yool: int) -> None:
        """Claim a child and start its step, if it may start now."""
        claims = self.space.claim({"id": self.children[number]}, worker=f"w{number % 4}")
        if not claims:
            return
        claim, chosen = claims[0], self.yools[yool % len(self.yools)]
        with self.space.store.read() as view:
            price = estimate_price(view.cost_history(chosen.name), chosen.announced)
        try:
            self.space.start_step(claim, 0, price, chosen.name)
        except BudgetReserved:
            assert any(execution for execution in self.running.values()), "only what runs can be waited for"
            self.space.release([(claim.id, claim.fence)])
        except BudgetExceeded:
            self.space.complete([Completion(id=claim.id, fence=claim.fence, failure="BUDGET_EXCEEDED")])
        else:
            self.running[claim.id] = Execution(claim, chosen)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), percent=st.integers(0, 100))
    def spend(self, data: st.DataObject, percent: int) -> None:
        """Let a running step report a part of its cost."""
        execution = self._draw(data)
        true = execution.yool.true
        reached = Price(micros=true.micros * percent // 100, tokens=true.tokens * percent // 100)
        self._spend(execution, execution.spent.maximum(reached))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        """Let a running step end with its whole cost on its receipt."""
        execution = self._draw(data)
        self.largest = self.largest.maximum(execution.yool.true)
        true = execution.yool.true
        cost = Cost(usd=true.micros / 1_000_000, tokens_in=true.tokens)
        done = msgspec.structs.replace(receipt(self.harness, execution.claim, cost=cost), yool=execution.yool.name)
        done = msgspec.structs.replace(done, id=receipt_id(done))
        last = completion(self.harness, execution.claim, cost=cost).final_receipt
        (answer,), _ = self.space.complete(
            [Completion(id=execution.claim.id, fence=execution.claim.fence, receipts=(done,), final_receipt=last)]
        )
        assert answer is None
        del self.running[execution.claim.id]

    @precondition(lambda self: self.running)
    @rule(data=st.data(), percent=st.integers(0, 100))
    def kill(self, data: st.DataObject, percent: int) -> None:
        """Kill a worker: what its step has spent is counted, then the tuple waits again."""
        execution = self._draw(data)
        true = execution.yool.true
        reached = Price(micros=true.micros * percent // 100, tokens=true.tokens * percent // 100)
        self._spend(execution, execution.spent.maximum(reached))
        self.space.release_dead([(execution.claim.id, execution.claim.fence)], reason="killed")
        del self.running[execution.claim.id]

    @invariant()
    def one_step_breaks_the_budget(self) -> None:
        """The parent has spent at most its budget and the cost of one step."""
        if not hasattr(self, "parent"):
            return
        record = self.space.get(self.parent)
        if record.budget_micros is not None:
            assert record.spent_micros <= record.budget_micros + self.largest.micros
        if record.budget_tokens is not None:
            assert record.spent_tokens <= record.budget_tokens + self.largest.tokens

    def _draw(self, data: st.DataObject) -> Execution:
        return self.running[data.draw(st.sampled_from(sorted(self.running)))]

    def _spend(self, execution: Execution, total: Price) -> None:
        execution.spent = total
        self.largest = self.largest.maximum(total)
        self.space.record_cost(execution.claim.id, execution.claim.fence, 0, total)

    def teardown(self) -> None:
        self.harness.close()


ParentBudget.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestParentBudget = ParentBudget.TestCase
