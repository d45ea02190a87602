"""Short of room: what makes room is put and done all the same, by gc's own rules, and one at a time. # YT-13"""

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
from engrambus.evidence.receipts import BodyStore, Receipt
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.policy.guardrails import MB, DiskBreaker
from engrambus.settings import Settings
from engrambus.space.tuples import GC_LANE, TupleSpace, read_pattern
from engrambus.space.work import GcWorker, LaneWorkerPool, Progress, WorkerDependencies
from engrambus.space.work.gc_worker import last_night
from engrambus.testing.work import PERSON, RUN, completion
from tests.cli.runner import Desk
from tests.guardrails.test_gc import breaking, collector, plan, receipt, sha, worked
from tests.projects import Repository, make_gateway
from tests.space.shop import DECLARED, MODULE, OWN, Shop, open_shop, step

NO_DISK_HAS = 10**9
"""Megabytes."""
REPORT = '<testsuite><testcase classname="t" name="one" file="t.py"><failure>no</failure></testcase></testsuite>'


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path) as made:
        yield made


class Project:
    """A project with a worker's shop, as the product wires it, and the tests' yools."""

    def __init__(self, repository: Repository, home: Path) -> None:
        paths = f"{Path(__file__).parents[2] / 'src'}:{Path(__file__).parents[2]}"
        given = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": paths}
        self.settings = Settings.from_environment(given)
        self.catalog = repository.path / ".catalog"
        self.gateway: Gateway = make_gateway(repository.path, self.settings)
        self.bus = Bus(self.gateway, LOCAL_ADMIN)
        self.shop: WorkerDependencies = open_worker_dependencies(self.gateway, self.settings, modules=[MODULE])

    def work(self, *texts: str) -> list[Receipt]:
        """The receipts of steps that left a file with such a text."""
        own = TupleSpace(self.shop.space.store, settings=self.shop.space.settings)
        run = self.gateway.identify(LOCAL_ADMIN).run.run_id
        drafts = [{"lane": "build", "payload": [step("agent.leave.report", text=text)]} for text in texts]
        ids = [put.id for put in own.out(*drafts, authority=PERSON, run=run)]
        here = msgspec.structs.replace(self.shop, space=own, registry=OWN, catalog=lambda: DECLARED)
        LaneWorkerPool(here, read_pattern({"lane": "build"})).run(until_empty=True)
        return [own.receipt(own.public_tuple(each)["receipts"][0]) for each in ids]

    def grow_old(self) -> None:
        """Nothing was put just now any more."""
        for body in (self.catalog / "cas").glob("*/*"):
            os.utime(body, (0, 0))


@pytest.fixture
def project(repository: Repository, tmp_path: Path) -> Iterator[Project]:
    project = Project(repository, tmp_path / "home")
    with closing(project.gateway), closing(project.shop.runner):
        yield project


def test_short_of_room_a_project_takes_no_work_and_its_caretaker_makes_room(project: Project) -> None:
    project.bus.apply_policy({"guardrails": {"gc": {"free_mb_floor": NO_DISK_HAS}}})
    with pytest.raises(DiskPressure) as refused:
        project.bus.tuple_out("notes")
    assert refused.value.limit == NO_DISK_HAS
    asked = project.bus.tuple_rd(lane=GC_LANE).tuple["id"]
    ended = threading.Event()
    told: list[Progress] = []

    def hear(progress: Progress) -> None:
        told.append(progress)
        if progress.tuple_id in (asked, "") and progress.kind in ("done", "dead", "again", "pressure"):
            ended.set()

    run = project.gateway.identify(LOCAL_ADMIN).run.run_id
    with GcWorker(project.shop, run=run, hour=3, on_progress=hear):
        assert ended.wait(60)
    assert project.shop.space.get(asked).state == "done", told


def test_the_night_comes_without_room_too(shop: Shop, tmp_path: Path) -> None:
    short = msgspec.structs.replace(shop.shop, space=breaking(shop.space, [0], tmp_path))
    with pytest.raises(DiskPressure):
        short.space.out({"lane": "build"}, authority=PERSON, run=RUN)
    (asked,) = shop.space.rd_all({"lane": GC_LANE})
    assert GcWorker(short, run=RUN, hour=3).put_nightly()
    assert len(shop.space.rd_all({"lane": GC_LANE})) == 2
    assert shop.space.get(asked.id).state == "waiting"


@pytest.mark.parametrize("hour", [0, 3, 23])
def test_at_the_hour_itself_the_night_is_due(hour: int) -> None:
    due = datetime(2026, 1, 10, hour).astimezone().timestamp()
    assert last_night(round(due) * SECOND_US, hour).timestamp() == due
    assert last_night(round(due) * SECOND_US - 1, hour).timestamp() < due


def test_the_floor_itself_is_enough_and_the_disk_is_looked_at_once_a_second(tmp_path: Path) -> None:
    free, now, looks = [1000 * MB], [5.0], [0]

    def look(folder: Path) -> int:
        looks[0] += 1
        return free[0]

    breaker = DiskBreaker(tmp_path, lambda: 1000, look, lambda: now[0])
    breaker.check()
    free[0] -= 1
    now[0] += 0.5
    breaker.check()
    assert looks[0] == 1
    now[0] += 0.5
    for _ in range(2):
        with pytest.raises(DiskPressure):
            breaker.check()
    assert looks[0] == 2
    free[0] += 1
    now[0] += 1.0
    breaker.check()


