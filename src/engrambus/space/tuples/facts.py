"""What happens in the space, as it stands in `.catalog/tuples.jsonl`."""

from __future__ import annotations

import msgspec

from engrambus.evidence.receipts import Receipt


class _Fact(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", omit_defaults=True):
    pass


class TupleOut(_Fact, frozen=True, tag="tuple.out"):
    """A tuple came into the space."""

    id: str
    run: str
    tuple: msgspec.Raw
    """As it was created, canonical, without its id."""
    accepted: Receipt | None = None
    """The receipt given for it when it came from an edge."""
    again: str | None = None
    """The dead letter it is put in place of."""
    asked: str | None = None
    """The caller and the key under which it was asked for: asked again, it is the answer."""
    request: str | None = None
    """The digest of what was asked then."""
    retries: int | None = None
    """How often it may be tried again, where not it but its yools say so."""


class TupleAsked(_Fact, frozen=True, tag="tuple.asked"):
    """A tuple that was there already was asked for under a key: asked again, it is the answer."""

    id: str
    asked: str
    """The caller and the key."""
    request: str
    """The digest of what was asked."""
    accepted: str | None = None
    """The id of the receipt for taking it in, where that was the answer."""


class TupleTaken(_Fact, frozen=True, tag="tuple.taken"):
    """A tuple was taken out for good."""

    id: str
    by: str


class TupleClaimed(_Fact, frozen=True, tag="tuple.claimed"):
    """A worker holds a tuple until a moment."""

    id: str
    worker: str
    epoch: int
    counter: int
    until: int


class LeaseRenewed(_Fact, frozen=True, tag="lease.renewed"):
    """The worker goes on holding it."""

    id: str
    until: int


class TupleReleased(_Fact, frozen=True, tag="tuple.released"):
    """A worker gave a tuple back."""

    id: str
    ready_at: int = 0
    """Not before this moment is it given out again."""
    counts: bool = True
    """Whether the attempt counts; not when a worker was told to stop."""
    reason: str | None = None


class StepStarted(_Fact, frozen=True, tag="step.started"):
    """A step began, with something set aside for it."""

    id: str
    step: int
    micros: int = 0
    tokens: int = 0


class StepCost(_Fact, frozen=True, tag="step.cost"):
    """A step has spent something more than was counted of it before."""

    id: str
    step: int
    micros: int = 0
    tokens: int = 0
    epoch: int = 0
    """The claim it was executed under, with the counter: of one execution nothing is counted twice."""
    counter: int = 0
    late: bool = False
    """Whether that claim was not the tuple's any more: another's, or the tuple had ended."""


class StepDone(_Fact, frozen=True, tag="step.done"):
    """A step was executed, with or without success."""

    id: str
    step: int
    run: str
    receipt: Receipt
    micros: int = 0
    """What it cost beyond what was said while it ran."""
    tokens: int = 0
    epoch: int = 0
    """The claim it was executed under, with the counter, if it cost more than was said."""
    counter: int = 0


class StepHit(_Fact, frozen=True, tag="step.hit"):
    """A step had been executed before, on the same input."""

    id: str
    step: int
    receipt: str
    """The original receipt's id."""


class TupleDone(_Fact, frozen=True, tag="tuple.done"):
    """A tuple has come to its end."""

    id: str
    run: str
    state: str
    """`done`, `dead` or `cancelled`."""
    receipt: Receipt


class AlarmRaised(_Fact, frozen=True, tag="budget.alarm"):
    """A tuple has spent so much of its budget that somebody should know."""

    id: str
    alarm: str
    """The tuple that says so."""


class EpochBegun(_Fact, frozen=True, tag="epoch.begun"):
    """The machine was started anew: nobody who held a claim before is alive."""

    epoch: int
    boot: str


class BodyDamaged(_Fact, frozen=True, tag="body.damaged"):
    """A body a receipt names is not what it was; the receipt serves as no hit any more."""

    receipt: str
    sha: str


class BodyPurged(_Fact, frozen=True, tag="body.purged"):
    """A body that receipts name was taken away to make room; they stay, and say what it was."""

    sha: str
    size: int
    why: str
    """`artifact` past the hot days, `printed` past the warm days, `room` when there was none."""


Fact = (
    TupleOut
    | TupleAsked
    | TupleTaken
    | TupleClaimed
    | LeaseRenewed
    | TupleReleased
    | StepStarted
    | StepCost
    | StepDone
    | StepHit
    | TupleDone
    | AlarmRaised
    | EpochBegun
    | BodyDamaged
    | BodyPurged
)
