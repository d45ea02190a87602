"""The tuple space with the operator's hooks around its primitives: the one place that every edge and worker passes.

A method of `TupleSpace` that is a primitive is overridden here, and nothing else is: a space without hooks costs
nothing (decision 114). No hook is called under the write lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from engrambus.errors import EngramBusError, HookRefusal, error_line
from engrambus.evidence.receipts import Receipt, receipt_id
from engrambus.space.tuples.completion import Completion
from engrambus.space.tuples.enqueue import PutResult
from engrambus.space.tuples.facts import TupleDone, TupleReleased
from engrambus.space.tuples.final_receipts import EXIT_REFUSED
from engrambus.space.tuples.next_steps import CanRun
from engrambus.space.tuples.patterns import ABSENT, TuplePattern, read_pattern
from engrambus.space.tuples.primitive_hooks import (
    Primitive,
    PrimitiveCall,
    PrimitiveHooks,
    PrimitiveOutcome,
    freeze,
    refusal_code,
)
from engrambus.space.tuples.space import TupleSpace
from engrambus.space.tuples.values import Claim, Price, TupleRecord

T = TypeVar("T")

CLAIM_VETO_SECONDS = 10.0
"""Time for which a process does not ask again about a tuple whose claim was refused."""
MAX_LOOKAHEAD = 10_000
"""Refused tuples that a claim looks past."""

NOT_PRIMITIVES = frozenset(
    {
        "admit",
        "announce",
        "block",
        "check_disk_space",
        "close",
        "commit_ending",
        "get",
        "missing_bodies",
        "public_tuple",
        "raise_unclaimed_alarm",
        "rd_all",
        "receipt",
        "receipt_differences",
        "record_cost",
        "release",
        "release_dead",
        "renew",
        "report_damage",
        "rewrite_receipts",
        "running_workers",
        "unblock",
        "unclaimed_work",
        "waits_for_budget",
        "write_receipts",
    }
)
"""Methods of a space that hooks are not asked about: they keep claims and books, or read for the product itself."""


class HookedSpace(TupleSpace):
    """A tuple space that asks the operator's hooks before each primitive, and tells them its outcome."""

    def __init__(self, *args: Any, hooks: PrimitiveHooks, caller: Callable[[], str], **options: Any) -> None:
        """`caller` returns the name of who calls in this thread; empty if no one came in through the gateway."""
        super().__init__(*args, **options)
        self.hooks = hooks
        self._caller = caller
        self._refused_claims: dict[str, float] = {}
        """Until when tuples are passed by, by id, in seconds of the monotonic clock."""
        self._refused_lock = threading.Lock()

    def _hooked(
        self, call: PrimitiveCall, run: Callable[[], T], outcome: Callable[[T], PrimitiveOutcome], *, ask: bool = True
    ) -> T:
        """Carry out a primitive between its hooks. A new primitive is one more method that calls this."""
        try:
            if ask:
                self.hooks.ask(call)
            answer = run()
        except BaseException as problem:
            self.hooks.tell(call, PrimitiveOutcome(code=refusal_code(problem)))
            raise
        self.hooks.tell(call, outcome(answer))
        return answer

    # Linda's operations

    def out(
        self, *drafts: Mapping[str, Any], authority: Mapping[str, Any], run: str, trusted: bool = False, **options: Any
    ) -> list[PutResult]:
        def put() -> list[PutResult]:
            return TupleSpace.out(self, *drafts, authority=authority, run=run, trusted=trusted, **options)

        # The product's own tuples keep the disk from filling up; a hook cannot forbid that.
        if trusted or not self.hooks.listens("out"):
            return put()
        return self._hooked(
            self._new_call("out", drafts, authority, run),
            put,
            lambda answers: PrimitiveOutcome(ids=tuple(answer.id for answer in answers)),
        )

    def put_again(self, tuple_id: str, *, authority: Mapping[str, Any]) -> PutResult:
        if not self.hooks.listens("out"):
            return super().put_again(tuple_id, authority=authority)
        call = self._call_about("out", self.get(tuple_id), authority=freeze(authority))
        return self._hooked(
            call,
            lambda: TupleSpace.put_again(self, tuple_id, authority=authority),
            lambda answer: PrimitiveOutcome(ids=(answer.id,)),
        )

    def rd(self, pattern: Mapping[str, Any] | TuplePattern, timeout: float = 0.0) -> TupleRecord | None:
        if not self.hooks.listens("rd"):
            return super().rd(pattern, timeout)
        parsed = _parse(pattern)
        return self._hooked(self._pattern_call("rd", parsed), lambda: TupleSpace.rd(self, parsed, timeout), _found)

    def in_(self, pattern: Mapping[str, Any] | TuplePattern, *, by: str, timeout: float = 0.0) -> TupleRecord | None:
        if not self.hooks.listens("in"):
            return super().in_(pattern, by=by, timeout=timeout)
        parsed = _parse(pattern)
        call = self._pattern_call("in", parsed, by)
        return self._hooked(call, lambda: TupleSpace.in_(self, parsed, by=by, timeout=timeout), _found)

    def out_claimed(
        self, draft: Mapping[str, Any], *, authority: Mapping[str, Any], run: str, worker: str, recorded: bool = False
    ) -> tuple[PutResult, Claim | None]:
        primitive: Primitive = "record" if recorded else "eval"

        def put() -> tuple[PutResult, Claim | None]:
            return TupleSpace.out_claimed(self, draft, authority=authority, run=run, worker=worker, recorded=recorded)

        if not self.hooks.listens(primitive):
            return put()
        call = self._new_call(primitive, (draft,), authority, run, worker)
        return self._hooked(call, put, lambda answer: PrimitiveOutcome(ids=(answer[0].id,)))

    def record_finished(
        self,
        draft: Mapping[str, Any],
        make_receipt: Callable[[str, int], Receipt],
        *,
        authority: Mapping[str, Any],
        run: str,
    ) -> tuple[str, Receipt]:
        def record() -> tuple[str, Receipt]:
            return TupleSpace.record_finished(self, draft, make_receipt, authority=authority, run=run)

        if not self.hooks.listens("record"):
            return record()
        return self._hooked(
            self._new_call("record", (draft,), authority, run),
            record,
            lambda answer: PrimitiveOutcome(ids=(answer[0],), receipt=_data(answer[1])),
        )

    def cancel(self, tuple_id: str) -> Receipt:
        if not self.hooks.listens("cancel"):
            return super().cancel(tuple_id)
        return self._hooked(
            self._call_about("cancel", self.get(tuple_id)),
            lambda: TupleSpace.cancel(self, tuple_id),
            lambda final: PrimitiveOutcome(ids=(tuple_id,), receipt=_data(final)),
        )

    def around(
        self,
        primitive: Primitive,
        act: Callable[[], T],
        *,
        drafts: Sequence[Mapping[str, Any]] = (),
        authority: Mapping[str, Any] | None = None,
        run: str | None = None,
        tuple_id: str | None = None,
        batch: str | None = None,
        lane: str | None = None,
    ) -> T:
        if not self.hooks.listens(primitive):
            return act()
        if tuple_id is not None:
            call = self._call_about(primitive, self.get(tuple_id), batch=batch)
        elif drafts:
            call = self._new_call(primitive, drafts, authority or {}, run or "")
        else:
            call = PrimitiveCall(primitive=primitive, caller=self._caller(), run=run, lane=lane, batch=batch)
        ids = tuple(id for id in (tuple_id or batch,) if id is not None)
        return self._hooked(call, act, lambda answer: PrimitiveOutcome(ids=ids or _ids_in(answer)))

    def is_hooked(self, primitive: Primitive) -> bool:
        return self.hooks.listens(primitive)

    # For workers

    def may_claim(self, pattern: TuplePattern, limit: int, can_run: CanRun | None = None) -> bool:
        if not self.hooks.listens("claim"):
            return super().may_claim(pattern, limit, can_run)
        self._may_match(pattern, limit, can_run)  # unfolds leaves of batches that the claim reaches
        return next(self._not_refused(pattern, 1, can_run), None) is not None

    def _unfold_for(self, pattern: TuplePattern, limit: int, can_run: CanRun | None = None) -> None:
        """Unfold as many leaves as if those whose claim was refused were not there."""
        super()._unfold_for(pattern, limit + len(self._refused_claims), can_run)

    def _claim(
        self, pattern: TuplePattern, worker: str, limit: int, can_run: CanRun | None
    ) -> tuple[list[Claim], list[TupleDone | TupleReleased]]:
        """Ask about each tuple without the lock, then claim those that are allowed, one commit for each."""
        if not self.hooks.listens("claim"):
            return super()._claim(pattern, worker, limit, can_run)
        claimed: list[Claim] = []
        not_claimed_all: list[TupleDone | TupleReleased] = []
        for record in self._not_refused(pattern, limit, can_run):
            call = self._call_about("claim", record, caller=worker)
            try:
                self.hooks.ask(call)
            except HookRefusal as refusal:
                self._pass_by(record.id, refusal)
                self.hooks.tell(call, PrimitiveOutcome(code=refusal.code))
                continue
            this = pattern.narrowed(read_pattern({"id": record.id}))
            new, not_claimed = super()._claim(this, worker, 1, can_run)
            not_claimed_all += not_claimed
            if new:  # else another worker was faster
                claimed += new
                self.hooks.tell(call, PrimitiveOutcome(ids=(record.id,)))
            if len(claimed) == limit:
                break
        return claimed, not_claimed_all

    def _not_refused(self, pattern: TuplePattern, limit: int, can_run: CanRun | None) -> Iterator[TupleRecord]:
        """Yield tuples that can be claimed, without those whose claim was refused a moment ago."""
        with self._refused_lock:
            now = time.monotonic()
            self._refused_claims = {id: until for id, until in self._refused_claims.items() if until > now}
            refused = set(self._refused_claims)
        with self.store.read() as view:
            epoch = view.current_epoch()
            number = epoch.number + (epoch.boot != self.boot)
            window = min(limit + len(refused), MAX_LOOKAHEAD)
            records = view.claimable(pattern, epoch=number, limit=window, can_run=can_run)
        yield from (record for record in records if record.id not in refused)

    def _pass_by(self, tuple_id: str, refusal: HookRefusal) -> None:
        with self._refused_lock:
            self._refused_claims[tuple_id] = time.monotonic() + CLAIM_VETO_SECONDS
        if refusal.code == "HOOK_VETO":  # the others were noted when they happened
            self.hooks.note(f"hook '{refusal.hook}' refuses claims: {refusal.reason}")

    def start_step(self, claim: Claim, step: int, price: Price, yool: str = "") -> None:
        if not self.hooks.listens("step_start"):
            return super().start_step(claim, step, price, yool)
        return self._hooked(
            _call_about_claim("step_start", claim, step=step, yool=yool),
            lambda: TupleSpace.start_step(self, claim, step, price, yool),
            lambda answer: PrimitiveOutcome(ids=(claim.id,)),
        )

    def check_result(self, claim: Claim, receipt: Receipt) -> Receipt:
        """Return the receipt, or, if a hook refuses a success, one of a failure that says so.

        What the step printed and spent is recorded in any case.
        """
        if receipt.exit or not self.hooks.listens("step_complete"):
            return receipt
        try:
            self.hooks.ask(_step_call(claim, receipt))
        except HookRefusal as refusal:
            refused = msgspec.structs.replace(receipt, exit=EXIT_REFUSED, error=error_line(refusal), key=None)
            return msgspec.structs.replace(refused, id=receipt_id(refused))
        return receipt

    def complete(
        self,
        completions: Sequence[Completion],
        *,
        claim_more: tuple[Mapping[str, Any] | TuplePattern, str, int] | None = None,
    ) -> tuple[list[str | None], list[Claim]]:
        """Record what was done; refuse if a hook refuses the success of one of the tuples.

        That a tuple failed cannot be refused: hooks are only informed.
        """
        steps, ends = self.hooks.listens("step_complete"), self.hooks.listens("tuple_complete")
        claims_hooked = claim_more is not None and self.hooks.listens("claim")
        if not (steps or ends or claims_hooked):
            return super().complete(completions, claim_more=claim_more)
        calls = [list(self._completion_calls(completion)) for completion in completions]
        for call, _ in (pair for pairs in calls for pair in pairs):
            if call.primitive == "tuple_complete" and call.receipt is not None:
                self._ask_or_tell(call)
        answers, claims = super().complete(completions, claim_more=None if claims_hooked else claim_more)
        for code, pairs in zip(answers, calls, strict=True):
            for call, outcome in pairs:
                if self.hooks.listens(call.primitive):
                    self.hooks.tell(call, outcome if code is None else PrimitiveOutcome(code=code))
        if claims_hooked and claim_more is not None:
            pattern, worker, limit = claim_more
            claims = self.claim(pattern, worker=worker, limit=limit)
        return answers, claims

    def _ask_or_tell(self, call: PrimitiveCall) -> None:
        try:
            self.hooks.ask(call)
        except EngramBusError as refusal:
            self.hooks.tell(call, PrimitiveOutcome(code=refusal.code))
            raise

    def _completion_calls(self, completion: Completion) -> Iterator[tuple[PrimitiveCall, PrimitiveOutcome]]:
        """Yield a call for each thing that a completion records, with its outcome if it is recorded."""
        with self.store.read() as view:
            record = view.find(completion.id)
        if record is None:
            return
        for receipt in completion.receipts:
            call = self._call_about(
                "step_complete", record, step=receipt.step, yool=receipt.yool, receipt=_data(receipt)
            )
            yield call, PrimitiveOutcome(ids=(record.id,), receipt=call.receipt)
        for step, original in completion.hits:
            call = self._call_about("step_complete", record, step=step, yool=record.tuple.payload[step].yool)
            yield call, PrimitiveOutcome(ids=(record.id,), hit=True, receipt=freeze({"id": original}))
        if completion.final_receipt is not None:
            final = _data(completion.final_receipt)
            yield (
                self._call_about("tuple_complete", record, receipt=final),
                PrimitiveOutcome(ids=(record.id,), receipt=final),
            )
        elif completion.failure is not None:
            call = self._call_about("tuple_complete", record)
            yield call, PrimitiveOutcome(ids=(record.id,), code=completion.failure.partition(":")[0])

    # What hooks are shown

    def _new_call(
        self,
        primitive: Primitive,
        drafts: Sequence[Mapping[str, Any]],
        authority: Mapping[str, Any],
        run: str,
        caller: str = "",
    ) -> PrimitiveCall:
        lane = drafts[0].get("lane") if drafts else None
        return PrimitiveCall(
            primitive=primitive,
            caller=self._caller() or caller,
            authority=freeze(authority),
            run=run,
            lane=lane if isinstance(lane, str) else None,
            tuples=freeze(drafts),
        )

    def _pattern_call(self, primitive: Primitive, pattern: TuplePattern, caller: str = "") -> PrimitiveCall:
        lane = pattern.equal_to("lane")
        return PrimitiveCall(
            primitive=primitive,
            caller=self._caller() or caller,
            lane=None if lane is ABSENT else lane,
            pattern=tuple((item.path, item.operator, freeze(item.value)) for item in pattern.conditions),
        )

    def _call_about(
        self, primitive: Primitive, record: TupleRecord, *, caller: str = "", **members: Any
    ) -> PrimitiveCall:
        fields = {**msgspec.json.decode(record.body), "id": record.id}
        members = {"authority": freeze(fields.get("authority")), **members}
        return PrimitiveCall(
            primitive=primitive,
            caller=self._caller() or caller or record.worker or "",
            run=record.run,
            lane=record.lane,
            tuples=(freeze(fields),),
            **members,
        )


