"""What an engram is based on and what used it, in the drawer."""  # EB-35

from __future__ import annotations

from playwright.sync_api import expect

from engrambus.core import short_id
from engrambus.gateway.declare import operation
from tests.page.conftest import Visit
from tests.page.scene import Scene


def test_the_drawer_leads_from_a_decision_to_what_it_used_and_back(visit: Visit, scene: Scene) -> None:
    pointers = [{"type": "repo", "ref": scene.ref(operation)}]
    fact = scene.call("put_engram", "lead", claim="Hidden fields stay out of the list.", pointers=pointers)
    gone = scene.call("put_engram", "lead", claim="The list will be dropped.", pointers=pointers)
    decision = scene.call(
        *("put_engram", "lead"), claim="New fields are hidden first.", kind="decision", pointers=pointers,
        used=[fact.id, gone.id],
    )  # fmt: skip
    for number in range(6):
        claim = f"Rule {number} follows from it."
        scene.call("put_engram", "lead", claim=claim, kind="decision", pointers=pointers, used=[fact.id])
    scene.call("forget_engram", id=gone.id)
    page = visit.open(f"/?engram={decision.id}")
    drawer = page.locator("#drawer")
    used = drawer.get_by_role("list", name="Based on").get_by_role("listitem")
    expect(used).to_have_count(2)
    expect(used.nth(1)).to_have_text(f"{short_id(gone.id)} expired or removed")
    box = used.nth(0).get_by_role("link").bounding_box()
    assert box is not None
    assert box["height"] >= 24
    used.nth(0).get_by_role("link").click()
    expect(drawer.locator("h2")).to_contain_text("Hidden fields stay out of the list.")
    uses = drawer.get_by_role("list", name="Used by 7").get_by_role("listitem")
    expect(uses).to_have_count(6)
    expect(uses.last).to_have_text("and 2 more")
    uses.first.get_by_role("link").click()
    expect(drawer.locator("h2")).to_contain_text("Rule 5 follows from it.")
    page.go_back()
    expect(drawer.locator("h2")).to_contain_text("Hidden fields stay out of the list.")
