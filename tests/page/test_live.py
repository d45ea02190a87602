"""New items appear in every window of a browser, and a page without a connection says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.http.running_server import RunningServer, run_new_project
from tests.page.conftest import Visit

WINDOWS = 8
"""More than the six connections a browser opens to one server."""


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with run_new_project(tmp_path_factory.mktemp("live")) as bus:
        yield bus


@pytest.fixture
def context(browser: Browser, bus: RunningServer) -> Iterator[BrowserContext]:
    """Make a browser context with a session."""
    context = browser.new_context()
    Visit(context, bus).page.close()
    yield context
    context.close()


def open_window(context: BrowserContext, bus: RunningServer, path: str = "/page/work") -> Page:
    """Open another window and wait until it is live."""
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{bus.port}{path}")
    expect(page.locator("#live")).to_have_text("live")
    return page


def put(bus: RunningServer, lane: str) -> None:
    """Put a tuple into a lane."""
    assert bus.call("POST", "/tuple", {"lane": lane}).status == 200


def expect_lane(pages: list[Page], lane: str) -> None:
    """Check that every board shows a lane without being reloaded."""
    for page in pages:
        expect(page.locator(".lanes tbody tr", has_text=lane)).to_be_visible()


def test_every_window_gets_events_when_many_are_open(context: BrowserContext, bus: RunningServer) -> None:
    boards = [open_window(context, bus) for _ in range(WINDOWS)]
    start = open_window(context, bus, "/")
    put(bus, "for-all")
    expect_lane(boards, "for-all")
    claim = "Every window shows this."
    assert bus.put(claim).status == 200
    expect(start.locator("#rows .claim", has_text=claim)).to_be_visible()


def test_when_the_window_with_the_stream_closes_another_takes_over(context: BrowserContext, bus: RunningServer) -> None:
    first, *others = [open_window(context, bus) for _ in range(3)]
    first.close()
    put(bus, "after-the-first")
    expect_lane(others, "after-the-first")
    others.pop(0).goto("about:blank")
    put(bus, "after-the-second")
    expect_lane(others, "after-the-second")
    late = open_window(context, bus)
    _hide(others[0], True)
    put(bus, "while-hidden")
    expect_lane([late], "while-hidden")
    _hide(others[0], False)
    expect_lane(others, "while-hidden")
    put(bus, "for-the-new-window")
    expect_lane([*others, late], "for-the-new-window")


def _hide(page: Page, hidden: bool) -> None:
    """Make a window believe that it is hidden, or visible again."""
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", { configurable: true, value: hidden });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def test_a_refused_stream_is_shown_and_retried(context: BrowserContext, bus: RunningServer) -> None:
    context.route("**/events", lambda route: route.fulfill(status=503, body="{}"))
    pages = [context.new_page() for _ in range(2)]
    for page in pages:
        page.goto(f"http://127.0.0.1:{bus.port}/page/work")
        expect(page.locator("#live")).to_have_text("not connected")
    put(bus, "while-disconnected")
    context.unroute("**/events")
    for page in pages:
        expect(page.locator("#live")).to_have_text("live")
    expect_lane(pages, "while-disconnected")
    put(bus, "after-reconnecting")
    expect_lane(pages, "after-reconnecting")
