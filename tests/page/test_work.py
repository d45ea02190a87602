"""The work panel in a real browser: lanes, running and ended tuples, receipts, live and without scripts."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, expect

from engrambus.app import open_worker_dependencies
from engrambus.core import digest
from engrambus.gateway import LOCAL_ADMIN, Gateway, to_request
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings
from engrambus.space.catalog import Catalog, CatalogEntry, write_catalog
from engrambus.space.tuples import BodyPurged, Price, TupleSpace, read_pattern
from engrambus.space.work import LaneWorkerPool, ProcessRunner, WorkerDependencies
from engrambus.testing.work import PERSON
from tests.cli.runner import Shell
from tests.http.running_server import RunningServer, run_server
from tests.page.conftest import Visit
from tests.projects import make_gateway, make_repository
from tests.space.worker_harness import CATALOG, MODULE, YOOLS, step


class Board:
    """A project with tuples and workers."""

    def __init__(self, folder: Path) -> None:
        self.repository = make_repository(folder / "repo")
        self.home = folder / "home"
        settings = Settings.from_environment({"HOME": str(self.home), "PATH": os.environ["PATH"]})
        self.gateway: Gateway = make_gateway(self.repository.path, settings)
        deps = open_worker_dependencies(self.gateway, settings)
        runner = ProcessRunner(deps.bodies, self.gateway.project_files.state_path("scratch"), deps.clock, [MODULE])
        self.deps: WorkerDependencies = msgspec.structs.replace(
            deps, registry=YOOLS, catalog=lambda: CATALOG, runner=runner
        )
        # The project's catalog does not declare the tests' yools, so tuples are put without it.
        self.space = TupleSpace(self.deps.space.store, settings=self.deps.space.settings)
        self.run = self.gateway.identify(LOCAL_ADMIN).run.run_id

    def put(self, *steps: dict[str, Any], **fields: Any) -> str:
        """Put a tuple and return its id."""
        draft = {"lane": "build", "payload": list(steps), "agent_terms": {"max_retries": 0}, **fields}
        return self.space.out(draft, authority=PERSON, run=self.run)[0].id

    def pool(self) -> LaneWorkerPool:
        """Return a worker for the lane build."""
        return LaneWorkerPool(self.deps, read_pattern({"lane": "build"}), concurrency=2)

    def call(self, operation: str, **fields: Any) -> Any:
        """Call an operation as the admin."""
        declared = OPERATIONS[operation]
        return self.gateway.call(declared, to_request(fields, declared.request), LOCAL_ADMIN)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    board = Board(tmp_path_factory.mktemp("board"))
    board.put(step("agent.sum.numbers", a=1, b=2), step("agent.leave.report", text="<b>all good</b>"))
    board.pool().run(until_empty=True)
    board.put(step("agent.sum.numbers", a=1, b=2))
    board.put(step("agent.spend.money", usd=0.002, times=1), agent_terms={"budget_usd": 0.01, "max_retries": 0})
    board.put(step("agent.fail.always"))
    board.pool().run(until_empty=True)
    board.put(step("agent.sum.numbers", a=5, b=6), lane="later <script>")
    yield board
    board.deps.runner.close()
    board.gateway.close()


@pytest.fixture(scope="module")
def bus(board: Board) -> Iterator[RunningServer]:
    with run_server(board.gateway, board.repository) as bus:
        yield bus


def tile(page: Page, name: str) -> Any:
    """Return the number in a tile at the top of the panel."""
    return page.locator(".work .tiles div", has=page.locator("dt", has_text=name)).locator("dd")


def test_the_panel_shows_lanes_ended_cached_and_given_up_tuples(visit: Visit) -> None:
    page = visit.open("/page/work")
    expect(page.locator("nav a[aria-current=page]")).to_have_text("Work")
    expect(tile(page, "done")).to_have_text("3")
    expect(tile(page, "steps from the cache")).to_have_text("1")
    expect(tile(page, "given up")).to_have_text("1")
    expect(tile(page, "spent")).to_have_text("$0.002")
    lane = page.locator(".lanes tbody tr", has_text="later <script>")
    expect(lane.locator("td").first).to_have_text("1")
    cached = page.locator(".tuples.ended .steps .hit")
    expect(cached).to_have_text("agent.sum.numbers cached")
    dead = page.locator(".tuples.dead tbody tr")
    expect(dead).to_contain_text("exit 1")
    expect(page.locator(".tuples.ended")).not_to_contain_text("agent.fail.always")
    paid = page.locator(".tuples.ended tr", has_text="agent.spend.money").locator("meter")
    assert (paid.get_attribute("value"), paid.get_attribute("max")) == ("0.002", "0.01")
    expect(page.locator(".meter", has=page.locator("meter"))).to_have_text("$0.002/$0.01")


def test_the_panel_names_what_no_running_worker_can_run(visit: Visit) -> None:  # YT-22
    page = visit.open("/page/work")
    item = page.locator(".unclaimed li", has_text="lane later <script>")
    expect(item).to_contain_text("1 tuple needs agent.sum.numbers since")
    expect(item).to_contain_text("engrambus cancel ID")


def test_a_receipt_opens_with_its_output_and_artifacts(visit: Visit) -> None:
    page = visit.open("/page/work")
    first = page.locator(".tuples.ended tr", has_text="agent.leave.report")
    first.locator("a", has_text="agent.sum.numbers").click()
    drawer = page.locator("#drawer")
    expect(drawer.locator("h2")).to_contain_text("agent.sum.numbers.v1")
    expect(drawer.locator("pre")).to_have_text("adding\n3\n")
    page.click("#drawer .close")
    first.locator("a", has_text="agent.leave.report").click()
    drawer.locator(".artifacts a", has_text="junit.xml").click()
    expect(drawer.locator("h2.ref")).to_have_text("junit.xml")
    expect(drawer.locator(".about")).not_to_contain_text("at")
    expect(drawer.locator(".code")).to_contain_text("<b>all good</b>")
    page.click("text=← Back to the receipt")
    expect(drawer.locator("h2")).to_contain_text("agent.leave.report.v1")
    page.click("#drawer .close")
    first.locator("th a").click()
    expect(drawer.locator("h2")).to_contain_text("tuple.run")
    expect(drawer.locator(".artifacts li")).to_contain_text(["agent.sum.numbers.v1", "agent.leave.report.v1"])


# YT-08: what a test report says is shown where its receipt is
def test_a_receipt_shows_the_tests_that_failed(visit: Visit, board: Board) -> None:
    report = (
        '<testsuite><testcase classname="t" name="one" file="t.py"/><testcase classname="t" name="two" file="t.py">'
        '<failure message="&lt;b&gt;no&lt;/b&gt;">two is not one</failure></testcase></testsuite>'
    )
    tuple_id = board.put(step("agent.leave.report", text=report))
    board.pool().run(until_empty=True)
    (receipt_id, _) = board.call("tuple_observe", id=tuple_id).receipts
    page = visit.open(f"/page/work?receipt={receipt_id}")
    drawer = page.locator("#drawer")
    expect(drawer).to_contain_text("2 tests, 1 failed")
    failed = drawer.locator(".artifacts li", has_text="t.py::two")
    expect(failed).to_contain_text("<b>no</b>")
    failed.locator("a").click()
    expect(drawer.locator(".code")).to_contain_text("two is not one")


# YT-03: AGENTS.md says when somebody runs a yool
def test_the_declared_yools_are_listed_with_their_triggers(visit: Visit, board: Board) -> None:
    path = board.repository.path / ".catalog/capabilities.json"
    entry = CatalogEntry(
        name="agent.lint.code",
        version=1,
        authority=("user",),
        lane="build",
        about="Checks style",
        triggers="<i>post-edit",
    )
    write_catalog(path, Catalog([entry]))
    try:
        page = visit.open("/page/work")
        page.click(".yools summary")
        row = page.locator(".yools tbody tr")
        expect(row).to_have_count(1)
        expect(row).to_contain_text("agent.lint.code.v1")
        expect(row).to_contain_text("<i>post-edit")
        path.write_text("{")
        page = visit.open("/page/work")
        expect(tile(page, "done")).to_be_visible()
        expect(page.locator(".yools")).to_have_count(0)
    finally:
        path.unlink()


def test_running_and_ended_tuples_appear_without_reloading(visit: Visit, board: Board, tmp_path: Path) -> None:
    page = visit.open("/page/work")
    expect(page.locator(".live.on")).to_be_visible()
    started = tmp_path / "started"
    tuple_id = board.put(step("agent.wait.long", started=str(started)))
    pool = board.pool()
    thread = threading.Thread(target=pool.run)
    thread.start()
    try:
        row = page.locator(f"#running-{tuple_id[7:]}")
        expect(row).to_contain_text("agent.wait.long")
        while not started.exists():
            time.sleep(0.05)
        board.call("cancel_tuple", id=tuple_id)
        expect(page.locator(f"#ended-{tuple_id[7:]}")).to_contain_text("cancelled")
        expect(row).to_have_count(0)
    finally:
        pool.stop(at_once=True)
        thread.join()


def test_http_and_the_command_line_show_the_same_board(
    board: Board, bus: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = board.call("work_board", limit=2)
    assert len(answer.ended) == 2
    assert answer.totals.hits == 1
    assert [lane.lane for lane in answer.lanes] == ["later <script>"]
    shell = Shell(board.repository, board.home, monkeypatch)
    for limit in (1, 2):
        expected = msgspec.to_builtins(board.call("work_board", limit=limit))
        served = bus.call("GET", f"/work?limit={limit}")
        assert served.status == 200
        for shown_board in (served.json, shell.ok("board", "--limit", str(limit), "--json").json):
            assert {**shown_board, "as_of": ""} == {**expected, "as_of": ""}
        text = shell.ok("board", "--limit", str(limit)).out
        rows = expected["running"] + expected["ended"] + expected["dead"]
        assert [line[:12] for line in text.splitlines() if re.match(r"[0-9a-f]{12}  ", line)] == [
            row["id"][7:19] for row in rows
        ]
    assert bus.call("GET", "/work", token=bus.add("coder")).status == 403, "a board is for people"


def test_dead_letters_that_were_put_again_do_not_hide_others(board: Board) -> None:
    for number in range(3):
        board.put(step("agent.fail.always"), priority=number)
    board.pool().run(until_empty=True)
    answer = board.call("work_board", limit=200)
    assert answer.totals.given_up == len(answer.dead) == 4
    assert answer.dead[0].ended_at == max(row.ended_at for row in answer.dead)
    for row in answer.dead[:-1]:
        retried = board.space.put_again(row.id, authority=PERSON)
        board.call("cancel_tuple", id=retried.id)
    remaining = board.call("work_board", limit=1)
    assert [row.id for row in remaining.dead] == [answer.dead[-1].id]
    assert remaining.totals.given_up == 1
    assert board.call("list_dead").dead[0].id == answer.dead[-1].id


def test_every_ended_tuple_is_listed_for_any_number_of_steps(board: Board) -> None:  # YT-08
    ended = {row.id for row in board.call("work_board", limit=200).ended}
    board.put(*(step("agent.sum.numbers", a=1000, b=number) for number in range(60)))
    board.pool().run(until_empty=True)
    assert len(board.call("work_board", limit=len(ended) + 1).ended) == len(ended) + 1
    assert ended < {row.id for row in board.call("work_board", limit=len(ended) + 1).ended}


def test_the_end_of_long_output_is_shown(visit: Visit, board: Board) -> None:  # YT-08
    tuple_id = board.put(step("agent.print.much"), lane="build")
    board.pool().run(until_empty=True)
    page = visit.open("/page/work")
    page.locator(f"#dead-{tuple_id[7:]}").locator("a", has_text="agent.print.much").click()
    expect(page.locator("#drawer .code.plain pre")).to_have_count(2)
    first, last = page.locator("#drawer .code.plain pre").all_text_contents()
    assert first.startswith("line 1\nline 2\n")
    assert last.endswith("line 39999\nline 40000\n")
    expect(page.locator("#drawer")).to_contain_text("--tail")
    (ref,) = (command for command in offered_refs(page) if "#L" in command)
    assert board.call("deref_pointer", pointer=ref).excerpt.startswith(f"line {first.count(chr(10)) + 1}\n")
    board.space.put_again(tuple_id, authority=PERSON)
    board.call("cancel_tuple", id=board.call("tuple_observe", id=tuple_id).put_again_as)


def offered_refs(page: Page) -> list[str]:
    """Return the commands and refs with which a receipt says its output can be read."""
    return [code.strip("'") for code in page.locator("#drawer p.soft code").all_text_contents()]


@pytest.mark.parametrize(("first_text", "lines"), [("", []), ("before\n", ["L2"])])
def test_a_very_long_line_is_shown_from_both_ends(
    visit: Visit, board: Board, first_text: str, lines: list[str]
) -> None:  # YT-08
    tuple_id = board.put(step("agent.tell.much", count=40_000, says=first_text))
    board.pool().run(until_empty=True)
    page = visit.open("/page/work")
    page.locator(f"#ended-{tuple_id[7:]}").locator("a", has_text="agent.tell.much").click()
    expect(page.locator("#drawer .code.plain pre")).to_have_count(2)
    first, last = page.locator("#drawer .code.plain pre").all_text_contents()
    assert first.startswith(first_text or "[0, 1, 2, ")
    assert last.endswith(", 39998, 39999]\n")
    refs = [command for command in offered_refs(page) if "#L" in command]
    assert [ref.partition("#")[2] for ref in refs] == lines, "lines are offered only if there are several"
    for ref in refs:
        assert board.call("deref_pointer", pointer=ref).excerpt.startswith("[0, 1, 2, ")


def test_the_panel_shows_all_runs_until_one_is_chosen(visit: Visit, board: Board) -> None:
    dead = board.put(step("agent.fail.always"), priority=99)
    board.pool().run(until_empty=True)
    page = visit.open("/page/work")
    done = tile(page, "done").text_content()
    board.call("open_run", goal="Another goal")
    page = visit.open("/page/work")
    chosen = page.locator(".work header [aria-current]")
    expect(chosen).to_have_text("all runs")
    expect(tile(page, "done")).to_have_text(done or "")
    expect(page.locator(f"#dead-{dead[7:]}")).to_be_visible()
    page.click(".work header >> text=this run")
    expect(chosen).to_have_text("this run")
    expect(tile(page, "done")).to_have_text("0")
    expect(page.locator(".work .tuples")).to_have_count(0)
    expect(page.locator(".work .empty h3")).to_have_text("No work in this run yet")
    expect(page.locator(".work h3", has_text="Lanes")).to_have_text("Lanes of all runs")
    expect(page.locator(".lanes tbody tr", has_text="later <script>")).to_be_visible()
    page.click(".work header >> text=all runs")
    expect(page.locator(f"#dead-{dead[7:]}")).to_be_visible()
    page.goto(f"{visit.base}/page/work?run={board.run}")
    expect(page.locator(f"#dead-{dead[7:]}")).to_be_visible()
    board.space.put_again(dead, authority=PERSON)
    board.call("cancel_tuple", id=board.call("tuple_observe", id=dead).put_again_as)


LONG = "agent." + ".".join("x" * 25 for _ in range(4))
BUDGETS = {"budget_usd": 2_000_000, "budget_tokens": 5_000_000_000}


@pytest.mark.parametrize("width", [1280, 960, 390])
def test_long_names_fit_into_every_width(visit: Visit, board: Board, width: int) -> None:  # YT-15
    tuple_id = board.put(step(LONG), step("agent.sum.numbers", a=1, b=2), lane="l" * 128, agent_terms=BUDGETS)
    done = board.put(step("agent.sum.numbers", a=1, b=2), agent_terms=BUDGETS)
    board.pool().run(until_empty=True)
    with board.space.store.read() as view:
        assert view.find(done) is not None
    (claim,) = board.space.claim({"id": tuple_id}, worker="a-worker-with-a-name")
    try:
        page = visit.open("/page/work")
        page.set_viewport_size({"width": width, "height": 900})
        for name in (f"running-{tuple_id[7:]}", f"ended-{done[7:]}"):
            for cell in page.locator(f"[id='{name}'] > *, [id='{name}'] .meter small").all():
                box = cell.bounding_box()
                assert box is not None
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= width
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    finally:
        board.space.release([(claim.id, claim.fence)])
        board.call("cancel_tuple", id=tuple_id)


METER_SHARE = "meter => meter.value / meter.max"


@pytest.mark.parametrize(
    ("terms", "meters", "dollars"),
    [
        ({"budget_usd": 1, "budget_tokens": 5}, [("$0.002/$1", False, 0.002), ("11/5 tokens", True, 1.0)], None),
        ({"budget_tokens": 44}, [("11/44 tokens", False, 0.25)], "$0.002"),
        ({"budget_usd": 0, "budget_tokens": 0}, [("$0.002/$0", True, 1.0), ("11/0 tokens", True, 1.0)], None),
        ({}, [], "$0.002"),
    ],
)
def test_every_budget_has_a_meter_and_dollars_are_always_shown(
    visit: Visit, board: Board, terms: dict[str, Any], meters: list[tuple[str, bool, float]], dollars: str | None
) -> None:  # YT-11
    tuple_id = board.space.out({"lane": "paid", "payload": [], "agent_terms": terms}, authority=PERSON, run=board.run)[
        0
    ].id
    (claim,) = board.space.claim({"id": tuple_id}, worker="w")
    board.space.record_cost(claim.id, claim.fence, 0, Price(micros=2_000, tokens=11))
    try:
        cell = visit.open("/page/work").locator(f"[id='running-{tuple_id[7:]}'] .cost")
        shown_meters = [
            (
                meter.inner_text(),
                "full" in (meter.get_attribute("class") or ""),
                meter.locator("meter").evaluate(METER_SHARE),
            )
            for meter in cell.locator(".meter").all()
        ]
        assert shown_meters == meters
        assert cell.inner_text().split("\n")[0] == (dollars or meters[0][0])
    finally:
        board.call("cancel_tuple", id=tuple_id)


def test_a_receipt_says_which_files_were_deleted_for_disk_space(visit: Visit, board: Board) -> None:  # YT-13
    tuple_id = board.put(step("agent.sum.numbers", a=40, b=2), step("agent.leave.report", text="<ok>for a while</ok>"))
    board.pool().run(until_empty=True)
    for body in (b"adding\n42\n", b"<ok>for a while</ok>"):
        gone = BodyPurged(sha=digest(body), size_bytes=len(body), reason="printed")
        board.space.store.commit(lambda view, gone=gone: ([gone], None))  # type: ignore[misc]
        assert board.deps.bodies.remove(gone.sha, untouched_since=time.time()) == gone.size_bytes
    page = visit.open("/page/work")
    row, drawer = page.locator(f"#ended-{tuple_id[7:]}"), page.locator("#drawer")
    row.locator("a", has_text="agent.leave.report").click()
    expect(drawer.locator(".artifacts li")).to_contain_text(re.compile("bytes, deleted 2.* to free disk space"))
    expect(drawer.locator(".artifacts a")).to_have_count(0)
    page.click("#drawer .close")
    row.locator("a", has_text="agent.sum.numbers").click()
    expect(drawer).to_contain_text("BODY_NOT_FOUND The stored body was deleted to free disk space, at 2")
