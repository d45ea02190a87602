"""Hooks for the tests. Those in `HOOKS` do what the environment says, for processes that tests start."""

from __future__ import annotations

import os
import threading
from typing import Literal

from engrambus import PrimitiveCall, PrimitiveHook, PrimitiveOutcome, Veto
from engrambus.space.tuples.primitive_hooks import PRIMITIVES, Primitive

Behaviour = Literal["observe", "veto", "raise", "hang", "nonsense", "raise after", "hang after"]
REASON = "no work on Fridays"


class Scripted(PrimitiveHook):
    """A hook that behaves in a given way for given primitives, and notes what it is shown."""

    def __init__(self, behaviour: Behaviour, *primitives: Primitive, name: str = "friday") -> None:
        self.behaviour = behaviour
        self.primitives = primitives or PRIMITIVES
        self.name = name
        self.before_calls: list[PrimitiveCall] = []
        self.after_calls: list[tuple[PrimitiveCall, PrimitiveOutcome]] = []
        self.released = threading.Event()
        """Lets go of every call that hangs."""

    def before(self, call: PrimitiveCall) -> Veto | None:
        self.before_calls.append(call)
        if self.behaviour == "veto":
            return Veto(REASON, field="lane")
        if self.behaviour == "raise":
            raise LookupError("a secret detail")
        if self.behaviour == "hang":
            self.released.wait(60)
        return False if self.behaviour == "nonsense" else None  # type: ignore[return-value]

    def after(self, call: PrimitiveCall, outcome: PrimitiveOutcome) -> None:
        self.after_calls.append((call, outcome))
        if self.behaviour == "raise after":
            raise LookupError("a secret detail")
        if self.behaviour == "hang after":
            self.released.wait(60)


def _from_environment() -> list[PrimitiveHook]:
    behaviour = os.environ.get("TEST_HOOK")
    if behaviour is None:
        return []
    primitives = tuple(os.environ.get("TEST_HOOK_PRIMITIVES", "").split())
    return [Scripted(behaviour, *primitives)]  # type: ignore[arg-type]


HOOKS = _from_environment()
