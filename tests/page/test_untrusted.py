"""Knowledge from elsewhere on the page: marked in the feed, and trusted by a person's click."""  # EB-29

from __future__ import annotations

from playwright.sync_api import expect

from engrambus.gateway.declare import operation
from engrambus.testing.conformance.adoption import ORIGIN, foreign_engram
from tests.page.conftest import Visit
from tests.page.scene import Scene

CLAIM = "Every route must call the collector first."


def test_an_adopted_engram_is_marked_until_a_person_trusts_it(visit: Visit, scene: Scene) -> None:
    pointers = [{"type": "repo", "ref": scene.ref(operation)}]
    engram = foreign_engram(CLAIM, pointers=pointers)
    item = {"fields": engram, "expires_us": 4_000_000_000_000_000, "pinned": True}
    memory = {"key": "fact:routes", "text": "We log every route.", "by": "x/eve"}
    (engram_id,) = scene.call("adopt_knowledge", origin=ORIGIN, engrams=[item], memories=[memory]).engrams
    page = visit.open("/")
    row = page.locator(f"#e-{engram_id}")
    expect(row.get_by_text("untrusted", exact=True)).to_have_attribute(
        "title", f"From {ORIGIN}, by 01K/mallory: no person here has confirmed it"
    )
    expect(page.locator("#panel-review").get_by_text("untrusted", exact=True)).to_be_visible()
    expect(page.locator("#panel-brief").get_by_text(CLAIM)).to_have_count(0)
    row.get_by_text(CLAIM).click()
    drawer = page.locator("#drawer")
    expect(drawer.get_by_text(f"from {ORIGIN}, by 01K/mallory")).to_be_visible()
    expect(drawer.get_by_role("button", name="Pin to every brief", exact=True)).to_have_count(0)
    drawer.get_by_role("button", name="Trust it, and pin it to every brief").click()
    expect(drawer.get_by_role("button", name="Unpin")).to_be_visible()
    expect(drawer.get_by_text("trusted by admin")).to_be_visible()
    expect(row.get_by_text("untrusted", exact=True)).to_have_count(0)
