"""Signing in and out, several windows, and moving between views."""  # EB-27

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Route, expect

from tests.http.running_server import RunningServer
from tests.page.conftest import Visit
from tests.page.scene import Scene

MARK_DOCUMENT = "window.isSameDocument = true"
IS_SAME_DOCUMENT = "window.isSameDocument === true"


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser that has never seen the page."""
    context = browser.new_context(viewport={"width": 1280, "height": 700})
    yield context
    context.close()


def base(bus: RunningServer) -> str:
    """Return the address of the server."""
    return f"http://127.0.0.1:{bus.port}"


def test_a_visitor_without_a_session_is_told_what_to_do_and_signs_in_by_hand(
    context: BrowserContext, bus: RunningServer
) -> None:
    page = context.new_page()
    page.goto(base(bus) + "/page/budgets")
    sign_in = page.locator("#sign-in")
    expect(sign_in.locator("h2")).to_have_text("Open this page with a link from the terminal")
    expect(sign_in.locator("pre")).to_have_text("engrambus up")
    expect(page).to_have_title("Engram Bus")
    page.get_by_label("Or paste the part").fill("wrong")
    page.get_by_role("button", name="Open").click()
    expect(sign_in.locator("h2")).to_have_text("This link was already used or has expired")
    page.get_by_label("Or paste the part").fill(f" {bus.codes.new()} ")
    page.get_by_role("button", name="Open").click()
    expect(page.locator("#panel-budgets")).to_be_visible()
    expect(sign_in).to_be_hidden()
    assert page.url == base(bus) + "/page/budgets"


def test_a_second_window_and_a_reload_need_no_new_link(visit: Visit, scene: Scene) -> None:
    visit.page.reload()
    expect(visit.page.locator("#panel-feed")).to_be_visible()
    second = visit.page.context.new_page()
    second.goto(f"{visit.base}/page/brief?for=programmer")
    expect(second.locator("#panel-brief")).to_be_visible()
    with visit.page.context.expect_page() as opened:
        second.get_by_role("link", name="Budgets").click(modifiers=["ControlOrMeta"])
    expect(opened.value.locator("#panel-budgets")).to_be_visible()
    expect(second.locator("#panel-brief")).to_be_visible()


def test_signing_in_in_one_window_opens_the_others(context: BrowserContext, bus: RunningServer) -> None:
    waiting = context.new_page()
    waiting.goto(base(bus) + "/page/work")
    expect(waiting.locator("#sign-in")).to_be_visible()
    Visit(context, bus)
    expect(waiting.locator("#panel-work")).to_be_visible()
    expect(waiting.locator("#sign-in")).to_be_hidden()


def test_a_new_link_in_an_open_window_replaces_its_session(visit: Visit, bus: RunningServer) -> None:
    expect(visit.page.locator("#live")).to_have_text("live")
    before = {row["id"] for row in bus.call("GET", "/session").json["sessions"]}
    visit.page.goto(f"{visit.base}/#code={bus.codes.new()}")  # only the fragment changes: the document stays
    visit.page.wait_for_url(f"{visit.base}/")
    visit.page.click("nav >> text=Budgets")
    expect(visit.page.locator("#panel-budgets")).to_be_visible()
    after = {row["id"] for row in bus.call("GET", "/session").json["sessions"]}
    assert len(after - before) == len(before - after) == 1


def test_a_used_link_is_good_enough_for_a_browser_with_a_session(visit: Visit, bus: RunningServer) -> None:
    code = bus.codes.new()
    bus.codes.use(code)
    visit.page.goto("about:blank")
    visit.page.goto(f"{visit.base}/page/budgets#code={code}")
    expect(visit.page.locator("#panel-budgets")).to_be_visible()
    assert visit.page.url == f"{visit.base}/page/budgets"
    visit.console_errors.clear()  # the browser logs the status of the refusal


def test_a_session_that_was_ended_elsewhere_is_told(visit: Visit, bus: RunningServer) -> None:
    expect(visit.page.locator("#live")).to_have_text("live")
    bus.call("POST", "/session/end", {"all": True})
    expect(visit.page.locator("#sign-in h2")).to_have_text("Your session has ended")
    assert visit.page.locator("#view > *").count() == 0, "nothing of the project is left in the window"
    visit.page.goto(f"{visit.base}/page/budgets#code={bus.codes.new()}")
    expect(visit.page.locator("#panel-budgets")).to_be_visible()
    visit.console_errors.clear()  # the browser logs the status of the refusal


def test_back_after_signing_out_shows_nothing(visit: Visit) -> None:
    page = visit.page
    page.click("nav >> text=Budgets")
    expect(page.locator("#panel-budgets")).to_be_visible()
    page.click("#sign-out")
    expect(page.locator("#sign-in h2")).to_have_text("You are signed out")
    page.go_back()
    expect(page.locator("#sign-in")).to_be_visible()
    assert page.locator("#view > *").count() == 0
    page.goto("about:blank")
    page.go_back()
    expect(page.locator("#sign-in")).to_be_visible()
    visit.console_errors.clear()


def test_views_change_in_place_and_back_returns_to_where_one_was(visit: Visit) -> None:
    page = visit.open("/")
    page.evaluate(MARK_DOCUMENT)
    page.evaluate("window.scrollTo(0, 900)")
    page.get_by_role("link", name="Budgets", exact=True).first.click()
    expect(page.locator("#panel-budgets")).to_be_visible()
    expect(page.locator("#panel-feed")).to_have_count(0)
    expect(page.locator("nav [aria-current]")).to_have_text("Budgets")
    assert page.evaluate("window.scrollY") == 0
    page.go_back()
    expect(page.locator("#panel-feed")).to_be_visible()
    page.wait_for_function("() => window.scrollY === 900")
    page.go_forward()
    expect(page.locator("#panel-budgets")).to_be_visible()
    expect(page.locator("#live")).to_have_text("live")
    assert page.evaluate(IS_SAME_DOCUMENT)


def test_a_reload_keeps_the_place(visit: Visit) -> None:
    page = visit.open("/")
    page.evaluate("window.scrollTo(0, 700)")
    page.wait_for_function("() => history.state.scrollY === 700")
    page.reload()
    page.wait_for_function("() => window.scrollY === 700")


def test_events_reach_a_view_that_was_opened_in_place(visit: Visit, scene: Scene) -> None:
    page = visit.open("/page/budgets")
    expect(page.locator("#live")).to_have_text("live")
    page.get_by_role("link", name="Now").click()
    expect(page.locator("#panel-feed")).to_be_visible()
    claim = "A view opened in place is live too."
    scene.call("put_engram", "kai", claim=claim, kind="fact", at=["src/engrambus/core/ids.py:1-4"])
    expect(page.locator(".row .claim").first).to_have_text(claim)


def _answer_with_a_fault(route: Route) -> None:
    route.fulfill(status=500, body='{"code": "INTERNAL"}', content_type="application/problem+json")


@pytest.mark.parametrize("fail", [Route.abort, _answer_with_a_fault])
def test_a_fault_of_the_server_is_told_and_can_be_tried_again(visit: Visit, fail: Callable[[Route], None]) -> None:
    page, context = visit.page, visit.page.context
    context.route("**/page/budgets", lambda route: fail(route))
    page.click("nav >> text=Budgets")
    expect(page.locator("#failed h2")).to_have_text("The server does not answer")
    context.unroute("**/page/budgets")
    page.click("#retry")
    expect(page.locator("#panel-budgets")).to_be_visible()
    expect(page.locator("#failed")).to_be_hidden()
    visit.console_errors.clear()  # the browser logs what failed


def test_an_address_that_shows_nothing_says_so_in_the_window(visit: Visit) -> None:
    page = visit.open("/page/nowhere")
    expect(page.locator("#view h1")).to_have_text("There is nothing at this address.")
    page.get_by_role("link", name="Go to the start page").click()
    expect(page.locator("#panel-feed")).to_be_visible()
    visit.console_errors.clear()  # the browser logs the status
