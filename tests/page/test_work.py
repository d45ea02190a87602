"""The work board in a real browser: lanes, what runs, what has ended, receipts, live and without scripts."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from stigmergy.app import open_workshop
from stigmergy.operations import LOCAL_ADMIN, OPERATIONS, Gateway, to_request
from stigmergy.settings import Settings
from stigmergy.space.tuples import TupleSpace, read_pattern
from stigmergy.space.work import LaneWorkerPool, ProcessRunner, Workshop
from stigmergy.testing.work import PERSON
from tests.http.served import Served, serving
from tests.page.conftest import Visit
from tests.projects import make_gateway, make_repository
from tests.space.shop import DECLARED, MODULE, OWN, step


class Board:
    """A project with work in it."""

    def __init__(self, folder: Path) -> None:
        self.repository = make_repository(folder / "repo")
        settings = Settings.from_environment({"HOME": str(folder / "home"), "PATH": os.environ["PATH"]})
        self.gateway: Gateway = make_gateway(self.repository.path, settings)
        shop = open_workshop(self.gateway, settings)
        runner = ProcessRunner(shop.bodies, self.gateway.workplace.kept("scratch"), shop.clock, [MODULE])
        self.shop: Workshop = msgspec.structs.replace(shop, registry=OWN, catalog=lambda: DECLARED, runner=runner)
        # The project's file declares none of the tests' yools: what is put here is put past it.
        self.space = TupleSpace(self.shop.space.store, settings=self.shop.space.settings)
        self.run = self.gateway.who(LOCAL_ADMIN).run.run_id

    def put(self, *steps: dict[str, Any], **more: Any) -> str:
        """Put a tuple."""
        draft = {"lane": "build", "payload": list(steps), "agent_terms": {"max_retries": 0}, **more}
        return self.space.out(draft, authority=PERSON, run=self.run)[0].id

    def pool(self) -> LaneWorkerPool:
        """A worker."""
        return LaneWorkerPool(self.shop, read_pattern({"lane": "build"}), concurrency=2)

    def ask(self, operation: str, **fields: Any) -> Any:
        """An operation's answer, for the admin."""
        declared = OPERATIONS[operation]
        return self.gateway.call(declared, to_request(fields, declared.request), LOCAL_ADMIN)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    board = Board(tmp_path_factory.mktemp("board"))
    board.put(step("agent.sum.numbers", a=1, b=2), step("agent.leave.report", text="<b>all good</b>"))
    board.pool().run(until_empty=True)
    board.put(step("agent.sum.numbers", a=1, b=2))
    board.put(step("agent.spend.money", usd=0.002, times=1), agent_terms={"budget_usd": 0.01, "max_retries": 0})
    board.put(step("agent.lint.nothing"))
    board.pool().run(until_empty=True)
    board.put(step("agent.sum.numbers", a=5, b=6), lane="later <script>")
    yield board
    board.shop.runner.close()
    board.gateway.close()


@pytest.fixture(scope="module")
def bus(board: Board) -> Iterator[Served]:
    with serving(board.gateway, board.repository) as bus:
        yield bus


def tile(page: Page, name: str) -> Any:
    """A figure at the top of the board."""
    return page.locator(".work .tiles div", has=page.locator("dt", has_text=name)).locator("dd")


def test_the_board_shows_lanes_what_ended_what_was_cached_and_what_was_given_up(visit: Visit) -> None:
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
    expect(dead).to_contain_text("YOOL_NOT_FOUND")
    expect(page.locator(".tuples.ended")).not_to_contain_text("agent.lint.nothing")
    paid = page.locator(".tuples.ended tr", has_text="agent.spend.money").locator("meter")
    assert (paid.get_attribute("value"), paid.get_attribute("max")) == ("0.002", "0.01")
    expect(page.locator(".meter", has=page.locator("meter"))).to_have_text("$0.002/$0.01")


def test_a_receipt_opens_beside_it_with_its_output_and_artifacts(visit: Visit) -> None:
    page = visit.open("/page/work")
    first = page.locator(".tuples.ended tr", has_text="agent.leave.report")
    first.locator("a", has_text="agent.sum.numbers").click()
    drawer = page.locator("#drawer")
    expect(drawer.locator("h2")).to_contain_text("agent.sum.numbers.v1")
    expect(drawer.locator("pre")).to_have_text("adding\n3\n")
    page.click("#drawer .close")
    first.locator("a", has_text="agent.leave.report").click()
    drawer.locator(".artifacts a", has_text="junit.xml").click()
    expect(drawer.locator(".code")).to_contain_text("<b>all good</b>")
    page.click("text=← the receipt")
    expect(drawer.locator("h2")).to_contain_text("agent.leave.report.v1")
    page.click("#drawer .close")
    first.locator("th a").click()
    expect(drawer.locator("h2")).to_contain_text("tuple.run")
    expect(drawer.locator(".artifacts li")).to_contain_text(["agent.sum.numbers.v1", "agent.leave.report.v1"])


def test_what_runs_and_ends_appears_by_itself(visit: Visit, board: Board, tmp_path: Path) -> None:
    page = visit.open("/page/work")
    expect(page.locator(".live.on")).to_be_visible()
    started = tmp_path / "started"
    one = board.put(step("agent.wait.long", started=str(started)))
    pool = board.pool()
    thread = threading.Thread(target=pool.run)
    thread.start()
    try:
        row = page.locator(f"#running-{one[7:]}")
        expect(row).to_contain_text("agent.wait.long")
        while not started.exists():
            time.sleep(0.05)
        board.ask("cancel_tuple", id=one)
        expect(page.locator(f"#ended-{one[7:]}")).to_contain_text("cancelled")
        expect(row).to_have_count(0)
    finally:
        pool.stop(at_once=True)
        thread.join()


def test_the_board_works_without_scripts(browser: Browser, bus: Served, visit: Visit) -> None:
    context = browser.new_context(java_script_enabled=False, storage_state=visit.page.context.storage_state())
    page = context.new_page()
    page.goto(f"{visit.base}/page/work")
    page.locator(".tuples.ended tr", has_text="agent.leave.report").locator("a", has_text="sum.numbers").click()
    expect(page.locator("#drawer pre")).to_have_text("adding\n3\n")
    expect(page.locator(".tuples.ended")).to_be_visible()
    context.close()


def test_the_same_board_is_told_over_http_and_by_the_command_line(board: Board) -> None:
    told = board.ask("work_board", limit=2)
    assert len(told.ended) == 2
    assert told.totals.hits == 1
    assert [each.lane for each in told.lanes] == ["later <script>"]


def test_dead_letters_that_were_put_again_keep_no_others_off_the_board(board: Board) -> None:
    for number in range(3):
        board.put(step("agent.lint.nothing", n=number))
    board.pool().run(until_empty=True)
    dead = board.ask("work_board", limit=200).dead
    for one in dead[:-1]:
        again = board.space.put_again(one.id, authority=PERSON)
        board.ask("cancel_tuple", id=again.id)
    assert [one.id for one in board.ask("work_board", limit=1).dead] == [dead[-1].id]
