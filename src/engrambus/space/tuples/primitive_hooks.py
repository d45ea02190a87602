"""Hooks of the tuple space's primitives: the operator's code, called before each call and after it, with its outcome.

decision 114: they are the hookwall of the specification. What each primitive does with a veto is in `hooked_space`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, get_args

import msgspec

from engrambus.errors import EngramBusError, HookFailed, HookTimeout, HookVeto

Primitive = Literal[
    "out",
    "rd",
    "in",
    "eval",
    "claim",
    "step_start",
    "step_complete",
    "tuple_complete",
    "cancel",
    "record",
    "batch_spawn",
    "compress",
    "prune",
]
PRIMITIVES: tuple[Primitive, ...] = get_args(Primitive)

MAX_REASON = 500
"""Characters of a hook's reason that are passed on."""
MAX_HANGING = 8
"""Calls of a hook that may hang at once; beyond it, the hook is not called until one of them ends."""
_MAX_REPORTED = 1000
"""Different troubles that are reported; later ones are only counted."""


class PrimitiveCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a primitive, as hooks are shown it. Nothing in it can be changed."""

    primitive: Primitive
    caller: str
    """Full name of the agent or admin that calls; of a worker, the name of its process."""
    authority: Mapping[str, Any] | None = None
    """User, agent and ci on whose authority the tuples are or will be; None for a pattern."""
    run: str | None = None
    """The run of the tuples; None for a pattern."""
    lane: str | None = None
    """The lane of the (first) tuple, or the one that a pattern requires."""
    tuples: tuple[Mapping[str, Any], ...] = ()
    """The tuples: as they were sent for `out`, `eval` and `record`, else as they are in the space, with their ids."""
    pattern: tuple[tuple[str, str, Any], ...] = ()
    """Conditions of `rd` and `in`: path, operator, value."""
    batch: str | None = None
    """Id of the batch."""
    step: int | None = None
    yool: str | None = None
    """Full name of the step's yool."""
    receipt: Mapping[str, Any] | None = None
    """Receipt of the step or the tuple that is to be recorded."""

    def to_dict(self) -> dict[str, Any]:
        """Return the call as a dict of its own, for `json.dumps` and the like."""
        return {name: thaw(getattr(self, name)) for name in self.__struct_fields__}


class PrimitiveOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a call."""

    code: str | None = None
    """The error code it was refused with; None if it was carried out."""
    ids: tuple[str, ...] = ()
    """Ids of the tuples that it put, found, took, claimed or ended."""
    hit: bool = False
    """True if the step was answered from the cache, and not run."""
    receipt: Mapping[str, Any] | None = None
    """The receipt that was recorded, if there is one."""


class Veto(msgspec.Struct, frozen=True):
    """A hook's answer that a call must not be carried out."""

    reason: str
    """Why; the caller is shown it."""
    field: str | None = None
    """The field that is at fault, if it is one."""


class PrimitiveHook:
    """Base class of hooks. A hook is called from several threads; it may use the bus, and is not asked about that."""

    name: str = ""
    """What refusals and reports call it; by default the name of its class."""
    primitives: Sequence[Primitive] = PRIMITIVES
    """The primitives it wants to know of."""

    def before(self, call: PrimitiveCall) -> Veto | None:
        """Return None to let a call go on, or a Veto."""
        return None

    def after(self, call: PrimitiveCall, outcome: PrimitiveOutcome) -> None:
        """Observe what became of a call; what it returns or raises changes nothing."""


class HookState(msgspec.Struct, frozen=True, kw_only=True):
    """What a process knows about one of its hooks."""

    name: str
    source: str
    """Where it comes from: an entry point, a variable, the program."""
    primitives: tuple[Primitive, ...]


class _Unanswered(Exception):
    """A hook did not answer in time."""


class _Threads(threading.local):
    is_hook = False


_threads = _Threads()


def is_inside_hook() -> bool:
    """True in the thread of a hook, whose own calls are not hooked: it would wait for itself."""
    return _threads.is_hook


