"""Making room: bodies go by age and for want of room, receipts never; without room no work is begun."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus import Bus, Pointer
from engrambus.app import open_worker_dependencies
from engrambus.core import SECOND_US, SystemClock, digest, print_time
from engrambus.errors import BodyNotFound, DiskPressure
from engrambus.evidence.receipts import DAY_US, EMPTY_DIGEST, Artifact, PurgePlanner, Receipt, new_receipt
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.operations import pinned_by_engrams
from engrambus.operations.gc import CollectGarbage
from engrambus.operations.receipts import RecordTests
from engrambus.policy.guardrails import MB, DiskBreaker, Retention
from engrambus.settings import Settings
from engrambus.space.tuples import GC_LANE, Completion, TupleSpace
from engrambus.space.work import GarbageCollector, GcReport, GcWorker, Progress
from engrambus.space.work.gc_worker import last_night
from engrambus.testing import ManualClock, expect_refusal
from engrambus.testing.work import PERSON, RUN
from tests.cli.runner import Desk
from tests.guardrails.test_segments import lines, store
from tests.projects import Repository, make_gateway, make_repository, make_settings
from tests.space.shop import Shop, open_shop, step

NOW = SystemClock().now()


def receipt(sha: str, days: float, *, artifact: bool = True, name: str = "a") -> Receipt:
    """A receipt of so many days ago that names a body."""
    at = print_time(NOW - round(days * DAY_US))
    kept = (Artifact(kind="file", path=name, sha=sha, size=1),) if artifact else ()
    return new_receipt(
        yool="agent.sum.numbers.v1",
        tuple_id="sha256:" + "1" * 64,
        started_at=at,
        ended_at=at,
        exit=0,
        stdout_sha=EMPTY_DIGEST if artifact else sha,
        artifacts=kept,
    )


def sha(number: int) -> str:
    """A digest."""
    return f"sha256:{number:064x}"


def plan(
    receipts: list[Receipt], sizes: dict[str, int], room: int = 0, pinned: frozenset[str] = frozenset()
) -> list[tuple[str, str]]:
    """What would go, and why."""
    survey = PurgePlanner(sizes.items(), pinned)
    for each in receipts:
        survey.add(each)
    return [
        (each.body.sha, each.why) for each in survey.plan(now_us=NOW, hot_days=30, warm_days=365, excess_bytes=room)
    ]


# YT-13: the specification's own test.
def test_old_artifacts_go_and_young_ones_stay() -> None:
    young = [receipt(sha(number), 5, name=str(number)) for number in range(50)]
    old = [receipt(sha(100 + number), 40, name=str(number)) for number in range(50)]
    gone = plan(young + old, {sha(number): 10 for number in range(200)})
    assert sorted(gone) == [(sha(100 + number), "artifact") for number in range(50)]


# YT-13: three tiers.
def test_what_was_printed_is_kept_longer_than_artifacts() -> None:
    printed = [receipt(sha(1), 40, artifact=False), receipt(sha(2), 400, artifact=False)]
    assert plan(printed, {sha(1): 10, sha(2): 10}) == [(sha(2), "printed")]


def test_the_last_execution_that_left_a_body_counts() -> None:
    assert plan([receipt(sha(1), 400), receipt(sha(1), 1)], {sha(1): 10}) == []
    assert plan([receipt(sha(1), 100), receipt(sha(1), 90, artifact=False)], {sha(1): 10}) == []


def test_for_room_the_oldest_go_first_and_no_more_than_needed() -> None:
    receipts = [receipt(sha(number), number) for number in (1, 2, 3, 4)]
    sizes = {sha(number): 10 for number in range(5)}
    assert plan(receipts, sizes, room=11) == [(sha(4), "room"), (sha(3), "room")]
    assert plan([*receipts, receipt(sha(0), 99)], sizes, room=10) == [(sha(0), "artifact")]


def test_what_engrams_point_at_stays() -> None:
    named = receipt(sha(2), 400)
    kept = frozenset({sha(1), named.id})
    assert plan([receipt(sha(1), 400), named, receipt(sha(3), 400)], {sha(n): 9 for n in (1, 2, 3)}, 99, kept) == [
        (sha(3), "artifact")
    ]


@given(st.lists(st.tuples(st.integers(0, 20), st.floats(0, 800), st.booleans()), max_size=30), st.integers(0, 100))
def test_nothing_goes_without_a_reason(said: list[tuple[int, float, bool]], room: int) -> None:
    receipts = [receipt(sha(number), days, artifact=artifact) for number, days, artifact in said]
    sizes = {sha(number): 10 for number in range(21)}
    gone = plan(receipts, sizes, room)
    assert len(gone) == len(set(gone)) <= len({number for number, _, _ in said})
    for_room = sum(why == "room" for _, why in gone)
    assert for_room * 10 < room + 10


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path) as made:
        yield made


def collector(
    shop: Shop,
    free: int | Callable[[Path], int] = 10**12,
    grace: float = 0.0,
    pinned: tuple[str, ...] = (),
    **retention: int,
) -> GarbageCollector:
    """Who makes room in a shop."""
    return GarbageCollector(
        shop.space,
        shop.shop.bodies,
        shop.shop.root / ".catalog",
        shop.shop.clock,
        retention=lambda: Retention(**retention),
        pinned=lambda: pinned,
        free=free if callable(free) else lambda folder: free,
        grace_seconds=grace,
    )


def worked(shop: Shop) -> list[Receipt]:
    """Receipts of steps that printed something and left a file."""
    ids = [shop.put(step("agent.leave.report", text=f"report {number}")) for number in range(3)]
    shop.work()
    return [each for one in ids for each in shop.receipts(one)]


# YT-13
def test_a_dry_run_tells_and_changes_nothing(shop: Shop) -> None:
    worked(shop)
    before = lines(shop.space)
    would = collector(shop, hot_days=0, warm_days=0).collect(dry_run=True)
    assert sum(each.bodies for each in would.freed) > 0
    assert lines(shop.space) == before
    done = collector(shop, hot_days=0, warm_days=0).collect()
    assert done.freed == would.freed
    assert would.after_bytes < would.total_bytes


# YT-13, YT-08
def test_receipts_stay_their_bodies_go_and_the_journal_says_so(shop: Shop) -> None:
    kept = worked(shop)
    named = {artifact.sha for each in kept for artifact in each.artifacts}
    assert named
    collector(shop, hot_days=0, warm_days=400).collect()
    assert not any(shop.shop.bodies.exists(each) for each in named)
    with shop.space.store.read() as view:
        assert all(view.receipt(each.id) == each for each in kept)
        assert all(view.purged_at_us(each) is not None for each in named)
    assert len(list((shop.shop.root / ".catalog/receipts").glob("*/*.json"))) == len(kept)
    assert store(shop.space).verify() == []
    store(shop.space).rebuild()
    with shop.space.store.read() as view:
        assert all(view.purged_at_us(each) is not None for each in named)


# YT-08, YT-13: a test is pointed at through the receipt of its step or through the whole tuple's.
def test_what_the_receipt_of_a_whole_tuple_leads_to_stays(shop: Shop) -> None:
    executed = worked(shop)
    hit = shop.put(step("agent.leave.report", text="report 1"))
    shop.work()
    whole = shop.receipts(hit)[-1]
    (named,) = [each for each in executed if each.id in whole.receipts]
    done = collector(shop, hot_days=0, warm_days=0, pinned=(whole.id,)).collect()
    artifacts = {artifact.sha for each in executed for artifact in each.artifacts}
    left = {each for each in artifacts if shop.shop.bodies.exists(each)}
    assert left == {each.sha for each in named.artifacts} != set()
    assert done.pinned == len(left)


# YT-09: what went is no hit, and no damage either.
def test_a_step_whose_body_went_is_executed_again(shop: Shop) -> None:
    worked(shop)
    collector(shop, hot_days=0, warm_days=0).collect()
    shop.put(step("agent.leave.report", text="report 1"))
    assert shop.work() == ["miss", "done"]
    shop.put(step("agent.leave.report", text="report 1"))
    assert shop.work() == ["hit", "done"]


def test_a_body_that_was_just_put_is_left_alone(shop: Shop) -> None:
    worked(shop)
    done = collector(shop, hot_days=0, warm_days=0, grace=3600.0).collect()
    assert sum(each.bodies for each in done.freed) == 0


def test_a_body_that_is_put_again_while_it_goes_stays(shop: Shop) -> None:
    bodies = shop.shop.bodies
    kept = bodies.put(b"once more")
    moment = time.time() + 1
    assert bodies.remove(kept, untouched_since=moment - 3600) == 0
    assert bodies.get(kept) == b"once more"
    os.utime(shop.shop.root / ".catalog/cas" / kept[7:9] / kept[9:], (0, 0))
    assert bodies.put(b"once more") == kept
    assert bodies.remove(kept, untouched_since=moment - 3600) == 0
    assert bodies.remove(kept, untouched_since=moment + 3600) == 9
    assert not bodies.exists(kept)


# YT-13: the cap and the floor.
def test_above_the_cap_and_below_the_floor_the_oldest_go(shop: Shop) -> None:
    worked(shop)
    assert sum(each.bodies for each in collector(shop).collect(dry_run=True).freed) == 0
    over = collector(shop, max_total_mb=0).collect(dry_run=True)
    assert [each.bodies > 0 for each in over.freed] == [False, False, True, False]
    assert not over.enough
    short = collector(shop, free=10 * MB, free_mb_floor=20).collect(dry_run=True)
    assert short.freed == over.freed


def left_behind(shop: Shop) -> int:
    """What killed workers leave: a step's folder, and bodies that were half put or half taken away; their bytes."""
    catalog = shop.shop.root / ".catalog"
    folder = catalog / "scratch" / f"{socket.gethostname()}@999999999.1@x"
    (folder / "tmp").mkdir(parents=True)
    (folder / "tmp/written").write_bytes(b"x" * 3_000_000)
    (catalog / "cas/ab").mkdir(parents=True, exist_ok=True)
    (catalog / "cas" / ".0123456789abcdef.new").write_bytes(b"x" * 2_000_000)
    (catalog / "cas/ab" / ".0123456789abcdef.old").write_bytes(b"x" * 1_000_000)
    return 6_000_000


