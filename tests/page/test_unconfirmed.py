"""Claims from prose on the page: marked in the feed, and confirmed by a person's click."""  # BX-10

from __future__ import annotations

from playwright.sync_api import expect

from engrambus.gateway import Credential, to_request
from engrambus.gateway.declare import operation
from engrambus.operations import OPERATIONS
from tests.page.conftest import Visit
from tests.page.scene import Scene

CLAIM = "Every route must call the collector first."


def test_a_claim_from_prose_is_marked_until_a_person_confirms_it(visit: Visit, scene: Scene) -> None:
    scene.call("add_agent", name="coder-1", role="programmer")
    text = f"Every route must call the collector first ({scene.ref(operation)})."
    declared = OPERATIONS["take_answer"]
    stopped = Credential(local_admin=True, speak_as="coder-1")
    (engram_id,) = scene.gateway.call(declared, to_request({"text": text}, declared.request), stopped).unconfirmed
    page = visit.open("/")
    row = page.locator(f"#e-{engram_id}")
    expect(row.get_by_text("unconfirmed", exact=True)).to_be_visible()
    expect(page.locator("#panel-brief").get_by_text(CLAIM)).to_have_count(0)
    row.get_by_text(CLAIM).click()
    drawer = page.locator("#drawer")
    expect(drawer.get_by_text("from the answer of coder-1")).to_be_visible()
    expect(drawer.get_by_role("button", name="Pin to every brief", exact=True)).to_have_count(0)
    drawer.get_by_role("button", name="Confirm it").click()
    expect(drawer.get_by_role("button", name="Pin to every brief", exact=True)).to_be_visible()
    expect(drawer.get_by_text("confirmed by admin")).to_be_visible()
    expect(row.get_by_text("unconfirmed", exact=True)).to_have_count(0)