class PrimitiveHooks:
    """All hooks of a process, in the order they were named."""

    def __init__(
        self,
        hooks: Sequence[tuple[PrimitiveHook, str]],
        *,
        limit_seconds: float,
        report: Callable[[str], None],
    ) -> None:
        """Each hook comes with its source; `report` is given a line for each new trouble."""
        self._hooks = [(hook, hook.name or type(hook).__name__) for hook, _ in hooks]
        self._primitives = [frozenset(hook.primitives) for hook, _ in hooks]
        self.states = [
            HookState(name=name, source=source, primitives=tuple(item for item in PRIMITIVES if item in listed))
            for (_, name), (_, source), listed in zip(self._hooks, hooks, self._primitives, strict=True)
        ]
        self.limit_seconds = limit_seconds
        self.troubles: Counter[str] = Counter()
        """How often each trouble was met; the first of each kind is reported."""
        self._report = report
        self._lock = threading.Lock()
        self._hanging: Counter[str] = Counter()

    def listens(self, primitive: Primitive) -> bool:
        """True if a hook wants to know of a primitive, and this is not the thread of a hook."""
        return not is_inside_hook() and any(primitive in listed for listed in self._primitives)

    def ask(self, call: PrimitiveCall) -> None:
        """Call every hook before a call; raise the first refusal."""
        for (hook, name), listed in zip(self._hooks, self._primitives, strict=True):
            if call.primitive in listed:
                self._ask_one(hook, name, call)

    def _ask_one(self, hook: PrimitiveHook, name: str, call: PrimitiveCall) -> None:
        about = {"hook": name, "field": call.primitive}
        try:
            answer = self._run(name, lambda: hook.before(call))
        except _Unanswered:
            self.note(f"hook '{name}' took longer than {self.limit_seconds:g} s before {call.primitive}: refused")
            raise HookTimeout(
                f"The hook '{name}' did not answer within {self.limit_seconds:g} s before {call.primitive}.",
                limit=self.limit_seconds,
                hint="ENGRAMBUS_HOOK_SECONDS is the limit; the operator has to mend the hook.",
                **about,
            ) from None
        except BaseException as problem:
            kind = type(problem).__name__
            self.note(f"hook '{name}' raised {kind} before {call.primitive}: refused")
            raise HookFailed(
                f"The hook '{name}' raised {kind} before {call.primitive}.",
                reason=kind,
                hint="The operator has to mend the hook; nothing was changed.",
                **about,
            ) from problem
        if answer is None:
            return
        if not isinstance(answer, Veto) or not isinstance(answer.reason, str):
            kind = type(answer).__name__
            self.note(f"hook '{name}' returned {kind} before {call.primitive}, neither None nor a Veto: refused")
            raise HookFailed(
                f"The hook '{name}' returned {kind}, neither None nor a Veto.", reason=f"returned {kind}", **about
            )
        reason = answer.reason[:MAX_REASON]
        about["field"] = answer.field if isinstance(answer.field, str) and answer.field else call.primitive
        raise HookVeto(f"The hook '{name}' refuses {call.primitive}: {reason}", reason=reason, **about)

    def tell(self, call: PrimitiveCall, outcome: PrimitiveOutcome) -> None:
        """Call every hook after a call. What they do changes nothing, but the trouble they make is reported."""
        for (hook, name), listed in zip(self._hooks, self._primitives, strict=True):
            if call.primitive not in listed:
                continue
            try:
                self._run(name, lambda hook=hook: hook.after(call, outcome))  # type: ignore[misc]
            except _Unanswered:
                self.note(f"hook '{name}' took longer than {self.limit_seconds:g} s after {call.primitive}: left alone")
            except BaseException as problem:
                self.note(f"hook '{name}' raised {type(problem).__name__} after {call.primitive}")

    def note(self, trouble: str) -> None:
        """Count a trouble, and report the first of its kind."""
        with self._lock:
            is_new = trouble not in self.troubles and len(self.troubles) < _MAX_REPORTED
            if is_new or trouble in self.troubles:
                self.troubles[trouble] += 1
        if is_new:
            self._report(trouble)

    def _run(self, name: str, function: Callable[[], Any]) -> Any:
        """Return what a hook returned, or raise what it raised or _Unanswered.

        A thread cannot be stopped, so one that hangs is left behind. It is a daemon: the process can end without it.
        """
        with self._lock:
            if self._hanging[name] >= MAX_HANGING:
                raise _Unanswered
        answered = threading.Event()
        results: list[Any] = []
        problems: list[BaseException] = []
        left_behind = False

        def run() -> None:
            _threads.is_hook = True
            try:
                results.append(function())
            except BaseException as problem:  # SystemExit, too: a hook must not end the process it is asked in
                problems.append(problem)
            with self._lock:
                answered.set()
                if left_behind:
                    self._hanging[name] -= 1

        threading.Thread(target=run, name=f"hook {name}", daemon=True).start()
        if not answered.wait(self.limit_seconds):
            with self._lock:
                if not answered.is_set():
                    left_behind = True
                    self._hanging[name] += 1
            if left_behind:
                raise _Unanswered
        if problems:
            raise problems[0]
        return results[0]


def freeze(value: Any) -> Any:
    """Return JSON-like data as a value that cannot be changed."""
    if isinstance(value, Mapping):
        return MappingProxyType({name: freeze(item) for name, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    return value


def thaw(value: Any) -> Any:
    """Return frozen data as dicts and lists."""
    if isinstance(value, Mapping):
        return {name: thaw(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [thaw(item) for item in value]
    return value


def refusal_code(problem: BaseException) -> str:
    """Return the code under which an outcome tells what a call raised."""
    return problem.code if isinstance(problem, EngramBusError) else "INTERNAL"