# YT-13: no result goes for what nobody needs, and a dry run tells what a real one does.
def test_what_killed_workers_left_goes_before_any_result(shop: Shop) -> None:
    executed = worked(shop)
    named = {artifact.sha for each in executed for artifact in each.artifacts}
    rubbish = left_behind(shop)
    would = collector(shop, max_total_mb=5).collect(dry_run=True)
    done = collector(shop, max_total_mb=5).collect()
    assert done.freed == would.freed
    assert [(each.why, each.bodies, each.bytes) for each in done.freed if each.bodies] == [("left", 3, rubbish)]
    assert all(shop.shop.bodies.exists(each) for each in named)
    assert would.enough
    assert done.enough
    assert would.total_bytes - would.after_bytes == rubbish
    assert done.after_bytes < 5 * MB < done.total_bytes
    assert [each.name for each in (shop.shop.root / ".catalog/cas").iterdir() if each.name.startswith(".")] == []
    assert list((shop.shop.root / ".catalog/scratch").iterdir()) == []


# YT-13: by the free disk too, which is looked at again once the rubbish is gone.
def test_the_floor_is_looked_at_when_what_killed_workers_left_is_gone(shop: Shop) -> None:
    worked(shop)
    left_behind(shop)
    catalog = shop.shop.root / ".catalog"

    def free(folder: Path) -> int:
        return 20 * MB - sum(each.stat().st_size for each in folder.rglob("*") if each.stat().st_size >= MB)

    def collect(dry_run: bool) -> GcReport:
        return msgspec.structs.replace(
            collector(shop, free=free, free_mb_floor=15).collect(dry_run=dry_run), dry_run=False, after_bytes=0
        )

    would = collect(dry_run=True)
    assert free(catalog) < 15 * MB
    assert collect(dry_run=False) == would
    assert [each.why for each in would.freed if each.bodies] == ["left"]


