"""The harness that an author of a work store supplies, and helpers that the suite's tests share."""

from __future__ import annotations

from typing import Any, Protocol

from engrambus.core import SECOND_US, print_time
from engrambus.errors import EngramBusError
from engrambus.evidence.receipts import Cost, Receipt, new_receipt
from engrambus.space.tuples import Claim, Completion, TupleSpace, tuple_receipt
from engrambus.testing.clock import ManualClock

RUN = "01KDVP9R00STGMERGYRUN00000"
PERSON: dict[str, Any] = {"user": "admin", "agent": None, "ci": False}
YOOL = "agent.lint.ruff.v1"
LEASE_US = 30 * SECOND_US


class WorkHarness(Protocol):
    """The work of one project on one back end, with a manual clock."""

    clock: ManualClock
    space: TupleSpace

    def reopen(self) -> None:
        """Close the space and open it again, as another process would."""
        ...

    def reboot(self, boot: str) -> None:
        """Close the space and open it again under another boot id, as after a restart of the machine."""
        ...

    def delete_index(self) -> None:
        """Delete everything but the journal while the space is open."""
        ...

    def journal_bytes(self) -> bytes:
        """Return the journal, header included."""
        ...

    def close(self) -> None:
        """Close the store."""
        ...


def draft(lane: str = "build", *args: int, **fields: Any) -> dict[str, Any]:
    """Return a tuple as a caller sends it, with one step for each number."""
    steps = [{"yool": "agent.lint.ruff", "args": {"n": n}} for n in args or (0,)]
    return {"lane": lane, "payload": steps, **fields}


def put(harness: WorkHarness, *drafts: dict[str, Any], run: str = RUN, **options: Any) -> list[str]:
    """Put tuples and return their ids."""
    answers = harness.space.out(*(drafts or (draft(),)), authority=PERSON, run=run, **options)
    return [answer.id for answer in answers]


def take(harness: WorkHarness, lane: str = "build", limit: int = 1, worker: str = "w1") -> list[Claim]:
    """Claim tuples of a lane without waiting."""
    return harness.space.claim({"lane": lane}, worker=worker, limit=limit)


def receipt(harness: WorkHarness, claim: Claim, step: int = 0, *, exit: int = 0, **fields: Any) -> Receipt:
    """Return the receipt of a step that ran now."""
    now = print_time(harness.clock.now())
    cost = Cost(usd=fields.pop("usd", 0.0), tokens_in=fields.pop("tokens_in", 0))
    return new_receipt(
        yool=YOOL,
        tuple_id=claim.id,
        started_at=now,
        ended_at=now,
        exit=exit,
        step=step,
        attempt=claim.attempt,
        worker=claim.worker,
        cost=fields.pop("cost", cost),
        **fields,
    )


def completion(harness: WorkHarness, claim: Claim, **fields: Any) -> Completion:
    """Return the completion of a tuple: receipts for its remaining steps, and its last receipt."""
    steps = range(len(claim.tuple.payload))
    new = [receipt(harness, claim, step, **fields) for step in steps if step not in claim.finished_steps]
    receipts = [*claim.finished_steps.values(), *(item.id for item in new)]
    last = tuple_receipt(claim.id, executed=new, receipts=receipts, exit=0, now=print_time(harness.clock.now()))
    return Completion(id=claim.id, fence=claim.fence, receipts=tuple(new), final_receipt=last)


def failure(
    harness: WorkHarness, claim: Claim, step: int = 0, why: str = "the process died", **fields: Any
) -> Completion:
    """Return the report of a step that failed; by a fault, which is retried, unless said otherwise."""
    failed_step = receipt(harness, claim, step, exit=1, error=why, **fields)
    return Completion(id=claim.id, fence=claim.fence, receipts=(failed_step,), failure=why)


def expect_error(kind: type[EngramBusError], call: Any, *args: Any, **options: Any) -> EngramBusError:
    """Return the error of this kind that a call must raise."""
    try:
        call(*args, **options)
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected")
