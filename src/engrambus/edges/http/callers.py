"""Callers: whose request it is, how many of a thing each holds, and a fair share of the worker threads."""

from __future__ import annotations

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, TypeVar

import anyio
from anyio import to_thread
from starlette.types import Scope

from engrambus.edges.http.connections import MARK_KNOWN
from engrambus.edges.http.server_limits import ServerLimits
from engrambus.errors import TooManyCalls
from engrambus.gateway import Operation
from engrambus.policy import ADMIN, TokenClaims

T = TypeVar("T")
CallKind = Literal["read", "note", "write"]
"""A call that never waits for the store's lock, one that reads and may note what was shown, and one that writes."""


class HttpCaller(NamedTuple):
    """The holder of a token or of a session of the page."""

    name: str
    """The full name of the agent, or the id of the session."""
    is_person: bool


def call_kind(operation: Operation[Any, Any]) -> CallKind:
    """Return how a call of an operation may wait."""
    if not operation.writes:
        return "read"
    return "note" if operation.route is not None and operation.route.method == "GET" else "write"


def mark_caller(scope: Scope, caller: HttpCaller) -> HttpCaller:
    """Note on the connection that its client has shown who it is."""
    mark_known: Callable[[], None] | None = scope.get(MARK_KNOWN)
    if mark_known is not None:
        mark_known()
    return caller


def token_caller(scope: Scope, claims: TokenClaims) -> HttpCaller:
    """Return the caller of a request with a token that this project signed."""
    # decision 120: only the tokens that a process of the operator's own account signs are not listed and have no id
    is_operator = claims.role == ADMIN and claims.id is None
    return mark_caller(scope, HttpCaller(f"{claims.run}/{claims.agent}", is_operator))


def session_caller(scope: Scope, session_id: str) -> HttpCaller:
    """Return the caller of a request with a session of the page."""
    return mark_caller(scope, HttpCaller(f"session {session_id}", is_person=True))


class CallerCounts:
    """Count how many of a thing each caller holds at once."""

    def __init__(self) -> None:
        self._counts: Counter[HttpCaller] = Counter()

    def of(self, caller: HttpCaller) -> int:
        """Return how many a caller holds."""
        return self._counts.get(caller, 0)

    def total(self, *, people: bool) -> int:
        """Return how many all agents, or all people, hold."""
        return sum(count for caller, count in self._counts.items() if caller.is_person == people)

    def add(self, caller: HttpCaller) -> None:
        """Count one more."""
        self._counts[caller] += 1

    def remove(self, caller: HttpCaller) -> None:
        """Count one less."""
        self._counts[caller] -= 1
        if self._counts[caller] <= 0:
            del self._counts[caller]

    @contextmanager
    def holding(self, caller: HttpCaller) -> Iterator[None]:
        """Count one more while the context is open."""
        self.add(caller)
        try:
            yield
        finally:
            self.remove(caller)


MAX_REMEMBERED = 4096
"""Callers, or addresses, whose recent calls are remembered; the one that was quiet longest is forgotten first."""
BURST_SHARE = 5
"""A caller may spend this part of a minute's calls at once."""


class CallRates:
    """The calls that each caller has left, filled up evenly as time passes: a token bucket for each."""

    def __init__(self, calls_per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self._per_second = calls_per_minute / 60
        self._burst = max(1.0, calls_per_minute / BURST_SHARE)
        self._limit = calls_per_minute
        self._now = now
        self._left: OrderedDict[object, tuple[float, float]] = OrderedDict()
        """Calls left and when that was, by caller."""

    def seconds_to_wait(self, caller: object) -> int:
        """Count one call; return 0, or after how many seconds the caller may call again if it has none left."""
        now = self._now()
        left, counted = self._left.pop(caller, (self._burst, now))
        left = min(self._burst, left + (now - counted) * self._per_second)
        wait_seconds = 0 if left >= 1 else math.ceil((1 - left) / self._per_second)
        self._left[caller] = (left - (not wait_seconds), now)
        if len(self._left) > MAX_REMEMBERED:
            self._left.popitem(last=False)
        return wait_seconds

    def check(self, caller: object) -> None:
        """Refuse a call of a caller that has none left."""
        seconds = self.seconds_to_wait(caller)
        if seconds:
            refusal = TooManyCalls(
                f"One token may make {self._limit} calls in a minute.",
                limit=self._limit,
                hint=f"Try again in {seconds} s, and make fewer calls; the server's operator sets the limit with "
                "--calls-per-minute.",
            )
            refusal.retry_after_seconds = seconds
            raise refusal


class CallThreads:
    """The threads that calls run in, shared so that no agent's calls keep those of others waiting."""

    # decision 74: a call can wait long for the store's lock. With one queue for all, the calls of one agent would take
    # every thread, and even reads would wait behind them. decision 92: so each kind of call has threads of its own.

    def __init__(self, limits: ServerLimits) -> None:
        sizes: dict[CallKind, int] = {
            "read": limits.threads,
            "note": limits.write_threads,
            "write": limits.write_threads,
        }
        self._agents = {kind: _ThreadShares(limits, size) for kind, size in sizes.items()}
        self._people = {kind: anyio.CapacityLimiter(size) for kind, size in sizes.items()}
        self._rates = CallRates(limits.calls_per_minute) if limits.calls_per_minute else None

    async def run(self, caller: HttpCaller, work: Callable[[], T], kind: CallKind = "read") -> T:
        """Run a function that may block, in a thread of the caller's share; wait for its earlier ones if need be."""
        if self._rates is not None and not caller.is_person:
            self._rates.check(caller)
        if caller.is_person:
            return await to_thread.run_sync(work, limiter=self._people[kind])  # which no agent uses
        return await self._agents[kind].run(caller, work)


class _ThreadShares:
    """The threads for one kind of call of agents, and each agent's share of them."""

    def __init__(self, limits: ServerLimits, threads: int) -> None:
        self._limits = limits
        self._agents = anyio.CapacityLimiter(threads)
        self._shares: dict[HttpCaller, anyio.CapacityLimiter] = {}
        self._calls = CallerCounts()

    async def run(self, caller: HttpCaller, work: Callable[[], T]) -> T:
        """Run a function in a thread of the caller's share."""
        if self._calls.of(caller) >= self._limits.caller_calls:
            raise TooManyCalls(
                limit=self._limits.caller_calls, hint="Wait for the answers of earlier calls before you send more."
            )
        share = self._shares.get(caller)
        if share is None:
            share = self._shares[caller] = anyio.CapacityLimiter(self._limits.caller_threads)
        with self._calls.holding(caller):
            borrower = object()
            try:
                share.acquire_on_behalf_of_nowait(borrower)
            except anyio.WouldBlock:
                await share.acquire_on_behalf_of(borrower)
            try:
                return await to_thread.run_sync(work, limiter=self._agents)
            finally:
                share.release_on_behalf_of(borrower)
                if not share.borrowed_tokens and self._calls.of(caller) == 1:
                    self._shares.pop(caller, None)