def test_what_is_being_put_is_left_alone(shop: Shop) -> None:
    left_behind(shop)
    done = collector(shop, grace=3600.0).collect()
    assert [(each.why, each.bodies) for each in done.freed if each.bodies] == [("left", 1)]
    assert (shop.shop.root / ".catalog/cas/.0123456789abcdef.new").exists()


# YT-13: a dry run tells of the journal, too, and leaves it as it is.
def test_a_dry_run_tells_whether_the_journal_would_go_on_in_a_new_file(tmp_path: Path) -> None:
    with open_shop(tmp_path) as shop:
        for number in range(20):
            shop.put(step("agent.leave.report", text=str(number) * 60_000))
        tomorrow = ManualClock(shop.shop.clock.now() + DAY_US)
        later = Shop(msgspec.structs.replace(shop.shop, clock=tomorrow), shop.told)
        assert not collector(shop).collect(dry_run=True).rotated
        assert [collector(later).collect(dry_run=dry).rotated for dry in (True, True, False, True)] == [
            *(True, True, True),
            False,
        ]


def breaking(space: TupleSpace, free: list[int], tmp_path: Path) -> TupleSpace:
    """The same space on a disk with so much free."""
    clock = iter(range(10**9))
    breaker = DiskBreaker(tmp_path, lambda: 1000, lambda folder: free[0], lambda: float(next(clock)))
    return TupleSpace(space.store, settings=space.settings, breaker=breaker.check)


