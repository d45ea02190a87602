"""What is new appears by itself, in every window of a browser, and a page that does not hear says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.http.served import Served, served_project
from tests.page.conftest import Visit

WINDOWS = 8
"""More than the six connections a browser keeps to one server."""


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served_project(tmp_path_factory.mktemp("live")) as bus:
        yield bus


@pytest.fixture
def context(browser: Browser, bus: Served) -> Iterator[BrowserContext]:
    """A browser in which the page was opened once."""
    context = browser.new_context()
    Visit(context, bus).page.close()
    yield context
    context.close()


def window(context: BrowserContext, bus: Served, path: str = "/page/work") -> Page:
    """One more window, which says that it is live."""
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{bus.port}{path}")
    expect(page.locator("#live")).to_have_text("live")
    return page


def put(bus: Served, lane: str) -> None:
    """Put a tuple."""
    assert bus.call("POST", "/tuple", {"lane": lane}).status == 200


def expect_lane(pages: list[Page], lane: str) -> None:
    """Every board shows a lane, without having been asked to."""
    for page in pages:
        expect(page.locator(".lanes tbody tr", has_text=lane)).to_be_visible()


def test_every_window_is_told_however_many_are_open(context: BrowserContext, bus: Served) -> None:
    boards = [window(context, bus) for _ in range(WINDOWS)]
    start = window(context, bus, "/")
    put(bus, "for-all")
    expect_lane(boards, "for-all")
    claim = "Every window shows this."
    assert bus.put(claim).status == 200
    expect(start.locator(".claim", has_text=claim)).to_be_visible()


def test_when_the_window_that_hears_goes_another_does(context: BrowserContext, bus: Served) -> None:
    first, *others = [window(context, bus) for _ in range(3)]
    first.close()
    put(bus, "after-the-first")
    expect_lane(others, "after-the-first")
    others.pop(0).goto("about:blank")
    put(bus, "after-the-second")
    expect_lane(others, "after-the-second")
    late = window(context, bus)
    _hide(others[0], True)
    put(bus, "out-of-sight")
    expect_lane([late], "out-of-sight")
    _hide(others[0], False)
    expect_lane(others, "out-of-sight")
    put(bus, "for-who-comes-late")
    expect_lane([*others, late], "for-who-comes-late")


def _hide(page: Page, hidden: bool) -> None:
    """Have a window believe that it is out of sight, or in view again."""
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", { configurable: true, value: hidden });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def test_a_stream_that_is_refused_is_told_and_tried_again(context: BrowserContext, bus: Served) -> None:
    context.route("**/events", lambda route: route.fulfill(status=503, body="{}"))
    pages = [context.new_page() for _ in range(2)]
    for page in pages:
        page.goto(f"http://127.0.0.1:{bus.port}/page/work")
        expect(page.locator("#live")).to_have_text("not connected")
    put(bus, "said-in-between")
    context.unroute("**/events")
    for page in pages:
        expect(page.locator("#live")).to_have_text("live")
    expect_lane(pages, "said-in-between")
    put(bus, "said-after-that")
    expect_lane(pages, "said-after-that")
