"""People write to agents and read what agents wrote, on the page."""  # EB-35, EB-27

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from engrambus.gateway.declare import operation
from tests.page.conftest import Visit
from tests.page.scene import GOAL, Scene

REPORT = "ROLE: architect\nTASK_STATUS: blocked\nOUTPUT: {summary: %s, next: Wait for the grant.}\n"


def mail_of(scene: Scene, agent: str) -> list[str]:
    """Return the texts that wait for an agent, and count them as seen."""
    return [row.text for row in scene.call("inbox", agent, unseen=True, k=100).mail]


@pytest.fixture
def messages(visit: Visit, scene: Scene) -> Page:
    """Open the panel with everything read."""
    for agent in ("lead", "nora", "emil", "ida", "kai"):
        mail_of(scene, agent)
    page = visit.open("/page/messages")
    expect(page.locator("#live")).to_have_text("live")
    return page


def test_a_person_writes_to_one_agent(messages: Page, scene: Scene) -> None:
    messages.get_by_label("To", exact=True).select_option("kai")
    messages.get_by_label("Message", exact=True).fill("Look at the stall timer first, please.")
    messages.get_by_role("button", name="Send").first.click()
    expect(messages.get_by_role("status").last).to_contain_text("Sent to kai")
    expect(messages.get_by_label("Message", exact=True)).to_have_value("")
    assert mail_of(scene, "kai") == ["Look at the stall timer first, please."]
    assert mail_of(scene, "ida") == []


def test_a_person_writes_to_a_role_and_to_everyone(messages: Page, scene: Scene) -> None:
    for target, answer in (("role:programmer", r"Sent to \d agents"), ("everyone", "Sent to 8 agents")):
        messages.get_by_label("To", exact=True).select_option(target)
        messages.get_by_label("Message", exact=True).fill(f"This is for {target.removeprefix('role:')}.")
        messages.get_by_role("button", name="Send").first.click()
        expect(messages.get_by_role("status").last).to_have_text(re.compile(answer))
    assert mail_of(scene, "kai") == ["This is for programmer.", "This is for everyone."]
    assert mail_of(scene, "lead") == ["This is for everyone."]


def test_a_refused_message_says_why_and_loses_nothing(messages: Page, visit: Visit, scene: Scene) -> None:
    long = "It went on and said very little of use to its readers. " * 80
    messages.get_by_label("To", exact=True).select_option("ida")
    messages.get_by_label("Message", exact=True).fill(long)
    messages.get_by_role("button", name="Send").first.click()
    expect(messages.locator("#panel-messages").get_by_role("alert")).to_contain_text("BUDGET_EXCEEDED")
    expect(messages.get_by_label("Message", exact=True)).to_have_value(long)
    expect(messages.get_by_label("To", exact=True)).to_have_value("ida")
    assert mail_of(scene, "ida") == []
    visit.console_errors.clear()  # the browser logs the status of the refusal


def test_what_agents_send_to_people_arrives_and_is_answered(messages: Page, scene: Scene, visit: Visit) -> None:
    pointers = [{"type": "repo", "ref": scene.ref(operation)}]
    fact = scene.call("put_engram", "lead", claim="Mail is shown to people.", pointers=pointers)
    page = visit.open("/")
    expect(page.locator("#live")).to_have_text("live")
    scene.call("send_message", "lead", text=REPORT % "The gateway waits.", used=[fact.id])
    rail = page.locator("#panel-messages")
    expect(rail).to_contain_text("The gateway waits.")
    expect(page.locator("#waiting-messages")).to_have_text("1")
    expect(page).to_have_title(re.compile(r"^\(\d+\) .*Engram Bus$"))
    rail.get_by_role("link", name="Messages").click()
    mail = page.locator(".mail").first
    expect(mail).to_contain_text("lead reports blocked new")
    expect(mail).to_contain_text("Next: Wait for the grant.")
    expect(page.locator("#waiting-messages")).to_have_count(0)
    mail.get_by_role("link", name=fact.id[:13]).click()
    expect(page.locator("#drawer h2")).to_contain_text("Mail is shown to people.")
    page.keyboard.press("Escape")
    mail.get_by_text("The whole message").click()
    expect(mail.locator("pre")).to_contain_text("TASK_STATUS: blocked")
    mail.get_by_text("Reply", exact=True).click()
    mail.get_by_label("Reply to lead").fill("It is granted.")
    mail.get_by_role("button", name="Send").click()
    expect(page.get_by_role("status").last).to_contain_text("Sent to lead")
    assert mail_of(scene, "lead") == ["It is granted."]
    page.reload()
    expect(page.locator(".mail .new")).to_have_count(0)


def test_a_message_that_is_being_written_is_not_replaced(messages: Page, scene: Scene) -> None:
    messages.get_by_label("Message", exact=True).fill("I am still writing")
    messages.locator("h2").first.click()
    scene.call("send_message", "lead", text=REPORT % "Something new.")
    messages.wait_for_timeout(1500)
    expect(messages.get_by_label("Message", exact=True)).to_have_value("I am still writing")
    messages.get_by_label("Message", exact=True).fill("")
    scene.call("send_message", "lead", text=REPORT % "Something newer.")
    messages.locator("h2").first.click()
    expect(messages.locator(".mail").first).to_contain_text("Something newer.")


def test_messages_are_written_by_keyboard(messages: Page, scene: Scene) -> None:
    messages.get_by_label("To", exact=True).select_option("emil")
    messages.get_by_label("Message", exact=True).focus()
    messages.keyboard.type("Written without a mouse.")
    messages.keyboard.press("Tab")
    messages.keyboard.press("Enter")
    expect(messages.get_by_role("status").last).to_contain_text("Sent to emil")
    assert "Written without a mouse." in mail_of(scene, "emil")


def test_every_target_is_large_enough_and_labelled_on_a_phone(messages: Page, visit: Visit) -> None:
    for width in (390, 1280):
        messages.set_viewport_size({"width": width, "height": 844})
        targets = messages.locator("#panel-messages").locator(
            "button:visible, select:visible, summary:visible, .links a"
        )
        for index in range(targets.count()):
            box = targets.nth(index).bounding_box()
            assert box is not None
            assert min(box["width"], box["height"]) >= 24, targets.nth(index).inner_text()
        assert messages.evaluate("document.documentElement.scrollWidth") <= width
    expect(messages).to_have_title(re.compile(re.escape(GOAL)))