# YT-13
def test_below_the_floor_work_is_refused_and_room_asked_for_once(shop: Shop, tmp_path: Path) -> None:
    free = [999 * MB]
    space = breaking(shop.space, free, tmp_path)
    for _ in range(3):
        with pytest.raises(DiskPressure) as expect_refusal:
            space.out({"lane": "build"}, authority=PERSON, run=RUN)
        assert (expect_refusal.value.limit, expect_refusal.value.used) == (1000, 999)
    asked = space.rd_all({"lane": GC_LANE})
    assert [each.tuple.payload[0].yool for each in asked] == ["fs.gc.run"]
    free[0] = 2000 * MB
    assert space.out({"lane": "build"}, authority=PERSON, run=RUN)[0].new


# YT-13: a refused caller in a loop fills nobody's journal.
def test_room_is_not_asked_for_again_until_a_while_after_the_last_try(shop: Shop, tmp_path: Path) -> None:
    space = breaking(shop.space, [0], tmp_path)

    def asked() -> int:
        for _ in range(3):
            with pytest.raises(DiskPressure):
                space.out({"lane": "build"}, authority=PERSON, run=RUN)
        return len(space.rd_all({"lane": GC_LANE}))

    assert asked() == 1
    (claim,) = space.claim({"lane": GC_LANE}, worker="w")
    assert asked() == 1
    space.cancel(claim.id)
    before = store(space).last_line()
    assert asked() == 1
    assert store(space).last_line() == before


# YT-13: nothing is taken in, by whichever way it comes.
def test_below_the_floor_nothing_is_put_again_or_recorded(shop: Shop, tmp_path: Path) -> None:
    dead = shop.put(step("agent.fail.always"), agent_terms={"max_retries": 0})
    (claim,) = shop.space.claim({"lane": "build"}, worker="w")
    shop.space.complete([Completion(id=dead, fence=claim.fence, failure="exit 1")])
    space = breaking(shop.space, [0], tmp_path)
    before = [one.id for one in space.rd_all({"lane": {"ne": GC_LANE}})]
    with pytest.raises(DiskPressure):
        space.put_again(dead, authority=PERSON)
    with pytest.raises(DiskPressure):
        space.record_finished({"lane": "tests"}, lambda tuple_id, at: receipt(sha(1), 0), authority=PERSON, run=RUN)
    assert [one.id for one in space.rd_all({"lane": {"ne": GC_LANE}})] == before
    assert len(space.rd_all({"lane": GC_LANE})) == 1


