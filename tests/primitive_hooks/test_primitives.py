"""Hooks around each primitive: what a veto, an exception and a hang do to it. # YT-16"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engrambus.core import SECOND_US, SystemClock, print_time
from engrambus.errors import EngramBusError
from engrambus.space.schedules import Schedules
from engrambus.space.tuples import BatchSpace, Completion, TupleSpace, read_pattern, tuple_receipt
from engrambus.space.tuples.hooked_space import NOT_PRIMITIVES, HookedSpace
from engrambus.space.tuples.primitive_hooks import (
    MAX_HANGING,
    PRIMITIVES,
    PrimitiveCall,
    PrimitiveHook,
    PrimitiveHooks,
    PrimitiveOutcome,
    Veto,
)
from engrambus.space.tuples.values import Claim, Price
from engrambus.space.work import LaneWorkerPool, eval_
from engrambus.testing.work import PERSON, RUN
from tests.primitive_hooks.hooks import REASON, Behaviour, Scripted
from tests.space.worker_harness import SETTINGS, WorkerHarness, step, wait_until

NOTE: dict[str, Any] = {"lane": "build", "map_pos": {"n": 1}}
ADD = step("agent.sum.numbers", a=20, b=22)
LIMIT_SECONDS = 0.2


class Given:
    """A project with some tuples in it, put before there were hooks, and the same space with hooks."""

    def __init__(self, harness: WorkerHarness, reports: list[str]) -> None:
        self.harness = harness
        self.reports = reports
        self.hooks: list[Scripted] = []
        self.waiting = harness.put()
        self.claimed = harness.put(ADD, priority=5)
        (self.claim,) = harness.space.claim({"id": self.claimed}, worker="w")

    def hooked(self, *hooks: PrimitiveHook) -> HookedSpace:
        self.hooks += [hook for hook in hooks if isinstance(hook, Scripted)]
        asked = PrimitiveHooks(
            [(hook, "the test") for hook in hooks], limit_seconds=LIMIT_SECONDS, report=self.reports.append
        )
        return HookedSpace(self.harness.space.store, hooks=asked, caller=lambda: "r/admin", settings=SETTINGS)

    def pool(self, space: TupleSpace, **pattern: Any) -> LaneWorkerPool:
        deps = msgspec.structs.replace(self.harness.deps, space=space)
        self.harness.progress.clear()
        return LaneWorkerPool(deps, read_pattern(pattern), concurrency=2, on_progress=self.harness.progress.append)

    def lines(self) -> int:
        return self.harness.space.store.last_line()


@pytest.fixture
def given(harness: WorkerHarness) -> Iterator[Given]:
    given = Given(harness, [])
    yield given
    for hook in given.hooks:
        hook.released.set()


def _end(given: Given, space: TupleSpace) -> Any:
    claim: Claim = given.claim
    final = tuple_receipt(claim.id, executed=[], receipts=[], exit=0, now="2026-01-01T00:00:00Z")
    return space.complete([Completion(id=claim.id, fence=claim.fence, final_receipt=final)])


def _record(given: Given, space: TupleSpace) -> Any:
    from engrambus.evidence.receipts import new_receipt

    moment = "2026-01-01T00:00:00Z"
    return space.record_finished(
        {"lane": "log", "payload": [{"yool": "op.test.record", "args": {}}]},
        lambda id, now: new_receipt(
            yool="op.test.record.v1", tuple_id=id, started_at=moment, ended_at=moment, exit=0, step=0
        ),
        authority=PERSON,
        run=RUN,
    )


Act = Callable[[Given, TupleSpace], Any]
ACTS: dict[str, Act] = {
    "out": lambda given, space: space.out(NOTE, authority=PERSON, run=RUN),
    "rd": lambda given, space: space.rd({"lane": "build"}),
    "in": lambda given, space: space.in_({"lane": "build"}, by="someone"),
    "eval": lambda given, space: space.out_claimed({**NOTE, "payload": [ADD]}, authority=PERSON, run=RUN, worker="w"),
    "step_start": lambda given, space: space.start_step(given.claim, 0, Price(), "agent.sum.numbers.v1"),
    "tuple_complete": _end,
    "cancel": lambda given, space: space.cancel(given.waiting),
    "record": _record,
}
"""A call of each primitive that is refused with an error; claims and results of steps are refused otherwise."""
REFUSALS: dict[Behaviour, str] = {
    "veto": "HOOK_VETO",
    "raise": "HOOK_FAILED",
    "hang": "HOOK_TIMEOUT",
    "nonsense": "HOOK_FAILED",
}


@pytest.mark.parametrize("behaviour", REFUSALS)
@pytest.mark.parametrize("primitive", ACTS)
def test_a_refused_call_changes_nothing(given: Given, primitive: Any, behaviour: Behaviour) -> None:
    hook = Scripted(behaviour, primitive)
    space, before = given.hooked(hook), given.lines()
    with pytest.raises(EngramBusError) as caught:
        ACTS[primitive](given, space)
    problem = caught.value.problem()
    assert (problem["code"], problem["hook"]) == (REFUSALS[behaviour], "friday")
    assert problem["field"] == ("lane" if behaviour == "veto" else primitive)
    assert problem.get("reason") == {"veto": REASON, "raise": "LookupError", "nonsense": "returned bool"}.get(behaviour)
    assert "a secret detail" not in str(problem)
    assert given.lines() == before
    assert len(given.reports) == (behaviour != "veto")
    # Those that watch are told how it ended, and the same call goes on without the hook.
    assert [outcome.code for _, outcome in hook.after_calls] == [REFUSALS[behaviour]]
    ACTS[primitive](given, given.harness.space)


@pytest.mark.parametrize("behaviour", ["observe", "raise after", "hang after"])
@pytest.mark.parametrize("primitive", ACTS)
def test_what_a_hook_does_afterwards_changes_no_answer(given: Given, primitive: Any, behaviour: Behaviour) -> None:
    hook = Scripted(behaviour, primitive)
    space = given.hooked(hook)
    answer = ACTS[primitive](given, space)
    assert answer is not None or primitive == "step_start"
    ((call, outcome),) = hook.after_calls
    assert (call.primitive, outcome.code) == (primitive, None)
    assert len(outcome.ids) == 1
    assert len(given.reports) == (behaviour != "observe")


@pytest.mark.parametrize("primitive", ACTS)
def test_a_hook_is_asked_of_its_own_primitives_only(given: Given, primitive: Any) -> None:
    others = [name for name in PRIMITIVES if name != primitive]
    hook = Scripted("veto", *others)
    ACTS[primitive](given, given.hooked(hook))
    assert hook.before_calls == []


@pytest.mark.parametrize("primitive", ACTS)
def test_what_a_hook_is_shown_cannot_be_changed(given: Given, primitive: Any) -> None:
    hook = Scripted("observe", primitive)
    ACTS[primitive](given, given.hooked(hook))
    (call,) = hook.before_calls
    with pytest.raises(AttributeError):
        call.caller = "someone else"  # type: ignore[misc]
    shown = call.tuples[0] if call.tuples else call.pattern
    with pytest.raises(TypeError):
        shown["lane"] = "other"  # type: ignore[index]
    assert call.caller
    assert call.lane == ("log" if primitive == "record" else "build")
    assert msgspec.json.decode(msgspec.json.encode(call.to_dict()))["primitive"] == primitive


@pytest.mark.parametrize("behaviour", REFUSALS)
def test_a_refused_claim_uses_up_no_attempt_and_others_go_on(given: Given, behaviour: Behaviour) -> None:
    """Of two tuples one is refused: the worker runs the other and ends, without a line about the first."""
    refused, other = given.harness.put(ADD, lane="own"), given.harness.put(ADD, lane="own")

    class Choosy(Scripted):
        def before(self, call: Any) -> Any:
            return super().before(call) if call.tuples[0]["id"] == refused else None

    hook = Choosy(behaviour, "claim")
    space = given.hooked(hook)
    given.pool(space, lane="own").run(until_empty=True)
    assert (space.get(refused).state, space.get(refused).attempts) == ("waiting", 0)
    assert space.get(other).state == "done"
    # decision 114: it is asked once, not in a loop, until the time for which a tuple is passed by is over
    assert sum(call.tuples[0]["id"] == refused for call in hook.before_calls) == 1
    assert len(given.reports) == 1
    assert given.harness.space.claim({"id": refused}, worker="another")[0].attempt == 1


def test_a_refused_claim_is_asked_about_again_later(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engrambus.space.tuples.hooked_space.CLAIM_VETO_SECONDS", 0.0)
    hook = Scripted("veto", "claim")
    space = given.hooked(hook)
    assert space.claim({"id": given.waiting}, worker="w") == []
    hook.behaviour = "observe"
    assert [claim.id for claim in space.claim({"id": given.waiting}, worker="w")] == [given.waiting]


@pytest.mark.parametrize(("behaviour", "code"), REFUSALS.items())
def test_a_refused_result_fails_the_attempt_and_stays_on_record(given: Given, behaviour: Behaviour, code: str) -> None:
    put = given.harness.put(ADD)
    given.pool(given.hooked(Scripted(behaviour, "step_complete")), id=put).run(until_empty=True)
    record = given.harness.space.get(put)
    first, *_ = given.harness.receipts(put)
    assert record.state == "dead"
    assert (first.exit, str(first.error).partition(":")[0]) == (125, code)
    assert given.harness.deps.bodies.get(first.stdout_sha) == b"adding\n42\n"
    # It answers nobody from the cache.
    assert "miss" in [item.kind for item in _run_again(given)]


def _run_again(given: Given) -> list[Any]:
    given.harness.put(ADD)
    given.harness.work()
    return given.harness.progress


@pytest.mark.parametrize("primitive", ["step_start", "tuple_complete"])
@pytest.mark.parametrize(("behaviour", "code"), REFUSALS.items())
def test_a_worker_goes_on_after_a_refusal(given: Given, primitive: Any, behaviour: Behaviour, code: str) -> None:
    put = given.harness.put(ADD)
    given.pool(given.hooked(Scripted(behaviour, primitive)), id=put).run(until_empty=True)
    final = given.harness.receipts(put)[-1]
    assert given.harness.space.get(put).state == "dead"
    assert str(final.error).startswith(code)
    executed = [receipt for receipt in given.harness.receipts(put) if receipt.step is not None]
    assert len(executed) == (primitive == "tuple_complete")


def test_a_veto_is_not_retried_and_a_broken_hook_is(given: Given) -> None:
    for behaviour, attempts in (("veto", 1), ("raise", 2)):
        put = given.harness.put(ADD, agent_terms={"max_retries": 1})
        given.pool(given.hooked(Scripted(behaviour, "step_start")), id=put).run(until_empty=True)  # type: ignore[arg-type]
        assert (given.harness.space.get(put).state, given.harness.space.get(put).attempts) == ("dead", attempts)


def test_the_record_of_a_failure_cannot_be_refused(given: Given) -> None:
    hook = Scripted("veto", "step_complete", "tuple_complete")
    space = given.hooked(hook)
    failed = Completion(id=given.claim.id, fence=given.claim.fence, failure="exit 3")
    assert space.complete([failed]) == ([None], [])
    assert space.get(given.claim.id).state == "dead"
    assert [(call.primitive, outcome.code) for call, outcome in hook.after_calls] == [("tuple_complete", "exit 3")]


def test_hooks_see_a_whole_run_in_order(given: Given) -> None:
    hook = Scripted("observe")
    space = given.hooked(hook)
    (put,) = space.out({"lane": "own", "payload": [ADD]}, authority=PERSON, run=RUN)
    given.pool(space, lane="own").run(until_empty=True)
    (again,) = space.out({"lane": "own", "payload": [ADD]}, authority=PERSON, run=RUN)
    given.pool(space, lane="own").run(until_empty=True)
    told = [(call.primitive, outcome.ids[0], outcome.hit) for call, outcome in hook.after_calls]
    executed = ["out", "claim", "step_start", "step_complete", "tuple_complete"]
    assert told[:5] == [(primitive, put.id, False) for primitive in executed]
    hit = [("out", False), ("claim", False), ("step_complete", True), ("tuple_complete", False)]
    assert told[5:] == [(primitive, again.id, is_hit) for primitive, is_hit in hit]


def test_eval_passes_the_hooks(given: Given) -> None:
    hook = Scripted("veto", "eval")
    deps = msgspec.structs.replace(given.harness.deps, space=given.hooked(hook))
    before = given.lines()
    with pytest.raises(EngramBusError, match=REASON):
        eval_(deps, {"lane": "build", "payload": [ADD]}, authority=PERSON, run=RUN)
    assert given.lines() == before


def test_a_hook_may_use_the_bus_and_is_not_asked_about_that(given: Given) -> None:
    class Mirror(PrimitiveHook):
        """Puts a note about every tuple that is put."""

        def before(self, call: Any) -> None:
            space.out({"lane": "mirror"}, authority=PERSON, run=RUN)

        def after(self, call: Any, outcome: Any) -> None:
            space.out({"lane": "mirror", "map_pos": {"of": outcome.ids[0]}}, authority=PERSON, run=RUN)

    space = given.hooked(Mirror())
    (put,) = space.out(NOTE, authority=PERSON, run=RUN)
    mirrored = space.rd_all({"lane": "mirror"})
    assert [msgspec.json.decode(record.body)["map_pos"].get("of") for record in mirrored] == [None, put.id]
    assert given.reports == []


def test_a_hook_that_always_hangs_is_not_called_without_end(given: Given) -> None:
    hook = Scripted("hang", "out")
    space = given.hooked(hook)
    for _ in range(MAX_HANGING + 3):
        with pytest.raises(EngramBusError, match="did not answer"):
            space.out(NOTE, authority=PERSON, run=RUN)
    assert len(hook.before_calls) == MAX_HANGING
    hook.behaviour = "observe"
    hook.released.set()
    for thread in threading.enumerate():
        if thread.name == "hook friday":
            thread.join(30)
    assert space.out(NOTE, authority=PERSON, run=RUN)


def test_several_hooks_are_asked_in_order_until_one_refuses(given: Given) -> None:
    first, second, third = (
        Scripted("observe", name="first"),
        Scripted("veto", name="second"),
        Scripted("observe", name="third"),
    )
    with pytest.raises(EngramBusError, match="'second' refuses out"):
        given.hooked(first, second, third).out(NOTE, authority=PERSON, run=RUN)
    assert [len(hook.before_calls) for hook in (first, second, third)] == [1, 1, 0]
    assert [len(hook.after_calls) for hook in (first, second, third)] == [1, 1, 1]


def test_a_method_of_the_space_is_a_primitive_or_named_as_none(tmp_path: Path) -> None:
    """A new method that moves work must not pass the hooks by: override it in HookedSpace, or say why not."""
    public = {name for name, _ in inspect.getmembers(TupleSpace, inspect.isfunction) if not name.startswith("_")}
    overridden = set(vars(HookedSpace)) & public
    claims_through = {"claim"}  # asks in `_claim`, once for each tuple
    assert public - overridden - claims_through == NOT_PRIMITIVES
    assert "_claim" in vars(HookedSpace)


BATCHES: dict[str, Callable[[BatchSpace, str], Any]] = {
    "batch_spawn": lambda batches, id: batches.spawn(
        {"lane": "build", "payload": [ADD]}, depth=1, branching=3, authority=PERSON, run=RUN
    ),
    "compress": lambda batches, id: batches.compress(id),
    "prune": lambda batches, id: batches.prune(id),
    "cancel": lambda batches, id: batches.cancel(id),
}


@pytest.mark.parametrize("behaviour", ["observe", *REFUSALS])
@pytest.mark.parametrize("primitive", BATCHES)
def test_batches_pass_the_hooks(given: Given, primitive: Any, behaviour: Behaviour) -> None:
    spawned = BATCHES["batch_spawn"](BatchSpace(given.harness.space), "")
    hook = Scripted(behaviour, primitive)
    batches, before = BatchSpace(given.hooked(hook)), given.lines()
    if behaviour == "observe":
        BATCHES[primitive](batches, spawned.id)
        assert [outcome.code for _, outcome in hook.after_calls] == [None]
        return
    with pytest.raises(EngramBusError) as caught:
        BATCHES[primitive](batches, spawned.id)
    assert caught.value.code == REFUSALS[behaviour]
    assert given.lines() == before
    (call,) = hook.before_calls
    assert call.batch == (None if primitive == "batch_spawn" else spawned.id)


def test_a_schedule_asks_before_it_puts_a_tuple_and_records_a_veto(given: Given) -> None:
    """A veto is a refusal like any other, and is tried again later; hooks are told what was put."""
    vetoing = Veto("not today")

    class Gate(PrimitiveHook):
        primitives = ("out",)

        def __init__(self) -> None:
            self.calls: list[PrimitiveCall] = []
            self.outcomes: list[PrimitiveOutcome] = []
            self.answer: Veto | None = vetoing

        def before(self, call: PrimitiveCall) -> Veto | None:
            self.calls.append(call)
            return self.answer

        def after(self, call: PrimitiveCall, outcome: PrimitiveOutcome) -> None:
            self.outcomes.append(outcome)

    gate = Gate()
    schedules = Schedules(given.hooked(gate))
    due_us = SystemClock().now() + 5 * SECOND_US
    for name, lane in (("first", "nightly"), ("second", "nightly")):
        schedules.add(
            name=name,
            run=RUN,
            added_by="me",
            is_admin=True,
            authority=PERSON,
            template={"lane": lane, "payload": [ADD]},
            at=print_time(due_us),
        )
    assert gate.calls == []
    wait_until(lambda: schedules.next_look_us()[1] >= due_us)
    done = schedules.emit_due()
    assert (done.ids, set(done.refused)) == ((), {"first", "second"})
    assert [refusal.code for name in ("first", "second") if (refusal := schedules.get(name).state.refusal)] == [
        "HOOK_VETO",
        "HOOK_VETO",
    ]
    assert {outcome.code for outcome in gate.outcomes} == {"HOOK_VETO"}
    assert {(call.lane, call.run, len(call.tuples)) for call in gate.calls} == {("nightly", RUN, 1)}
    gate.answer = None
    put = schedules.emit_now("first")
    assert gate.outcomes[-1].ids == (put.id,)
