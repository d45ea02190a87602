"""What a worker prints: a line for every step, the end of a failed step's output, and what it leaves for others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from engrambus.core import MICROS_PER_DOLLAR, print_dollars, short_id
from engrambus.edges.cli.screen import json_line, safe, safe_line
from engrambus.errors import EngramBusError

if TYPE_CHECKING:
    from engrambus.edges.cli.session import Session
    from engrambus.evidence.receipts import BodyStore
    from engrambus.space.tuples import TuplePattern
    from engrambus.space.work import Progress, WorkerDependencies

OUTPUT_LINES = 10
"""Lines that are printed of each stream of a failed step."""
LINE_CHARACTERS = 200


def left_lines(dependencies: WorkerDependencies, pattern: TuplePattern, *, json: bool) -> Iterator[str]:
    """Yield what waits in the lanes of a worker: what it has no code for, and what nobody may claim now."""
    from engrambus.space.tuples import folded_groups, left_work, stalled_work

    can_run, catalog = dependencies.runnable(), dependencies.catalog()
    with dependencies.space.store.read() as view:
        remaining = left_work([*view.waiting_groups(), *folded_groups(view)], pattern, can_run, catalog)
        stalled = stalled_work(view, pattern)
    if json:
        import msgspec

        for what, listed in (("left", remaining), ("stalled", stalled)):
            for work in listed:
                yield json_line(msgspec.json.encode({"what": what, **msgspec.to_builtins(work)}))
        return
    yield from (safe(work.summary) for work in remaining)
    yield from (safe(work.summary) for work in stalled)


def _last_lines(bodies: BodyStore, sha: str | None) -> list[str]:
    """Return the last lines of a stored text, made safe for a terminal."""
    if sha is None:
        return []
    try:
        _, end, _ = bodies.get_ends(sha, OUTPUT_LINES * LINE_CHARACTERS * 4)
    except (EngramBusError, OSError):  # deleted or damaged since: the command below says so
        return []
    lines = end.decode("utf-8", "replace").splitlines()[-OUTPUT_LINES:]
    return [safe_line(line[:LINE_CHARACTERS]) for line in lines]


class ProgressPrinter:
    """Prints a line for every step, a status line on a terminal, and the total cost at the end."""

    def __init__(
        self,
        session: Session,
        count_waiting: Callable[[], int],
        bodies: BodyStore,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        from engrambus.edges.cli.progress import StatusLine

        self._session = session
        self._count_waiting = count_waiting
        self._bodies = bodies
        self._status = StatusLine()
        self._now = now
        self._began = now()
        self.dead = 0
        """Tuples that became dead letters."""
        self._done = self._hits = 0
        self._first_tuple: str | None = None
        self._has_several = False
        self._cost_usd_micros = 0
        self._lock = threading.Lock()
        self._update_status()

    def print(self, progress: Progress) -> None:
        """Print what a worker did: a line for people, or JSON for a program."""
        with self._lock:
            self._cost_usd_micros += progress.usd_micros
            self._hits += progress.kind == "hit"
            self._first_tuple = self._first_tuple or progress.tuple_id or None
            self._has_several |= progress.tuple_id not in ("", self._first_tuple)
            if self._session.json:
                import msgspec

                self._status.print(json_line(msgspec.json.encode(progress)))
            elif (line := self._line(progress)) is not None:
                self._status.print(line)
                for detail in self._failure_lines(progress):
                    self._status.print(detail)
            self._done += progress.kind == "done"
            self.dead += progress.kind == "dead"
            self._update_status()

    def print_total(self) -> None:
        """Print the cost of everything."""
        if not self._session.json:
            click.echo(f"TOTAL: {print_dollars(self._cost_usd_micros / MICROS_PER_DOLLAR)}")

    def close(self) -> None:
        self._status.close()

    def _update_status(self) -> None:
        if self._status.is_visible:
            counts = f"{self._done} done, {self._hits} steps from the cache, {self.dead} given up"
            self._status.update(f"{counts}, {self._count_waiting()} waiting")

    def _failure_lines(self, progress: Progress) -> Iterator[str]:
        """Yield the end of what a failed step printed, and the command that tells more."""
        if progress.kind != "failed":
            return
        for sha in (progress.stdout_sha, progress.stderr_sha):
            yield from (f"    | {line}" for line in _last_lines(self._bodies, sha))
        yield f"    more: engrambus why {short_id(progress.tuple_id)}"

    def _line(self, progress: Progress) -> str | None:
        # The time at which a step began, as in section 5.4 of the specification: its line is printed when it has ended.
        began_s = self._now() - self._began - progress.wall_ms / 1000
        elapsed = f"[t={max(0.0, began_s):.0f}s]"
        name = safe(progress.called or progress.yool).ljust(28)
        cost = print_dollars(progress.usd_micros / MICROS_PER_DOLLAR)
        tuple_id = short_id(progress.tuple_id)
        # Lines before the second tuple's first one are all of the first tuple.
        task = f" task={tuple_id}" if self._has_several else ""
        error = safe(progress.error or "")
        match progress.kind:
            case "hit":
                return f"{elapsed} {name} HIT skip cost=$0{task}"
            case "miss":
                changed = f" (not cached: {safe(', '.join(progress.changed_files))} changed while it ran)"
                return f"{elapsed} {name} MISS exec cost={cost}{task}" + changed * bool(progress.changed_files)
            case "failed":
                return f"{elapsed} {name} FAIL exec cost={cost}{task} ({error})"
            case "refused":
                return f"{elapsed} {name} NOT DONE {error}"
            case "damaged":
                return f"{elapsed} {name} MISS damaged body {error}"
            case "again":
                return f"{elapsed} {tuple_id} will be tried again ({error})"
            case "dead":
                return f"{elapsed} {tuple_id} is a dead letter ({error})"
            case "pressure":
                return f"{elapsed} no work is begun: {error}"
            case "handed on":
                return f"{elapsed} {tuple_id} waits for a worker with code for {safe(progress.yool)}"
            case "lost":
                return f"{elapsed} {tuple_id} is not held any more; nothing was written"
            case _:
                return None