def test_a_worker_begins_nothing_without_room_and_goes_on_when_there_is_some(shop: Shop, tmp_path: Path) -> None:
    one = shop.put(step("agent.leave.report", text="x"))
    free = [1 * MB]
    short = Shop(msgspec.structs.replace(shop.shop, space=breaking(shop.space, free, tmp_path)), shop.told)
    with pytest.raises(DiskPressure):
        short.work()
    assert shop.space.get(one).attempts == 0
    assert len(shop.space.rd_all({"lane": GC_LANE})) == 1
    free[0] = 5000 * MB
    assert short.work()[-1] == "done"


def test_the_night_is_put_once_by_however_many_workers(shop: Shop) -> None:
    one, other = (GcWorker(shop.shop, run=RUN, hour=3) for _ in range(2))
    assert one.put_nightly()
    assert not other.put_nightly()
    assert not one.put_nightly()
    assert [each.lane for each in shop.space.rd_all({"lane": GC_LANE})] == [GC_LANE]


@pytest.mark.parametrize("hour", [0, 3, 23])
def test_the_last_night_is_the_last_moment_at_that_hour(hour: int) -> None:
    night = last_night(NOW, hour)
    assert night.hour == hour
    assert 0 <= NOW / SECOND_US - night.timestamp() <= 25 * 3600


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Gateway]:
    make_repository(tmp_path / "repo")
    gateway = make_gateway(tmp_path / "repo", make_settings(tmp_path / "home"))
    yield gateway
    gateway.close()


def test_bodies_and_tests_that_engrams_point_at_are_known(project: Gateway) -> None:
    body = project.tuple_space.bodies.put(b"a log of old")
    bus = Bus(project, LOCAL_ADMIN)
    bus.put_engram("The log shows it.", pointers=[Pointer(type="artifact", ref=f"artifact:{body}")], kind="risk")
    bus.put_engram(
        "It failed once.", pointers=[Pointer(type="test", ref=f"test:t.py::one@{sha(7)}")], kind="test", scope="project"
    )
    assert pinned_by_engrams(project.store) == {body, sha(7)}
    answer = project.call(project_operation("collect_garbage"), CollectGarbage(dry_run=True), LOCAL_ADMIN)
    assert answer.receipts == 0


REPORT = '<testsuite><testcase classname="t" name="one"><failure message="no"/></testcase></testsuite>'


@pytest.fixture
def pointers(project: Gateway) -> dict[str, Pointer]:
    """Pointers to a report of tests that is past its days: to the body, and to a test through its receipt."""
    recorded = project.call(project_operation("record_tests"), RecordTests(report=REPORT), LOCAL_ADMIN)
    kept = digest(REPORT.encode())
    _age(project, kept)
    return {
        "body": Pointer(type="artifact", ref=f"artifact:{kept}"),
        "test": Pointer(type="test", ref=recorded.first_failed[0].ref),
    }


def _age(project: Gateway, kept: str) -> None:
    os.utime(project.project_files.catalog_path("cas") / kept[7:9] / kept[9:], (0, 0))


