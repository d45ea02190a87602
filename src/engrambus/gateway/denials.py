"""Denials: every refusal by a rule about who may do what, or how much, leaves a fact (decision 52).

A fact has names and numbers, never a text of the caller. At most `MAX_FACTS` are written for each agent and minute;
what comes after them is added up in one summary. Callers that cannot be identified are only counted, so that they
cannot make the journal grow.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from engrambus.core import SECOND_US
from engrambus.errors import BudgetExceeded, EngramBusError, SecretFound
from engrambus.gateway.ports import Store
from engrambus.policy import CallDenied, Caller

MAX_FACTS = 60
"""Facts about one agent in a minute; further denials of that minute are added up."""
WINDOW_US = 60 * SECOND_US
MAX_AGENTS = 1024
"""Agents whose windows are remembered."""

_COUNTER = re.compile(r"(?:turn|run|team)\.[a-z_]{1,32}")
_TOP_FIELD = re.compile(r"[A-Za-z_-]{1,40}")

Mode = Literal["enforce", "warn"]
SummaryKey = tuple[str, str, str, str, Mode]
"""Run, agent, operation, code and mode."""


class _Window(msgspec.Struct):
    """The denials of one agent in one minute."""

    began_us: int
    facts: int = 0


class DenialRecorder:
    """Writes the facts about denied calls of one process."""

    def __init__(self, store: Store, wait_seconds: float = 60.0) -> None:
        self._store = store
        self._wait_seconds = wait_seconds
        self._lock = threading.Lock()
        self._windows: dict[str, _Window] = {}
        self._summary: Counter[SummaryKey] = Counter()
        self._timer: threading.Timer | None = None
        self.unidentified: Counter[str] = Counter()
        """Denials of callers that could not be identified, by error code."""

    def record(
        self, caller: Caller, operation: str, refusals: Sequence[EngramBusError], mode: Mode = "enforce"
    ) -> None:
        """Write facts about refusals, or about warnings; never raise, because the caller is to get its own answer."""
        with self._store.read() as view:
            now_us = view.as_of
        facts: list[CallDenied] = []
        with self._lock:
            window = self._windows.get(caller.full_name)
            if window is None or not 0 <= now_us - window.began_us < WINDOW_US:  # the time may have been corrected
                window = self._new_window(caller.full_name, now_us)
                facts += self._take_summary()
            for refusal in refusals:
                if window.facts < MAX_FACTS:
                    window.facts += 1
                    facts.append(_fact(caller, operation, refusal, mode))
                else:
                    self._summary[caller.run.run_id, caller.name, operation, refusal.code, mode] += 1
                    self._start_timer()
        if facts:
            self._commit(facts)

    def close(self) -> None:
        """Write the summary of what was not written yet."""
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        self._write_summary()

    def _new_window(self, agent: str, now_us: int) -> _Window:
        if len(self._windows) >= MAX_AGENTS:
            self._windows = {
                name: window for name, window in self._windows.items() if now_us - window.began_us < WINDOW_US
            }
        window = self._windows[agent] = _Window(began_us=now_us)
        return window

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(self._wait_seconds, self._write_summary)
            self._timer.daemon = True
            self._timer.start()

    def _write_summary(self) -> None:
        with self._lock:
            self._timer = None
            facts = self._take_summary()
        self._commit(facts)

    def _take_summary(self) -> list[CallDenied]:
        summary, self._summary = self._summary, Counter()
        return [
            CallDenied(run=run, agent=agent, operation=operation, code=code, mode=mode, count=count)
            for (run, agent, operation, code, mode), count in sorted(summary.items())
        ]

    def _commit(self, facts: Sequence[CallDenied]) -> None:
        if not facts:
            return
        try:
            self._store.commit(lambda view: (facts, None))
        except EngramBusError:
            return  # a full disk or a read-only store: the refusal itself still reaches its caller


def _fact(caller: Caller, operation: str, refusal: EngramBusError, mode: Mode) -> CallDenied:
    return CallDenied(
        run=caller.run.run_id,
        agent=caller.name,
        operation=operation,
        code=refusal.code,
        field=_field(refusal),
        limit=_number(refusal.limit),
        used=_number(refusal.used),
        tokens=_tokens(refusal),
        mode=mode,
    )


def _field(refusal: EngramBusError) -> str | None:
    """Return the field's name without the keys and positions that a caller chose."""
    field = refusal.field or ""
    match = None if isinstance(refusal, SecretFound) else _COUNTER.fullmatch(field)
    match = match or _TOP_FIELD.match(field)
    return match[0] if match else None


def _number(value: object) -> int | float | None:
    # A limit can also be a pointer, a name or a time: those are texts of callers.
    return value if isinstance(value, int | float) else None


def _tokens(refusal: EngramBusError) -> int:
    if not isinstance(refusal, BudgetExceeded):
        return 0
    amounts = [excess.get("used") for excess in refusal.exceeded if excess.get("what") == "inline_tokens"]
    return next((amount for amount in amounts if isinstance(amount, int)), 0)
