"""Contradictions and the nearest pins in the page's review."""  # EB-24 SC-09

from __future__ import annotations

from playwright.sync_api import expect

from tests.page.conftest import Visit
from tests.page.scene import Scene

OLD = "The cooling pump runs for 10 minutes."
NEW = "The cooling pump runs for 45 minutes."


def test_a_person_decides_which_of_two_claims_holds(visit: Visit, scene: Scene) -> None:
    old = scene.call("put_engram", claim=OLD, kind="decision", at=["src/engrambus/errors.py:1-4"])
    page = visit.open("/")
    expect(page.locator("#panel-review")).to_be_hidden()
    new = scene.call("put_engram", "ida", claim=NEW, at=["src/engrambus/app.py:1-4"])
    (row,) = scene.call("list_contradictions").contradictions
    card = page.locator(f"#x-{row.contradiction_id}")
    expect(card.locator(".content")).to_contain_text([NEW, OLD])
    expect(page.locator("#waiting-review")).to_have_text("1")
    card.locator("[name=keep]").select_option("new")
    card.locator("[name=reason]").fill("The pump was exchanged.")
    card.locator("text=Decide").click()
    expect(page.locator("#panel-review .notice")).to_contain_text("the new claim holds")
    expect(card).to_have_count(0)
    assert scene.call("show_engram", id=old.id).about[old.id].replaced_by == new.id


def test_a_reviewer_sees_the_nearest_pins(visit: Visit, scene: Scene) -> None:
    pin = scene.call("put_engram", claim="The wash pump starts at dawn.", at=["src/engrambus/errors.py:1-4"])
    scene.call("pin_engram", id=pin.id)
    sent = scene.call("contribute", "ida", content="At dawn the wash pump makes a noise.").contribution_id
    page = visit.open("/page/review")
    expect(page.locator(f"#c-{sent} .near")).to_contain_text("The wash pump starts at dawn.")
    scene.call("reject_contribution", id=sent, reason="Done.")
    scene.call("unpin_engram", id=pin.id)
