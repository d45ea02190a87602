"""`engrambus worker` and `engrambus resume`: work on tuples until there is no more, or until told to stop."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from engrambus.core import MICROS, print_dollars
from engrambus.edges.cli.command import Values, local_command
from engrambus.edges.cli.imports import import_modules
from engrambus.edges.cli.screen import json_line, safe
from engrambus.edges.cli.session import Session

if TYPE_CHECKING:
    from engrambus.gateway import Gateway
    from engrambus.space.tuples import Pattern, TupleRecord
    from engrambus.space.work import LaneWorkerPool, Progress, WorkerDependencies

_NAMED = 5
"""How many runs are named at once."""


_CONCURRENCY = click.Option(["--concurrency", "concurrency"], type=click.IntRange(1), help="How many steps at once.")
_IMPORT = click.Option(
    ["--import", "modules"], multiple=True, metavar="MODULE", help="Code that carries yools out (repeatable)"
)


@local_command(
    "worker",
    click.Option(["--lane", "lane"], required=True, help="The lane to work on."),
    _CONCURRENCY,
    _IMPORT,
    click.Option(["--until-empty", "until_empty"], is_flag=True, help="Stop when there is nothing left to do."),
    section="work",
    example="engrambus worker --lane build --concurrency 4 --import tools.yools",
    rank=20,
)
def worker(session: Session, values: Values) -> None:
    """Run the tasks of a lane (a queue) until stopped."""
    from engrambus.app import open_gc_worker
    from engrambus.space.tuples import check_lane, read_pattern

    check_lane(values["lane"])
    once = values["until_empty"]
    with (
        _opened(session, values.get("modules", ())) as (gateway, shop),
        nullcontext() if once else open_gc_worker(gateway, shop),  # nobody makes room beside work that ends by itself
    ):
        wanted = {"lane": values["lane"]}
        run = _chosen(session, gateway)
        if run is not None:
            wanted["run"] = run
        _work(session, shop, read_pattern(wanted), values.get("concurrency"), until_empty=once)


@local_command(
    "resume", _CONCURRENCY, _IMPORT, section="work", example="engrambus resume --import tools.yools", rank=22
)
def resume(session: Session, values: Values) -> None:
    """Continue the newest run that has unfinished tasks, each from its first missing step.

    Choose another run with --run RUN.
    """
    from engrambus.space.tuples import read_pattern
    from engrambus.space.work import is_dead

    with _opened(session, values.get("modules", ())) as (gateway, shop):
        space = shop.space
        pattern = {"lane": {"ne": space.settings.alarm_lane}, "payload.0": {"exists": True}}
        chosen = _chosen(session, gateway)
        unfinished = _unfinished(shop, pattern)
        run = chosen or next(iter(unfinished), None)
        left = unfinished.pop(run, []) if run is not None else []
        if not session.json:
            for line in _which(run, chosen=chosen is not None, left=bool(left), others=list(unfinished)):
                session.say(line)
        if not left:
            return
        gone = {one.id: one.fence for one in left if one.fence and one.worker and is_dead(one.worker)}
        space.release_dead(gone.items(), reason="its worker is gone")
        alone = {one.id for one in left if not _resumed(session, shop, one, held=one.id not in gone)}
        wanted = read_pattern({**pattern, "run": run}).excluding(alone)
        _work(session, shop, wanted, values.get("concurrency"), until_empty=True)


def _chosen(session: Session, gateway: Gateway) -> str | None:
    """The run that was chosen, or that a token names."""
    from engrambus.policy import ADMIN

    credential = session.credential()
    caller = gateway.identify(credential)
    return caller.run.run_id if credential.run is not None or caller.role != ADMIN else None


def _unfinished(shop: WorkerDependencies, pattern: dict[str, Any]) -> dict[str, list[TupleRecord]]:
    """What has steps and no end, by its run, the newest first.

    What only says something waits for a reader, and alarms for somebody to take them.
    """
    found: list[TupleRecord] = []
    for state in ("waiting", "claimed"):
        after = 0
        while page := shop.space.rd_all({**pattern, "state": state}, limit=500, after=after):
            found += page
            after = page[-1].ordinal
    with shop.space.store.read() as view:
        runs: dict[str, list[TupleRecord]] = {each.run: [] for each in reversed(view.run_totals())}
    for one in sorted(found, key=lambda one: one.ordinal):
        runs[one.run].append(one)
    return {run: ones for run, ones in runs.items() if ones}


def _which(run: str | None, *, chosen: bool, left: bool, others: list[str]) -> Iterator[str]:
    """Say which run goes on where that is not plain, and in which others there is something to go on with."""
    if not left:
        yield "[resume] nothing is left to do" + (f" in run {run}" if chosen else "")
    elif others and not chosen:
        yield f"[resume] run {run} goes on"
    if others and not (left and chosen):
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        yield f"[resume] work is unfinished in {', '.join(others[:_NAMED])}{more} (--run RUN)"


def _resumed(session: Session, shop: WorkerDependencies, one: TupleRecord, *, held: bool) -> bool:
    """Say how a tuple goes on; whether it does here. Without the code for all that is missing, it is left as it is."""
    from engrambus.space.tuples import dead_letter_reason

    with shop.space.store.read() as view:
        done, now = view.finished_steps(one.id), view.as_of
    names = [step.yool for step in one.tuple.payload]
    missing = [at for at in range(len(names)) if at not in done]
    short = f"[resume] {one.id[:19]}…"
    unknown = sorted({safe(names[at]) for at in missing if not _carried_out(shop, names[at])})
    if one.state == "claimed" and held:
        said = f"{short} is being worked on by {safe(one.worker or '')}"
    elif dead_letter_reason(one, now, shop.space.settings) is not None:
        return True  # whoever asks for it next, below, is told its end
    elif unknown:
        said = f"{short} is left alone: no code here carries out {', '.join(unknown)} (--import MODULE)"
    else:
        if done and not session.json:
            session.say(f"{short} has receipts for [{', '.join(safe(names[at]) for at in sorted(done))}]")
        said = f"{short} goes on from step {missing[0] + 1} ({safe(names[missing[0]])})" if missing else ""
    if said and not session.json:
        session.say(said)
    return not unknown


def _carried_out(shop: WorkerDependencies, name: str) -> bool:
    """Whether code here carries a yool out."""
    from engrambus.errors import YoolNotFound

    try:
        shop.resolve(name)
    except YoolNotFound:
        return False
    return True


@contextmanager
def _opened(session: Session, modules: tuple[str, ...]) -> Iterator[tuple[Gateway, WorkerDependencies]]:
    from engrambus.app import open_project, open_worker_dependencies
    from engrambus.edges.cli.progress import Bytes

    if session.remote:
        raise click.UsageError("Workers run where the project's files are; ENGRAMBUS_URL is set.")
    session.credential()
    with closing(open_project(session.folder, session.settings, progress=Bytes("Building the index"))) as gateway:
        import_modules(modules, gateway.project_files.root)
        shop = open_worker_dependencies(gateway, session.settings, modules=modules)
        with closing(shop.runner):
            yield gateway, shop


def _work(
    session: Session, shop: WorkerDependencies, wanted: Pattern, concurrency: int | None, *, until_empty: bool
) -> None:
    from engrambus.space.work import LaneWorkerPool

    if not until_empty:
        session.say(f"Quotas are held by {shop.runner.describe_limits()}.")

    def waiting() -> int:
        with shop.space.store.read() as view:
            return sum(
                each.waiting for each in view.lane_counts() if wanted.for_field("lane").matches({"lane": each.lane})
            )

    shown = Shown(session, waiting)
    pool = LaneWorkerPool(shop, wanted, concurrency=concurrency, on_progress=shown.tell)
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
        from engrambus.edges.cli.progress import Standing

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
            self._micros += progress.usd_micros
            self._hits += progress.kind == "hit"
            if self._session.json:
                import msgspec

                self._standing.print(json_line(msgspec.json.encode(progress)))
            elif (line := self._line(progress)) is not None:
                self._standing.print(line)
            self._done += progress.kind == "done"
            self._dead += progress.kind == "dead"
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
        cost = print_dollars(progress.usd_micros / MICROS)
        short = progress.tuple_id[:19]
        match progress.kind:
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