def _call_about_claim(primitive: Primitive, claim: Claim, **members: Any) -> PrimitiveCall:
    fields = {**msgspec.json.decode(claim.body), "id": claim.id}
    return PrimitiveCall(
        primitive=primitive,
        caller=claim.worker,
        authority=freeze(fields.get("authority")),
        run=claim.run,
        lane=fields.get("lane"),
        tuples=(freeze(fields),),
        **members,
    )


def _step_call(claim: Claim, receipt: Receipt) -> PrimitiveCall:
    return _call_about_claim("step_complete", claim, step=receipt.step, yool=receipt.yool, receipt=_data(receipt))


def _ids_in(answer: object) -> tuple[str, ...]:
    """Return the id that an answer is or has, or all that it has."""
    tuple_id = answer if isinstance(answer, str) else getattr(answer, "id", None)
    if tuple_id is None:
        return getattr(answer, "ids", ())
    return (tuple_id,) if isinstance(tuple_id, str) else ()


def _found(record: TupleRecord | None) -> PrimitiveOutcome:
    return PrimitiveOutcome(ids=() if record is None else (record.id,))


def _data(receipt: Receipt) -> Any:
    return freeze(msgspec.to_builtins(receipt))


def _parse(pattern: Mapping[str, Any] | TuplePattern) -> TuplePattern:
    return pattern if isinstance(pattern, TuplePattern) else read_pattern(pattern)
