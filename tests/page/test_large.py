"""The page with ten thousand engrams, and with none."""  # EB-27

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.http.running_server import RunningServer, run_new_project
from tests.page.conftest import Visit
from tests.projects import commit_files

MANY = 10_000


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Run a server for an empty project."""
    with run_new_project(tmp_path_factory.mktemp("large")) as bus:
        yield bus


def test_an_empty_page_says_what_to_do_first(visit: Visit) -> None:
    page = visit.open("/")
    expect(page.locator("#panel-feed .empty pre").first).to_have_text("engrambus demo")
    expect(page.locator("#panel-feed .empty pre").nth(1)).to_contain_text("engrambus put")
    expect(page.locator("#panel-feed .empty pre").nth(2)).to_contain_text("engrambus install claude-code")
    expect(page.locator("#panel-feed .empty pre").nth(2)).to_contain_text("engrambus agent add")
    expect(visit.open("/page/requests").locator(".empty")).to_contain_text("engrambus grant ask")
    expect(visit.open("/page/budgets").locator(".empty")).to_contain_text("engrambus agent add")
    expect(visit.open("/page/brief").locator(".note").last).to_contain_text("Nothing is known yet")
    expect(visit.open("/page/figures").locator(".plots p")).to_have_text(["Nothing happened in this period."] * 5)


def test_ten_thousand_engrams_can_be_paged_and_filtered(visit: Visit, bus: RunningServer) -> None:
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


def test_long_words_fit_into_every_width(visit: Visit, bus: RunningServer) -> None:
    assert bus.call("POST", "/run", {"goal": "G" * 190}).status == 200
    lead = bus.call("POST", "/agent", {"name": "a" * 40, "role": "architect"}).json["token"]
    coder = bus.call("POST", "/agent", {"name": "b" * 60}, token=lead).json["token"]
    ref = f"repo:src/parser.py#L10-L12@{bus.repository.sha}"
    name = f"src/{'z' * 150}.py"
    long_pointer = {"type": "repo", "ref": f"repo:{name}@{commit_files(bus.repository.path, {name: 'pass'})}"}
    for kind in ("risk", "constraint", "fact"):
        draft = {"claim": kind[0] * 480, "kind": kind, "pointers": [{"type": "repo", "ref": ref}, long_pointer]}
        assert bus.call("POST", "/engram", draft).status == 200
    request = {"pointer": ref, "reason": "W" * 200, "max_tokens": 500}
    assert bus.call("POST", "/pointer/request", request, token=coder).status == 200
    contribution = {"content": "Q" * 300, "evidence": [{"kind": "note", "value": "N" * 200}]}
    assert bus.call("POST", "/contribution", contribution, token=coder).status == 200
    panels = ("requests", "review", "brief", "budgets", "work", "figures")
    for width in (320, 768, 960, 1024, 1440):
        visit.page.set_viewport_size({"width": width, "height": 800})
        for path in ("/", *(f"/page/{name}" for name in panels)):
            page = visit.open(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (width, path)


def test_on_a_phone_a_button_offers_new_engrams(visit: Visit, bus: RunningServer) -> None:
    visit.page.set_viewport_size({"width": 390, "height": 844})
    page = visit.open("/?scope=project")
    expect(page.locator("#live.on")).to_be_visible()
    page.mouse.wheel(0, 900)
    page.wait_for_function("() => window.scrollY > 160")
    assert bus.put("A new claim while the page is scrolled.").status == 200
    expect(page.locator("#news")).to_be_visible()
    box = page.locator("#news").bounding_box()
    assert box is not None
    middle = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
    assert page.evaluate("([x, y]) => document.elementFromPoint(x, y)?.id", middle) == "news", "nothing covers it"
    page.locator("#news").click()
    expect(page.locator(".row").first).to_contain_text("A new claim while the page is scrolled.")
