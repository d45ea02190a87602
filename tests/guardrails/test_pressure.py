"""A full disk: collections are still put and run, one at a time, by their own rules. # YT-13"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engrambus import Bus, Pointer
from engrambus.app import open_worker_dependencies
from engrambus.core import SECOND_US
from engrambus.errors import DiskPressure
from engrambus.evidence.receipts import BodyFolder, Receipt
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.policy.guardrails import MB, DiskBreaker
from engrambus.settings import Settings
from engrambus.space.tuples import GC_LANE, TupleSpace, read_pattern
from engrambus.space.work import GcWorker, LaneWorkerPool, Progress, WorkerDependencies
from engrambus.space.work.gc_worker import last_night
from engrambus.testing.work import PERSON, RUN, completion
from tests.cli.runner import Shell
from tests.guardrails.test_gc import collector, plan, receipt, run_steps, sha, with_free_space
from tests.projects import Repository, make_gateway
from tests.space.worker_harness import CATALOG, MODULE, YOOLS, WorkerHarness, open_worker_harness, step

TOO_MANY_MB = 10**9
"""More than any disk has."""
REPORT = '<testsuite><testcase classname="t" name="one" file="t.py"><failure>no</failure></testcase></testsuite>'


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WorkerHarness]:
    with open_worker_harness(tmp_path) as harness:
        yield harness


class WiredProject:
    """A project as the product wires it, with the tests' yools."""

    def __init__(self, repository: Repository, home: Path) -> None:
        paths = f"{Path(__file__).parents[2] / 'src'}:{Path(__file__).parents[2]}"
        environment = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": paths}
        self.settings = Settings.from_environment(environment)
        self.catalog = repository.path / ".catalog"
        self.gateway: Gateway = make_gateway(repository.path, self.settings)
        self.bus = Bus(self.gateway, LOCAL_ADMIN)
        self.deps: WorkerDependencies = open_worker_dependencies(self.gateway, self.settings, modules=[MODULE])

    def work(self, *texts: str) -> list[Receipt]:
        """Run steps that leave files with these texts; return their receipts."""
        space = TupleSpace(self.deps.space.store, settings=self.deps.space.settings)
        run = self.gateway.identify(LOCAL_ADMIN).run.run_id
        drafts = [{"lane": "build", "payload": [step("agent.leave.report", text=text)]} for text in texts]
        ids = [put.id for put in space.out(*drafts, authority=PERSON, run=run)]
        deps = msgspec.structs.replace(self.deps, space=space, registry=YOOLS, catalog=lambda: CATALOG)
        LaneWorkerPool(deps, read_pattern({"lane": "build"})).run(until_empty=True)
        return [space.receipt(space.public_tuple(tuple_id)["receipts"][0]) for tuple_id in ids]

    def age_bodies(self) -> None:
        """Make all bodies old."""
        for body in (self.catalog / "cas").glob("*/*"):
            os.utime(body, (0, 0))


@pytest.fixture
def project(repository: Repository, tmp_path: Path) -> Iterator[WiredProject]:
    project = WiredProject(repository, tmp_path / "home")
    with closing(project.gateway), closing(project.deps.runner):
        yield project


def test_on_a_full_disk_work_is_refused_and_the_gc_worker_collects(project: WiredProject) -> None:
    project.bus.apply_policy({"guardrails": {"gc": {"free_mb_floor": TOO_MANY_MB}}})
    with pytest.raises(DiskPressure) as refused:
        project.bus.tuple_out("notes")
    assert refused.value.limit == TOO_MANY_MB
    requested = project.bus.tuple_rd(lane=GC_LANE).tuple["id"]
    ended = threading.Event()
    progress_list: list[Progress] = []

    def on_progress(progress: Progress) -> None:
        progress_list.append(progress)
        if progress.tuple_id in (requested, "") and progress.kind in ("done", "dead", "again", "pressure"):
            ended.set()

    with GcWorker(project.deps, hour=3, on_progress=on_progress):
        assert ended.wait(60)
    assert project.deps.space.get(requested).state == "done", progress_list


def test_the_nightly_tuple_is_put_on_a_full_disk_too(harness: WorkerHarness, tmp_path: Path) -> None:
    full_disk = msgspec.structs.replace(harness.deps, space=with_free_space(harness.space, [0], tmp_path))
    with pytest.raises(DiskPressure):
        full_disk.space.out({"lane": "build"}, authority=PERSON, run=RUN)
    (requested,) = harness.space.rd_all({"lane": GC_LANE})
    assert GcWorker(full_disk, hour=3).put_nightly()
    assert len(harness.space.rd_all({"lane": GC_LANE})) == 2
    assert harness.space.get(requested.id).state == "waiting"


@pytest.mark.parametrize("hour", [0, 3, 23])
def test_the_nightly_collection_is_due_at_its_hour(hour: int) -> None:
    due = datetime(2026, 1, 10, hour).astimezone().timestamp()
    assert last_night(round(due) * SECOND_US, hour).timestamp() == due
    assert last_night(round(due) * SECOND_US - 1, hour).timestamp() < due


def test_the_floor_itself_is_enough_and_the_disk_is_read_once_a_second(tmp_path: Path) -> None:
    free, now, reads = [1000 * MB], [5.0], [0]

    def read_free(folder: Path) -> int:
        reads[0] += 1
        return free[0]

    breaker = DiskBreaker(tmp_path, lambda: 1000, read_free, lambda: now[0])
    breaker.check()
    free[0] -= 1
    now[0] += 0.5
    breaker.check()
    assert reads[0] == 1
    now[0] += 0.5
    for _ in range(2):
        with pytest.raises(DiskPressure):
            breaker.check()
    assert reads[0] == 2
    free[0] += 1
    now[0] += 1.0
    breaker.check()