def test_on_its_last_day_a_body_stays() -> None:
    assert plan([receipt(sha(1), 30), receipt(sha(2), 365, artifact=False)], {sha(1): 1, sha(2): 1}) == []
    gone = plan([receipt(sha(1), 30.001), receipt(sha(2), 365.001, artifact=False)], {sha(1): 1, sha(2): 1})
    assert gone == [(sha(2), "printed"), (sha(1), "artifact")]


def test_below_the_floor_it_is_not_enough_whatever_the_cap(shop: Shop) -> None:
    worked(shop)
    freed = sum(each.bytes for each in collector(shop, max_total_mb=0).collect(dry_run=True).freed)
    assert freed > 0
    for free, enough in ((20 * MB - freed - 1, False), (20 * MB - freed, True), (20 * MB, True)):
        assert collector(shop, free=free, free_mb_floor=20).collect(dry_run=True).enough == enough


def test_every_receipt_is_surveyed_however_many_there_are(shop: Shop) -> None:
    drafts = [{"lane": "other", "payload": [step("agent.sum.numbers", a=at, b=0)]} for at in range(300)]
    shop.space.out(*drafts, authority=PERSON, run=RUN)
    claims = shop.space.claim({"lane": "other"}, worker="w", limit=300)
    shop.space.complete([completion(shop.shop, each) for each in claims])  # type: ignore[arg-type]
    last = worked(shop)
    done = collector(shop, hot_days=0, warm_days=400).collect()
    with shop.space.store.read() as view:
        assert done.receipts == len(view.list_receipts(None, limit=10_000)) > 500
    named = {artifact.sha for each in last for artifact in each.artifacts}
    assert not any(shop.shop.bodies.exists(each) for each in named), "the newest receipt was heard, too"


def test_one_collects_at_a_time(shop: Shop) -> None:
    held: list[bool] = []

    def free(folder: Path) -> int:
        with open(folder / "gc.lock", "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held.append(False)
            except BlockingIOError:
                held.append(True)
        return 10**12

    collector(shop, free=free).collect()
    assert held == [True]
    collector(shop, free=free).collect(dry_run=True)
    assert held == [True, False], "a dry run changes nothing, and waits for nobody"


class Watched(BodyStore):
    """Bodies, and what the journal says of each when it is to go."""

    def __init__(self, folder: Path, space: TupleSpace, *, dies: bool) -> None:
        super().__init__(folder)
        self.space = space
        self.dies = dies
        self.said: dict[str, Any] = {}

    def remove(self, digest: str, *, untouched_since: float) -> int:
        """Look at the journal first, then remove, or die."""
        with self.space.store.read() as view:
            self.said[digest] = view.purged_at_us(digest)
        if self.dies:
            raise KeyboardInterrupt
        return super().remove(digest, untouched_since=untouched_since)


@pytest.mark.parametrize("dies", [False, True])
def test_the_journal_says_so_before_a_body_goes(shop: Shop, dies: bool) -> None:  # YT-08
    named = {artifact.sha for each in worked(shop) for artifact in each.artifacts}
    watched = Watched(shop.shop.root / ".catalog/cas", shop.space, dies=dies)
    here = Shop(msgspec.structs.replace(shop.shop, bodies=watched), shop.told)
    if dies:
        with pytest.raises(KeyboardInterrupt):
            collector(here, hot_days=0, warm_days=400).collect()
        assert all(shop.shop.bodies.exists(each) for each in named)
        assert len(watched.said) == 1
        collector(shop, hot_days=0, warm_days=400).collect()
    else:
        collector(here, hot_days=0, warm_days=400).collect()
        assert watched.said.keys() == named
    assert None not in watched.said.values()
    assert not any(shop.shop.bodies.exists(each) for each in named), "what a crash left goes the next time"


def test_what_engrams_point_at_stays_when_the_rest_goes(
    project: Project, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, named, gone = project.work("kept", REPORT, "gone")
    (body,) = kept.artifacts
    project.bus.put_engram("The log shows it.", pointers=[Pointer(type="artifact", ref=f"artifact:{body.sha}")])
    project.bus.put_engram("It failed once.", pointers=[Pointer(type="test", ref=f"test:t.py::one@{named.id}")])
    project.bus.apply_policy({"guardrails": {"gc": {"hot_days": 0, "warm_days": 0, "free_mb_floor": 0}}})
    project.grow_old()
    artifacts = [each.artifacts[0] for each in (kept, named, gone)]
    desk = Desk(repository, tmp_path / "home", monkeypatch)
    said = desk.ok("gc", "--dry-run").out
    assert "WOULD BE DELETED" in said
    assert "artifacts past their days  1" in said
    assert "2 bodies that engrams point at stay" in said
    assert all(project.shop.bodies.exists(each.sha) for each in artifacts)
    would = desk.ok("gc", "--dry-run", "--json").json
    done = project.bus.collect_garbage()
    assert would["pinned"] == done.pinned == 2
    assert [each["bodies"] for each in would["freed"]] == [each.bodies for each in done.freed]
    assert [project.shop.bodies.exists(each.sha) for each in artifacts] == [True, True, False]
    assert desk.ok("gc").out.startswith("There is nothing to delete.")
