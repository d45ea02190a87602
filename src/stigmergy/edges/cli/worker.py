"""`stig worker` and `stig resume`: work on tuples until there is no more, or until told to stop."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

from stigmergy.core import MICROS, print_dollars
from stigmergy.edges.cli.command import Command
from stigmergy.edges.cli.screen import json_line, safe
from stigmergy.edges.cli.session import Session
from stigmergy.edges.cli.table import Entry

if TYPE_CHECKING:
    from stigmergy.operations import Gateway
    from stigmergy.space.tuples import Kept
    from stigmergy.space.work import LaneWorkerPool, Progress, Workshop

_MODULES = ["--import", "modules"]


def worker(entry: Entry) -> Command:
    """`stig worker`"""
    return Command(
        "worker",
        entry,
        [
            click.Option(["--lane", "lane"], required=True, help="The lane to work on."),
            click.Option(["--concurrency", "concurrency"], type=click.IntRange(1), help="How many steps at once."),
            _import_option(),
            click.Option(["--until-empty", "until_empty"], is_flag=True, help="Stop when there is nothing left to do."),
        ],
        _worker,
    )


def resume(entry: Entry) -> Command:
    """`stig resume`"""
    return Command(
        "resume",
        entry,
        [
            click.Option(["--run-id", "run_id"], metavar="RUN", help="The run; the newest with work unless said."),
            click.Option(["--concurrency", "concurrency"], type=click.IntRange(1), help="How many steps at once."),
            _import_option(),
        ],
        _resume,
    )


def _import_option() -> click.Option:
    return click.Option(_MODULES, multiple=True, metavar="MODULE", help="Code that carries yools out (repeatable)")


def _worker(session: Session, given: dict[str, Any]) -> None:
    once = given["until_empty"]
    with _opened(session, given["modules"]) as (gateway, shop), _cared_for(gateway, shop, once=once):
        _work(session, shop, {"lane": given["lane"]}, given["concurrency"], until_empty=once)


@contextmanager
def _cared_for(gateway: Gateway, shop: Workshop, *, once: bool) -> Iterator[None]:
    """Have room made beside the work, when it is short and every night; not beside work that ends by itself."""
    from stigmergy.space.work import Caretaker

    if once:
        yield
        return
    with gateway.store.read() as view:
        hour, run = view.policy().guardrails.gc.nightly_hour, view.current_run()
    caretaker = Caretaker(shop, run=run.run_id if run else "", hour=hour)
    caretaker.start()
    try:
        yield
    finally:
        caretaker.stop()


def _resume(session: Session, given: dict[str, Any]) -> None:
    from stigmergy.errors import RunNotFound
    from stigmergy.space.work import is_dead

    with _opened(session, given["modules"]) as (_, shop):
        space = shop.space
        with space.store.read() as view:
            runs = [each.run for each in view.runs()]
        run = given["run_id"] or (runs[-1] if runs else None)
        if run is None or run not in runs:
            said = "No run has any work" if run is None else f"The run '{run[:40]}' has no work"
            raise RunNotFound(f"{said} to go on with.", field="run-id", used=run and run[:40])
        left = _unfinished(shop, run)
        space.let_go(
            [(one.id, one.fence) for one in left if one.fence and one.worker and is_dead(one.worker)],
            reason="its worker is gone",
        )
        for one in left:
            _tell_resumed(session, shop, one)
        # Alarms wait for somebody to take them; they are not carried out.
        pattern = {"run": run, "lane": {"ne": space.settings.alarm_lane}}
        _work(session, shop, pattern, given["concurrency"], until_empty=True)


def _unfinished(shop: Workshop, run: str) -> list[Kept]:
    found: list[Kept] = []
    for state in ("waiting", "claimed"):
        after = 0
        pattern = {"run": run, "state": state, "lane": {"ne": shop.space.settings.alarm_lane}}
        while page := shop.space.rd_all(pattern, limit=500, after=after):
            found += page
            after = page[-1].ordinal
    return sorted(found, key=lambda one: one.ordinal)


def _tell_resumed(session: Session, shop: Workshop, one: Kept) -> None:
    steps = one.tuple.payload
    with shop.space.store.read() as view:
        done = view.finished(one.id)
    missing = [at for at in range(len(steps)) if at not in done]
    if not missing or session.json:
        return
    short = one.id[:19]
    if done:
        names = ", ".join(safe(steps[at].yool) for at in sorted(done))
        session.say(f"[resume] {short}… has receipts for [{names}]")
    first = missing[0]
    session.say(f"[resume] {short}… goes on from step {first + 1} ({safe(steps[first].yool)})")


@contextmanager
def _opened(session: Session, modules: tuple[str, ...]) -> Iterator[tuple[Gateway, Workshop]]:
    from stigmergy.app import open_project, open_workshop
    from stigmergy.edges.cli.progress import Bytes

    if session.remote:
        raise click.UsageError("Workers run where the project's files are; STIGMERGY_URL is set.")
    session.credential()
    with closing(open_project(session.folder, session.settings, progress=Bytes("Building the index"))) as gateway:
        root = str(gateway.workplace.root)
        if root not in sys.path:
            sys.path.insert(0, root)
        try:
            shop = open_workshop(gateway, session.settings, modules=modules)
        except ImportError as problem:
            raise click.UsageError(f"A module cannot be imported: {problem}") from None
        with closing(shop.runner):
            yield gateway, shop


def _work(
    session: Session, shop: Workshop, pattern: dict[str, Any], concurrency: int | None, *, until_empty: bool
) -> None:
    from stigmergy.space.tuples import read_pattern
    from stigmergy.space.work import LaneWorkerPool

    if not until_empty:
        session.say(f"Quotas are held by {shop.runner.note()}.")

    wanted = read_pattern(pattern)

    def waiting() -> int:
        with shop.space.store.read() as view:
            return sum(each.waiting for each in view.lanes() if wanted.without("run").matches({"lane": each.lane}))

    shown = Shown(session, waiting)
    pool = LaneWorkerPool(shop, wanted, concurrency=concurrency, told=shown.tell)
    if concurrency is not None and pool.concurrency < concurrency:
        session.say(f"{pool.concurrency} at once is the most (YOOL_TUPLE_MAX_LANE_CONCURRENCY).")
    with _drained(pool, session), closing(shown):
        pool.run(until_empty=until_empty)
    shown.total()


@contextmanager
def _drained(pool: LaneWorkerPool, session: Session) -> Iterator[None]:
    """The first signal lets what is under way end; the second gives it back at once."""
    asked = threading.Event()

    def stop(number: int, frame: Any) -> None:
        again = asked.is_set()
        asked.set()
        # Not from the handler itself: the thread it interrupts may hold the very locks this needs.
        threading.Thread(target=pool.stop, kwargs={"at_once": again}, daemon=True).start()
        session.say(
            "Giving back what is under way." if again else "Finishing what is under way; once more to give it back."
        )

    before: dict[int, Any] = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Shown:
    """A line for every step, how it stands below them on a terminal, and the total at the end."""

    def __init__(self, session: Session, waiting: Callable[[], int], now: Callable[[], float] = time.monotonic) -> None:
        from stigmergy.edges.cli.progress import Standing

        self._session = session
        self._waiting = waiting
        self._standing = Standing()
        self._done = self._dead = 0
        self._now = now
        self._began = now()
        self._micros = 0
        self._hits = 0
        self._lock = threading.Lock()
        self._stand()

    def tell(self, progress: Progress) -> None:
        """Tell people, or, as JSON, a program."""
        with self._lock:
            self._micros += progress.micros
            self._hits += progress.what == "hit"
            if self._session.json:
                import msgspec

                click.echo(json_line(msgspec.json.encode(progress)))
            elif (line := self._line(progress)) is not None:
                click.echo(line)
            self._done += progress.what == "done"
            self._dead += progress.what == "dead"
            self._stand()

    def _stand(self) -> None:
        if self._standing.shows:
            figures = f"{self._done} done, {self._hits} steps from the cache, {self._dead} given up"
            self._standing.say(f"{figures}, {self._waiting()} waiting")

    def close(self) -> None:
        """Say no more how it stands."""
        self._standing.close()

    def total(self) -> None:
        """Tell what it all cost."""
        if not self._session.json:
            click.echo(f"TOTAL: {print_dollars(self._micros / MICROS)}")

    def _line(self, progress: Progress) -> str | None:
        at = f"[t={self._now() - self._began:.0f}s]"
        name = safe(progress.yool).ljust(28)
        cost = print_dollars(progress.micros / MICROS)
        short = progress.tuple_id[:19]
        match progress.what:
            case "hit":
                return f"{at} {name} HIT skip cost=$0"
            case "miss":
                return f"{at} {name} MISS exec cost={cost}"
            case "failed":
                return f"{at} {name} FAIL exec cost={cost} ({safe(progress.error or '')})"
            case "refused":
                return f"{at} {name} NOT DONE {safe(progress.error or '')}"
            case "damaged":
                return f"{at} {name} MISS damaged body {safe(progress.error or '')}"
            case "again":
                return f"{at} {short}… will be tried again ({safe(progress.error or '')})"
            case "dead":
                return f"{at} {short}… is a dead letter ({safe(progress.error or '')})"
            case "pressure":
                return f"{at} no work is begun: {safe(progress.error or '')}"
            case "lost":
                return f"{at} {short}… is not held any more; nothing was written"
            case _:
                return None