def test_a_body_is_kept_on_its_last_day() -> None:
    assert plan([receipt(sha(1), 30), receipt(sha(2), 365, artifact=False)], {sha(1): 1, sha(2): 1}) == []
    deleted = plan([receipt(sha(1), 30.001), receipt(sha(2), 365.001, artifact=False)], {sha(1): 1, sha(2): 1})
    assert deleted == [(sha(2), "printed"), (sha(1), "artifact")]


def test_below_the_floor_it_is_not_enough_whatever_the_size_limit(harness: WorkerHarness) -> None:
    run_steps(harness)
    freed = sum(row.bytes for row in collector(harness, max_total_mb=0).collect(dry_run=True).freed)
    assert freed > 0
    for free, enough in ((20 * MB - freed - 1, False), (20 * MB - freed, True), (20 * MB, True)):
        assert collector(harness, free=free, free_mb_floor=20).collect(dry_run=True).enough == enough


def test_every_receipt_is_read_however_many_there_are(harness: WorkerHarness) -> None:
    drafts = [{"lane": "other", "payload": [step("agent.sum.numbers", a=number, b=0)]} for number in range(300)]
    harness.space.out(*drafts, authority=PERSON, run=RUN)
    claims = harness.space.claim({"lane": "other"}, worker="w", limit=300)
    harness.space.complete([completion(harness.deps, claim) for claim in claims])  # type: ignore[arg-type]
    receipts = run_steps(harness)
    done = collector(harness, hot_days=0, warm_days=400).collect()
    with harness.space.store.read() as view:
        assert done.receipts == len(view.list_receipts(None, limit=10_000)) > 500
    shas = {artifact.sha for receipt in receipts for artifact in receipt.artifacts}
    assert not any(harness.deps.bodies.exists(sha) for sha in shas), "the newest receipt was read, too"


def test_one_collection_runs_at_a_time(harness: WorkerHarness) -> None:
    was_locked: list[bool] = []

    def free(folder: Path) -> int:
        with open(folder / "gc.lock", "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                was_locked.append(False)
            except BlockingIOError:
                was_locked.append(True)
        return 10**12

    collector(harness, free=free).collect()
    assert was_locked == [True]
    collector(harness, free=free).collect(dry_run=True)
    assert was_locked == [True, False], "a dry run takes no lock"


class WatchedBodies(BodyFolder):
    """A body store that records what the journal says of each body before its removal."""

    def __init__(self, folder: Path, space: TupleSpace, *, crashes: bool) -> None:
        super().__init__(folder)
        self.space = space
        self.crashes = crashes
        self.journalled: dict[str, Any] = {}

    def remove(self, digest: str, *, untouched_since: float) -> int:
        """Read the journal, then remove the body or raise."""
        with self.space.store.read() as view:
            self.journalled[digest] = view.purged_at_us(digest)
        if self.crashes:
            raise KeyboardInterrupt
        return super().remove(digest, untouched_since=untouched_since)


@pytest.mark.parametrize("crashes", [False, True])
def test_a_removal_is_journalled_before_the_body_is_deleted(harness: WorkerHarness, crashes: bool) -> None:  # YT-08
    shas = {artifact.sha for sha in run_steps(harness) for artifact in sha.artifacts}
    watched = WatchedBodies(harness.deps.root / ".catalog/cas", harness.space, crashes=crashes)
    watched_harness = WorkerHarness(msgspec.structs.replace(harness.deps, bodies=watched), harness.progress)
    if crashes:
        with pytest.raises(KeyboardInterrupt):
            collector(watched_harness, hot_days=0, warm_days=400).collect()
        assert all(harness.deps.bodies.exists(sha) for sha in shas)
        assert len(watched.journalled) == 1
        collector(harness, hot_days=0, warm_days=400).collect()
    else:
        collector(watched_harness, hot_days=0, warm_days=400).collect()
        assert watched.journalled.keys() == shas
    assert None not in watched.journalled.values()
    assert not any(harness.deps.bodies.exists(sha) for sha in shas), "the next collection deletes what a crash left"


def test_only_bodies_that_engrams_point_at_are_kept(
    project: WiredProject, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned, pinned_by_test, unpinned = project.work("kept", REPORT, "gone")
    (body,) = pinned.artifacts
    project.bus.put_engram("The log shows it.", pointers=[Pointer(type="artifact", ref=f"artifact:{body.sha}")])
    project.bus.put_engram(
        "It failed once.", pointers=[Pointer(type="test", ref=f"test:t.py::one@{pinned_by_test.id}")]
    )
    project.bus.apply_policy({"guardrails": {"gc": {"hot_days": 0, "warm_days": 0, "free_mb_floor": 0}}})
    project.age_bodies()
    artifacts = [row.artifacts[0] for row in (pinned, pinned_by_test, unpinned)]
    shell = Shell(repository, tmp_path / "home", monkeypatch)
    output = shell.ok("gc", "--dry-run").out
    assert "WOULD BE DELETED" in output
    assert "artifacts past their retention  1" in output
    assert "2 bodies that engrams point at stay" in output
    assert all(project.deps.bodies.exists(row.sha) for row in artifacts)
    planned = shell.ok("gc", "--dry-run", "--json").json
    done = project.bus.collect_garbage()
    assert planned["pinned"] == done.pinned == 2
    assert [row["bodies"] for row in planned["freed"]] == [row.bodies for row in done.freed]
    assert [project.deps.bodies.exists(row.sha) for row in artifacts] == [True, True, False]
    assert shell.ok("gc").out.startswith("There is nothing to delete.")
