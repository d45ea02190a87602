"""A year of daily work on a turned clock, with a collection every night: the catalog stays below its limit. # YT-13

The year begins 366 days ago and ends now, so that at its end commands with the machine's own clock go on with it.
The team works every third day. `ENGRAMBUS_YEAR=10` has it work every day, on ten tasks of each kind, and prints what
the year cost; `make year` does so.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from engrambus import Bus
from engrambus.app import open_project, open_worker_dependencies
from engrambus.core import SECOND_US, SystemClock, digest
from engrambus.core.process_names import process_name
from engrambus.errors import BodyNotFound
from engrambus.evidence.receipts import DAY_US, Receipt, bodies_of
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.policy.guardrails import MB
from engrambus.settings import Settings
from engrambus.space.catalog import CAPABILITIES, Catalog, Registry, write_catalog
from engrambus.space.tuples import WorkView, read_pattern
from engrambus.space.work import LaneWorkerPool, Progress, WorkerDependencies
from engrambus.testing import ManualClock
from tests.projects import Repository, make_gateway
from tests.space.terminal import Terminal
from tests.space.worker_harness import registry_of_module, step

MODULE = "tests.guardrails.year_yools"
YOOLS = registry_of_module(MODULE)
DAYS = 366
SCALE = int(os.environ.get("ENGRAMBUS_YEAR", "1"))
"""Tasks of each kind and day."""
WORKS_EVERY = 1 if "ENGRAMBUS_YEAR" in os.environ else 3
"""Days from one on which the team works to the next."""
ARTIFACT_BYTES = 2_000_000
HOT_DAYS, WARM_DAYS = 30, 365
MAX_MB = 25 * SCALE * 3 // WORKS_EVERY
"""Less than the artifacts of the hot days take with everything else, so that the limit deletes some of them."""
A_DAY_MB = 4 * SCALE
"""What a day may add before the next collection: the limit holds at night."""
WAL_MB = 68
"""Room for the `-wal` files of both indexes, 32 MB each: SQLite uses one again before it makes it longer."""
HITS_DAYS = 10
"""Results of this many days must still be there, however small the limit."""
DEAD_WORKER = f"{process_name().partition('/')[0]}/{2**22 + 1}.1"
PERSON = {"user": "admin", "agent": None, "ci": False}


class YearClock(ManualClock):
    """A clock that a test turns, and that goes on a little with each look: a retry becomes due, as time passes."""

    def __init__(self, now_us: int) -> None:
        super().__init__(now_us)
        self._ticking = threading.Lock()

    def now(self) -> int:
        with self._ticking:
            self.advance(microseconds=50)
            return super().now()


class Month(NamedTuple):
    """What a month measured at its end."""

    day: int
    receipts: int
    total_bytes: int
    parts: dict[str, int]
    """Bytes by file or folder of the catalog."""
    collect_seconds: float
    open_seconds: float
    memory_bytes: int


class Year:
    """A project that is worked on every day."""

    def __init__(self, repository: Repository, settings: Settings) -> None:
        self.clock = YearClock(SystemClock().now() - DAYS * DAY_US)
        self.root = repository.path
        self.settings = settings
        self.day = 0
        self.reports: list[Any] = []
        self.months: list[Month] = []
        self.receipts: dict[str, int] = {}
        """Every receipt seen, with the day it was seen first."""
        self._aged: set[Path] = set()
        self._run = ""
        self.progress: list[Progress] = []
        gateway = make_gateway(self.root, settings, self.clock)
        write_catalog(self.catalog / CAPABILITIES, Catalog(yool.entry for yool in YOOLS))
        limits = {"hot_days": HOT_DAYS, "warm_days": WARM_DAYS, "max_total_mb": MAX_MB, "free_mb_floor": 0}
        Bus(gateway, LOCAL_ADMIN).apply_policy({"guardrails": {"gc": limits}})
        self._open(gateway)

    @property
    def catalog(self) -> Path:
        return self.root / ".catalog"

    def _open(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.bus = Bus(gateway, LOCAL_ADMIN)
        deps = open_worker_dependencies(gateway, self.settings, modules=[MODULE], clock=self.clock)
        self.deps: WorkerDependencies = msgspec.structs.replace(deps, registry=YOOLS)
        # So soon that a look at the clock or two makes it due: the clock stands still while a worker sleeps.
        settings = msgspec.structs.replace(self.space.settings, backoff_us=50)
        self.space.settings = settings

    def close(self) -> None:
        self.deps.runner.close()
        self.gateway.close()

    def reopen(self) -> float:
        """Start the machine again and open the project; return how long opening it took."""
        self.close()
        self.clock.restart()
        start = time.perf_counter()
        gateway = open_project(self.root, self.settings, clock=self.clock)
        with gateway.store.read(), gateway.tuple_space.space.store.read():
            seconds = time.perf_counter() - start
        self._open(gateway)
        return seconds

    @property
    def space(self) -> Any:
        return self.gateway.tuple_space.space

    def put(self, *steps: dict[str, Any], run: str = "", **fields: Any) -> str:
        """Put a task into the sprint's run; return its id."""
        draft = {"lane": "build", "payload": list(steps), **fields}
        return str(self.space.out(draft, authority=PERSON, run=run or self._run)[0].id)

    def work(self, lane: str = "build", registry: Registry = YOOLS) -> list[str]:
        """Work until nothing is left in a lane; return the kinds of progress."""
        progress: list[Progress] = []
        deps = msgspec.structs.replace(self.deps, registry=registry)
        pool = LaneWorkerPool(deps, read_pattern({"lane": lane}), concurrency=2, on_progress=progress.append)
        pool.run(until_empty=True)
        return [item.kind for item in progress]

    def sprint_day(self) -> None:
        """Do one day's work."""
        if self.day % 21 == 0:
            self._run = self.bus.open_run(f"sprint {self.day // 21}").run_id
        if self.day % 9 == 0:
            (self.root / "src/parser.py").write_text(f"as of day {self.day}\n" * 30)
        for number in range(SCALE):
            name = self.day * SCALE + number
            self.put(step("agent.build.release", day=name, size=ARTIFACT_BYTES), step("agent.check.style"))
            self.put(step("agent.sum.up", day=self.day // 9))
            if self.day % 6 == 0:
                self.put(step("agent.deploy.flaky", day=name))
            if self.day % 12 == 0:
                self.put(step("agent.fail.always", day=name))
                self.bus.cancel_tuple(self.put(step("agent.sum.up", day=name)))
            self.bus.put_engram(f"Matter {name} of the release was decided.", at=["src/wörter.py:1"])
        kinds = self.work()
        expected = {"done": SCALE * (2 + (self.day % 6 == 0)), "dead": SCALE * (self.day % 12 == 0)}
        assert {kind: kinds.count(kind) for kind in expected} == expected, kinds
        assert kinds.count("again") == SCALE * (self.day % 6 == 0)
        # What is the same as last time is answered from the cache; what was changed is not.
        assert kinds.count("hit") >= SCALE * 2 * (self.day % 9 != 0)

    def night(self) -> None:
        """Collect at three in the morning; the files are then as old as the year says."""
        self._age_bodies()
        self.clock.advance(seconds=86_400 - (self.clock.now() // SECOND_US) % 86_400 + 3 * 3600)
        before = _size(self.catalog)
        assert before <= (MAX_MB + A_DAY_MB + WAL_MB) * MB
        report = self.bus.collect_garbage()
        assert report.enough, report
        assert _size(self.catalog) <= MAX_MB * MB
        assert report.rewritten == 0
        self.reports.append(report)
        self.day += 1

    def _age_bodies(self) -> None:
        """Give what was stored today the time that the machine's clock would have shown."""
        seconds = self.clock.now() / SECOND_US
        for path in (self.catalog / "cas").glob("*/*"):
            if path not in self._aged or path.stat().st_mtime > seconds:
                os.utime(path, (seconds, seconds))
                self._aged.add(path)

    def note_receipts(self) -> None:
        """Note the receipts of today; none of those before is gone."""
        ids = {receipt.id for receipt in self.all_receipts()}
        assert self.receipts.keys() <= ids
        self.receipts |= dict.fromkeys(ids - self.receipts.keys(), self.day)

    def all_receipts(self) -> Iterator[Receipt]:
        """Yield every receipt of the project."""
        after = 0
        while True:
            with self.space.store.read() as view:
                page = view.list_receipts(None, limit=500, after=after)
            yield from (receipt for _, receipt in page)
            if not page:
                return
            after = page[-1][0]

    def measure(self) -> None:
        """Note what the project costs now."""
        start = time.perf_counter()
        self.bus.collect_garbage(dry_run=True)
        collected = time.perf_counter() - start
        opened = self.reopen()
        parts = {path.name: _size(path) for path in sorted(self.catalog.iterdir())}
        derived = next(self.catalog.glob("derived-*"))
        parts |= {path.name: _size(path) for path in derived.iterdir()}
        memory = int(Path("/proc/self/statm").read_text().split()[1]) * 4096 if sys.platform == "linux" else 0
        self.months.append(Month(self.day, len(self.receipts), _size(self.catalog), parts, collected, opened, memory))

    def answers(self) -> dict[str, Any]:
        """Return what the project answers to questions about the whole year."""
        bus = self.bus
        with self.space.store.read() as view:
            return {
                "tuples": [(record.id, record.state, record.attempts) for record in _all_tuples(view)],
                "receipts": [receipt.id for _, receipt in view.list_receipts(None, limit=1_000_000)],
                "deleted": {
                    sha: view.purged_at_us(sha)
                    for _, receipt in view.list_receipts(None, limit=1_000_000)
                    for sha in bodies_of(receipt)
                },
                "totals": view.run_totals(),
                "lanes": view.lane_counts(),
                "ended": [record.id for record in view.list_ended(None, limit=100_000)],
                "dead": [record.id for record in view.list_dead(None, limit=100_000)],
                "costs": [view.cost_history(yool.entry.full_name) for yool in YOOLS],
                "runs": [run.run_id for run in bus.list_runs().runs],
                "engrams": [
                    [row.id for row in bus.query_engrams(f"matter {day} of the release", k=5).engrams]
                    for day in (3, 150, 365)
                ],
            }


def _all_tuples(view: WorkView) -> list[Any]:
    return view.matching(read_pattern({}), limit=1_000_000)


def _size(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(file.lstat().st_size for file in path.rglob("*") if not file.is_dir())


def leave_unfinished(year: Year, lane: str) -> tuple[str, str, str]:
    """Begin a run of which one task has its first step, another a dead worker; return run and tasks."""
    run = year.bus.open_run(f"unfinished in {lane}").run_id
    steps = step("agent.build.release", day=10_000 + year.day, size=1000), step("agent.sum.up", day=10_000 + year.day)
    half = year.put(*steps, run=run, lane=lane)
    only_builds = Registry(yool for yool in YOOLS if yool.entry.name == "agent.build.release")
    assert year.work(lane, only_builds)[-2:] == ["miss", "handed on"]
    lost = year.put(step("agent.sum.up", day=20_000 + year.day), run=run, lane=lane)
    assert year.space.claim({"id": lost}, worker=DEAD_WORKER)
    year._run = year._run or run
    return run, half, lost


# YT-13, YT-09, YT-10
@pytest.mark.timeout(900 if SCALE == 1 else 4 * 3600)  # alone on a machine it takes a minute
def test_a_year_of_work_stays_below_the_limit_and_still_resumes_and_replays(
    repository: Repository, settings: Settings, tmp_path: Path
) -> None:
    year = Year(repository, settings)
    old_run: tuple[str, str, str] | None = None
    pinned = ""
    while year.day < DAYS:
        if year.day % WORKS_EVERY == 0:
            year.sprint_day()
        if year.day == 30:
            old_run = leave_unfinished(year, "shelved")
            year._run = year.bus.open_run("after").run_id
        if year.day == 39:
            pinned = digest_of_release(39 * SCALE)
            year.bus.put_engram(
                "The release of that day is what customers have.", ttl="P350D", pointers=[f"artifact:{pinned}"]
            )
        year.night()
        if year.day % 30 == 0:
            year.note_receipts()
            year.measure()
    new_run = leave_unfinished(year, "today")
    year.note_receipts()
    assert old_run is not None

    # Nothing grew but what is kept for ever; everything is as the journals say.
    assert year.bus.verify().findings == []
    segments = sorted(year.catalog.glob("tuples.0*.jsonl*"))
    assert all(path.suffix == ".gz" for path in segments)
    assert len(segments) >= 1
    deleted = {row.why: sum(found.bodies for report in year.reports for found in report.freed if found.why == row.why)
               for row in year.reports[0].freed}  # fmt: skip
    assert deleted["artifact"] > 0
    assert deleted["room"] > 0

    check_cache(year, pinned)
    answers = year.answers()
    seconds = replay(year)
    assert year.answers() == answers
    assert year.bus.verify().findings == []
    print_year(year, deleted, seconds)
    year.close()

    terminal = Terminal(repository, tmp_path / "home")
    for run, half, lost in (old_run, new_run):
        process = terminal.start("resume", "--import", MODULE, "--run", run)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, (out, err)
        assert "has receipts for [agent.build.release]" in err
        for tuple_id in (half, lost):
            assert terminal.json("observe", tuple_id)["state"] == "done"
        assert "agent.build.release" not in out, "its first step did not run again"
    assert terminal.run("verify").startswith("sound")


def digest_of_release(day: int) -> str:
    import hashlib

    return digest(hashlib.shake_256(str(day).encode()).digest(ARTIFACT_BYTES))


def check_cache(year: Year, pinned: str) -> None:
    """Check what of the year is answered from the cache and what runs again, and what is said of what is gone."""
    assert year.deps.bodies.exists(pinned)
    recent = [
        name
        for day in range(0, DAYS, WORKS_EVERY)
        if day >= DAYS - HITS_DAYS
        for name in range(day * SCALE, (day + 1) * SCALE)
    ]
    for name in recent:
        year.put(step("agent.build.release", day=name, size=ARTIFACT_BYTES))
    assert set(year.work()) == {"hit", "done"}
    gone = digest_of_release(42 * SCALE)
    with pytest.raises(BodyNotFound, match="deleted to free disk space, at 20"):
        year.bus.deref_pointer(f"artifact:{gone}")
    (receipt,) = (item for item in year.all_receipts() if any(part.sha == gone for part in item.artifacts))
    assert gone in year.bus.receipt_get(receipt.id).gone
    assert year.bus.receipt_verify(receipt.id).sound
    for name in (42 * SCALE, 201 * SCALE):
        for kinds in (["miss", "done"], ["hit", "done"]):
            year.put(step("agent.build.release", day=name, size=ARTIFACT_BYTES))
            assert year.work() == kinds, name


def replay(year: Year) -> float:
    """Delete everything that is made from the journals, and open the project again; return how long that took."""
    year.close()
    for path in year.catalog.glob("derived-*/*.db*"):
        path.unlink()
    start = time.perf_counter()
    year._open(open_project(year.root, year.settings, clock=year.clock))
    with year.gateway.store.read(), year.space.store.read():
        return time.perf_counter() - start


def print_year(year: Year, deleted: dict[str, int], rebuild_seconds: float) -> None:
    """Print what the year cost, month by month."""
    print(f"\nbodies deleted {deleted}; both indexes rebuilt in {rebuild_seconds:.1f} s")
    for month in year.months:
        parts = {name: size for name, size in month.parts.items() if size > MB / 2}
        print(
            f"day {month.day}: {month.receipts:,} receipts, {month.total_bytes / MB:.1f} MB, "
            f"dry run {month.collect_seconds:.2f} s, open {month.open_seconds * 1000:.0f} ms, "
            f"process {month.memory_bytes / MB:.0f} MB; "
            + ", ".join(f"{name} {size / MB:.1f}" for name, size in sorted(parts.items(), key=lambda part: -part[1]))
        )