def _collect(project: Gateway, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Let everything go that may, and do something after it was looked what engrams point at."""

    def told(done: int, total: int) -> None:
        if (done, total) == (0, 0):
            meanwhile()

    GarbageCollector(
        project.tuple_space.space,
        project.tuple_space.bodies,
        project.project_files.catalog_path("cas").parent,
        SystemClock(),
        retention=lambda: Retention(hot_days=0, warm_days=0),
        pinned=lambda: pinned_by_engrams(project.store),
    ).collect(on_progress=told)


# BX-03, YT-13: what was acknowledged keeps what it points at, whether or not this process knew it from before.
@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("kind", ["body", "test"])
def test_what_is_pointed_at_while_room_is_made_stays(
    project: Gateway, pointers: dict[str, Pointer], kind: str, seen: bool
) -> None:
    bus = Bus(project, LOCAL_ADMIN)
    if seen:
        bus.deref_pointer(pointers[kind])
        _age(project, digest(REPORT.encode()))
    _collect(project, lambda: bus.put_engram("It failed once.", pointers=[pointers[kind]], kind="risk"))
    assert project.tuple_space.bodies.get(digest(REPORT.encode())) == REPORT.encode()


# BX-03: what is gone is not pointed at, though this process knew it from before.
@pytest.mark.parametrize("kind", ["body", "test"])
def test_what_went_is_not_pointed_at(project: Gateway, pointers: dict[str, Pointer], kind: str) -> None:
    bus = Bus(project, LOCAL_ADMIN)
    bus.put_engram("It failed once.", pointers=[pointers[kind]], kind="risk")
    _age(project, digest(REPORT.encode()))
    project.tuple_space.bodies.remove(digest(REPORT.encode()), untouched_since=time.time())
    with expect_refusal("BODY_NOT_FOUND"):
        bus.put_engram("It failed twice.", pointers=[pointers[kind]], kind="risk")


def _let_go(project: Gateway) -> str:
    """Let everything go that may; when the report went."""
    _collect(project)
    with project.tuple_space.space.store.read() as view:
        at = view.purged_at_us(digest(REPORT.encode()))
    assert at is not None
    return print_time(at)


# YT-08, YT-13: what went is said to be gone, and since when; what is there is judged, whatever is written of it.
def test_what_went_is_told_by_its_receipt_and_to_whoever_reads_it(
    project: Gateway, pointers: dict[str, Pointer]
) -> None:
    bus, kept = Bus(project, LOCAL_ADMIN), digest(REPORT.encode())
    named = pointers["test"].ref.rpartition("@")[2]
    assert bus.receipt_get(named).gone == {}
    since = _let_go(project)
    assert bus.receipt_get(named).gone == {kept: since}
    told = bus.receipt_verify(named)
    assert told.sound
    assert [(each.intact, each.gone_at) for each in told.bodies if each.sha == kept] == [(False, since)]
    for pointer in pointers.values():
        with pytest.raises(BodyNotFound, match=since):
            bus.deref_pointer(pointer)
    project.tuple_space.bodies.put(REPORT.encode())
    assert bus.receipt_get(named).gone == {}
    assert all(each.intact and each.gone_at is None for each in bus.receipt_verify(named).bodies)
    (project.project_files.catalog_path("cas") / kept[7:9] / kept[9:]).write_bytes(b"something else")
    assert not bus.receipt_verify(named).sound
    assert bus.receipt_get(named).gone == {}


def test_a_person_is_told_what_went_and_is_not_sent_to_read_it(
    project: Gateway, pointers: dict[str, Pointer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = pointers["test"].ref.rpartition("@")[2]
    desk = Desk(Repository(project.project_files.root, ""), tmp_path / "home", monkeypatch)
    assert "engrambus deref artifact:" in desk.ok("receipt", "get", named).out
    since = _let_go(project)
    shown = desk.ok("receipt", "get", named).out
    assert f"junit.xml  deleted at {since} to free space" in shown
    assert "engrambus deref" not in shown
    told = desk.ok("receipt", "verify", named).out
    assert told.startswith(f"{named} is sound\n")
    assert f"  gone     junit.xml  {digest(REPORT.encode())}  since {since}\n" in told
    assert "DAMAGED" not in told
    read = desk.run("deref", pointers["body"].ref)
    assert read.code == 1
    assert f"The stored body was deleted to free disk space, at {since}." in read.err


def project_operation(name: str) -> Any:
    """The operation of that name."""
    from engrambus.operations import OPERATIONS

    return next(each for each in OPERATIONS.values() if each.name == name)


# YT-13: the worker carries it out itself, as a step like any other.
def test_a_caretaker_carries_out_what_makes_room(project: Gateway, tmp_path: Path) -> None:
    given = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    shop = open_worker_dependencies(project, Settings.from_environment(given))
    told: list[Progress] = []
    with closing(shop.runner), GcWorker(shop, run=RUN, hour=3, on_progress=told.append):
        for _ in range(600):
            if told and told[-1].kind in ("done", "dead", "again"):
                break
            time.sleep(0.05)
    (one,) = shop.space.rd_all({"lane": GC_LANE})
    receipts = [shop.space.receipt(each) for each in shop.space.public_tuple(one.id)["receipts"]]
    said = shop.bodies.get(receipts[0].stdout_sha).decode() + shop.bodies.get(receipts[0].stderr_sha).decode()
    assert one.state == "done", said
    assert "There is nothing to delete." in said
