"""Next steps: the yools a tuple needs next, and whether a worker has code for one of them.

decision 100: a worker claims only what it can run, so every tuple that waits is found by the yools of its next steps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import msgspec

from engrambus.space.tuples.rules import dependencies

CanRun = Callable[[str], bool]
"""Tells whether a worker has code for the yool of that name, as a tuple's payload spells it."""


class _StepNeeds(msgspec.Struct):
    yool: str
    after: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET


class _Payload(msgspec.Struct):
    payload: list[_StepNeeds] = []


_decode_payload = msgspec.json.Decoder(_Payload).decode


def next_yools(body: bytes, finished: Collection[int] = ()) -> tuple[str, ...]:
    """Return the yools of the steps that can run once these steps are finished; none if no step is left."""
    steps = _decode_payload(body).payload
    if len(steps) == 1:
        return () if finished else (steps[0].yool,)
    waits_for = dependencies(len(steps), tuple(step.after for step in steps))
    done = frozenset(finished)
    ready = {step.yool for index, step in enumerate(steps) if index not in done and waits_for[index] <= done}
    return tuple(sorted(ready))


def unfinished_yools(body: bytes, finished: Collection[int]) -> tuple[str, ...]:
    """Return the yools of all steps that are not finished."""
    steps = _decode_payload(body).payload
    return tuple(sorted({step.yool for index, step in enumerate(steps) if index not in finished}))


def may_run(yools: Iterable[str], can_run: CanRun | None) -> bool:
    """True if a worker can run one of these yools, or if there are none: a tuple without steps needs no code."""
    if can_run is None:
        return True
    names = tuple(yools)
    return not names or any(map(can_run, names))
