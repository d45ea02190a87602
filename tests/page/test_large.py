"""Ten thousand engrams, and none."""  # EB-27

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.http.served import Served, served_project
from tests.page.conftest import Visit

MANY = 10_000


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A project with nothing in it."""
    with served_project(tmp_path_factory.mktemp("large")) as bus:
        yield bus


def test_an_empty_page_says_what_to_do_next(visit: Visit) -> None:
    page = visit.open("/")
    expect(page.locator("#panel-feed .empty pre").first).to_have_text("stig demo")
    expect(page.locator("#panel-feed .empty pre").nth(1)).to_contain_text("stig put")
    expect(page.locator("#panel-feed .empty pre").nth(2)).to_contain_text("stig install claude-code")
    expect(page.locator("#panel-feed .empty pre").nth(2)).to_contain_text("stig agent add")
    expect(visit.open("/page/requests").locator(".empty")).to_contain_text("stig grant ask")
    expect(visit.open("/page/budgets").locator(".empty")).to_contain_text("stig agent add")
    expect(visit.open("/page/brief").locator(".goal").last).to_contain_text("Nothing is known yet")
    expect(visit.open("/page/figures").locator(".plots p")).to_have_text(["Nothing in this time."] * 4)


def test_ten_thousand_engrams_are_paged_searched_and_followed(visit: Visit, bus: Served) -> None:
    ref = f"repo:src/parser.py#L10-L12@{bus.repository.sha}"
    for start in range(0, MANY, 500):
        drafts = [
            {"claim": f"Claim c{number}c of many.", "pointers": [{"type": "repo", "ref": ref}]}
            for number in range(start, start + 500)
        ]
        put = bus.call("POST", "/engrams", {"engrams": drafts})
        assert put.status == 200, put.body
    page = visit.open("/")
    expect(page.locator(".row")).to_have_count(50)
    assert len(page.content()) < 150_000
    page.fill("#words", "c17c")
    expect(page.locator(".row")).to_have_count(1)
    expect(page.locator(".row")).to_contain_text("Claim c17c of many.")
    page.locator(".row .chip").click()
    expect(page.locator(".line").first).to_have_attribute("data-n", "10")
    page = visit.open("/")
    for pages in range(2, 5):
        page.click("#feed-more a")
        expect(page.locator(".row")).to_have_count(50 * pages)
    last = page.locator(".row").last.inner_text()
    assert f"Claim c{MANY - 200}c of many." in last
