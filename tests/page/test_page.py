"""The page in a real browser: every panel, live, by keyboard, on a phone and without scripts."""  # EB-27

from __future__ import annotations

import re
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from engrambus.gateway.declare import operation
from engrambus.policy.accounts import check_tokens
from tests.http.running_server import RunningServer
from tests.page.conftest import Visit
from tests.page.scene import GOAL, Scene, path_of


def expect_in_drawer(page: Page, text: str) -> None:
    """Check that the drawer contains a text."""
    expect(page.locator("#drawer")).to_contain_text(text)


def test_a_link_opens_the_page_once(browser: Browser, bus: RunningServer) -> None:
    link = f"http://127.0.0.1:{bus.port}/#code={bus.codes.new()}"
    context = browser.new_context()
    page = context.new_page()
    page.goto(link)
    expect(page.locator("#panel-feed")).to_be_visible()
    assert page.url == f"http://127.0.0.1:{bus.port}/"
    assert context.cookies() == []
    second = browser.new_context().new_page()
    second.goto(link)
    expect(second.locator("#sign-in h2")).to_have_text("This link was already used or has expired")
    expect(second.locator("#sign-in pre")).to_have_text("engrambus up")
    second.context.close()
    context.close()


def test_a_link_may_open_any_view(browser: Browser, bus: RunningServer) -> None:
    """`engrambus demo` prints a link to its own run."""
    context = browser.new_context()
    page = context.new_page()
    address = f"http://127.0.0.1:{bus.port}/page/budgets?run={bus.run}"
    page.goto(f"{address}#code={bus.codes.new()}")
    expect(page.locator("#panel-budgets")).to_be_visible()
    assert page.url == address
    context.close()


def test_a_page_without_a_run_moves_to_a_new_run_and_stays_when_it_ends(visit: Visit, bus: RunningServer) -> None:
    page = visit.open("/")
    expect(page.locator("#live")).to_have_text("live")
    expect(page.locator(".runs summary")).to_contain_text(GOAL)
    run = str(bus.call("POST", "/run", {"goal": "A side task"}).json["run_id"])
    expect(page.locator(".runs summary")).to_have_text("A side task")
    expect(page).to_have_title("(2) A side task · Engram Bus")
    expect(page.locator("#panel-budgets .empty")).to_contain_text("No agents in this run yet")
    bus.put("The side task is soon over.", at=["README.md:1"], scope="run", token=bus.sign(run=run))
    expect(page.locator(".row .claim").first).to_have_text("The side task is soon over.")
    assert bus.call("POST", f"/run/{run}/end", {}).status == 200
    expect(page.locator(".runs summary")).to_have_text("A side task ended")
    assert page.url.endswith(f"/?run={run}")
    expect(page.locator(".row .claim").first).to_have_text("The side task is soon over.")
    page.click("nav >> text=Budgets")
    expect(page.locator(".runs summary")).to_have_text("A side task ended")
    visit.open("/")
    expect(page.locator(".runs summary")).to_have_text("A side task ended")
    bus.put("The main task goes on.", at=["README.md:1"], scope="run")
    expect(page.locator(".runs summary")).to_contain_text(GOAL)


def test_the_feed_shows_one_line_per_engram_and_filters_by_address(visit: Visit) -> None:
    page = visit.open("/")
    row = page.locator(".row", has_text="A refused call changes nothing")
    expect(row.locator(".kind")).to_have_text("constraint")
    expect(row.locator(".agent")).to_have_text("lead")
    expect(row.locator(".chip .name")).to_have_text(re.compile(r"\.py$"))
    expect(row.locator("time")).to_have_attribute("datetime", re.compile("20..-"))
    page.select_option("select[name=kind]", "risk")
    page.wait_for_url("**/?*kind=risk*")
    expect(page.locator(".row:not([data-kind=risk])")).to_have_count(0)
    page.fill("#words", "laptop")
    expect(page.locator(".row")).to_have_count(1)
    page.wait_for_url("**q=laptop*")
    page.reload()
    expect(page.locator(".row")).to_have_count(1)
    assert page.input_value("#words") == "laptop"
    page.click(".clear")
    expect(page.locator(".row")).to_have_count(50)
    page.select_option("select[name=role]", "architect")
    expect(page.locator(".row .agent").first).to_have_text("lead")
    page.go_back()
    expect(page.locator(".row")).to_have_count(50)


def test_older_engrams_are_loaded_below(visit: Visit) -> None:
    page = visit.open("/")
    page.click("#feed-more a")
    expect(page.locator(".row")).to_have_count(100)
    page.click("#feed-more a")
    expect(page.locator("#feed-more")).to_have_count(0)
    ids = page.eval_on_selector_all(".row", "rows => rows.map((row) => row.id)")
    assert len(set(ids)) == len(ids) >= 120


def test_an_engram_with_changed_lines_is_red(visit: Visit) -> None:
    page = visit.open("/?stale=1")
    row = page.locator(".row", has_text="Every spend is checked")
    red = page.locator(".row .mark.stale").first.evaluate("mark => getComputedStyle(mark).color")
    assert row.locator(".claim").evaluate("claim => getComputedStyle(claim).color") == red
    row.locator(".chip").click()
    expect_in_drawer(page, "changed since")
    page.click("text=These lines now")
    expect_in_drawer(page, "Report every limit")  # the lines of it that survive


def test_a_pointer_opens_its_lines_in_the_drawer(visit: Visit, scene: Scene) -> None:
    page = visit.open("/")
    page.locator(".row", has_text="An operation is declared once").locator(".chip").click()
    expect_in_drawer(page, "def operation(")
    ref = scene.ref(operation)
    assert "pointer=" + quote(ref, safe="") in page.url
    first = re.search(r"#L(\d+)", ref)
    assert first
    expect(page.locator(".line").first).to_have_attribute("data-n", first[1])
    expect(page.locator(".code .k").first).to_have_text("def")
    expect(page.locator("#drawer")).to_contain_text("sha256:")
    assert page.get_attribute("text=Open in editor", "href") == (
        f"vscode://file{scene.repository.path}/{path_of(operation)}:{first[1]}"
    )
    forge = page.get_attribute("text=Open on GitHub", "href")
    assert forge
    assert forge.startswith(f"https://github.com/example/engrambus/blob/{scene.repository.sha}/src/")
    shared = page.url
    page.keyboard.press("Escape")
    expect(page.locator("#drawer")).to_be_hidden()
    page.goto(shared)
    expect_in_drawer(page, "def operation(")


def test_an_engram_opens_its_lines_and_back_returns_to_it(visit: Visit) -> None:
    page = visit.open("/")
    row = page.locator(".row", has_text="Two places count a deref")
    expect(row).to_contain_text("not read")
    page.click("text=Two places count a deref")
    expect_in_drawer(page, "confidence")
    expect_in_drawer(page, "not read")
    page.locator("#drawer .pointers .chip").nth(1).click()
    expect_in_drawer(page, "def check_may_read")
    page.click("text=← Back to the engram")
    expect_in_drawer(page, "Two places count a deref")
    expect_in_drawer(page, "admin (pointer 2)")  # looking at lines is reading them
    page.go_back()
    expect_in_drawer(page, "def check_may_read")


def test_new_engrams_appear_without_reloading(visit: Visit, scene: Scene) -> None:
    page = visit.open("/")
    expect(page.locator("#live")).to_have_text("live")
    at = ["src/engrambus/core/ids.py:1-4"]
    scene.call("put_engram", "kai", claim="A live update arrives without a reload.", kind="fact", at=at)
    row = page.locator(".row").first
    expect(row).to_contain_text("A live update arrives")
    expect(row).to_have_class(re.compile("fresh"))
    page.evaluate("window.scrollTo(0, 600)")
    scene.call("put_engram", "kai", claim="A visitor who has scrolled is not disturbed.", kind="fact", at=at)
    expect(page.locator("#news")).to_have_text("1 new engram")
    page.click("#news")
    expect(page.locator(".row").first).to_contain_text("A visitor who has scrolled")
    assert page.evaluate("window.scrollY") == 0


def test_a_request_appears_and_is_approved(visit: Visit, scene: Scene) -> None:
    page = visit.open("/")
    expect(page.locator("#live")).to_have_text("live")
    request_id = scene.call(
        "request_deref", "emil", pointer=f"repo:src/engrambus/core/ids.py@{scene.repository.sha}",
        reason="To see how ids sort.", max_tokens=700,
    ).request_id  # fmt: skip
    request = page.locator(f"#r-{request_id}")
    expect(request).to_contain_text("To see how ids sort.")
    waiting = int(page.inner_text("#waiting-requests"))
    request.locator("[name=cap_tokens]").fill("650")
    request.locator("text=Approve").click()
    expect(page.locator("#panel-requests .notice")).to_have_text("Approved. emil can now read ids.py.")
    expect(request).to_have_count(0)
    expect(page.locator("#waiting-requests")).to_have_text(str(waiting - 1))
    assert any(mail.kind == "grant" and "650 tokens" in mail.text for mail in scene.call("inbox", "emil").mail)


def test_a_request_is_declined(visit: Visit, scene: Scene) -> None:
    request_id = scene.call(
        "request_deref", "emil", pointer=f"repo:src/engrambus/core/ids.py@{scene.repository.sha}", reason="Once more."
    ).request_id
    page = visit.open("/page/requests")
    page.locator(f"#r-{request_id}").locator("text=Decline").click()
    expect(page.locator(f"#r-{request_id}")).to_have_count(0)
    assert request_id not in [row.request_id for row in scene.call("list_requests").requests]


def test_a_promotion_beyond_the_project_is_approved(visit: Visit, scene: Scene) -> None:  # EB-37
    scene.call("apply_policy", policy={"scopes": ["run", "project", "org"]})
    where = {"at": ["src/engrambus/core/ids.py:1-3"], "confidence": 0.9}
    engram = scene.call("put_engram", "emil", claim="Ids sort by the time they were made at.", **where)
    scene.call("promote_engram", "nora", id=engram.id, scope="org")
    (row,) = scene.call("list_promotions").promotions
    page = visit.open("/page/requests")
    request = page.locator(f"#p-{row.request_id}")
    expect(request).to_contain_text("nora asks to promote an engram to org")
    expect(request).to_contain_text("Ids sort by the time they were made at.")
    request.locator("text=Approve").click()
    expect(page.locator("#panel-requests .notice")).to_have_text("Approved. Every project with the scope org sees it.")
    expect(request).to_have_count(0)
    assert [row.status for row in scene.call("list_promotions", all=True).promotions] == ["approved"]
    scene.call("apply_policy", policy={})


def test_a_contribution_appears_and_is_accepted_or_rejected(visit: Visit, scene: Scene) -> None:  # SC-03, SC-05, SC-06
    scene.call("apply_policy", policy={"limits": {"inline_code": "off"}})  # markup in a contribution is code
    scene.call("keep_episode", text="The stall timer is 10 seconds.", kind="decision", slug="stall", pinned=True)
    page = visit.open("/")
    expect(page.locator("#panel-review")).to_be_hidden()
    expect(page.locator("#live")).to_have_text("live")
    key = "AKIA" + "IOSFODNN7EXAMPLQ"
    first = scene.call("contribute", "emil", content="The stall timer is 30 seconds.").contribution_id
    hostile = f"<b>Bold</b> <script>alert(1)</script> with {key}"
    evidence = [
        {"kind": "path", "value": "src/engrambus/errors.py:1-4"},
        {"kind": "note", "value": "Seen <i>twice</i>."},
    ]
    second = scene.call(
        "contribute", "ida", content=hostile, evidence=evidence, proposed_categories=["<u>ops</u>"]
    ).contribution_id
    expect(page.locator("#waiting-review")).to_have_text("2")
    expect(page.locator(f"#c-{first} .conflict")).to_contain_text("Contradicts")
    expect(page.locator(f"#c-{first} .conflict .chip")).to_contain_text("stall")
    expect(page.locator(f"#c-{second} .redacted")).to_contain_text("content: ")
    expect(page.locator(f"#c-{second}")).to_contain_text("<script>alert(1)</script>")
    expect(page.locator(f"#c-{second} .chip")).to_contain_text("errors.py")
    expect(page.locator(f"#c-{second} .reason")).to_have_text(
        [re.compile("path.*errors.py"), "note Seen <i>twice</i>."]
    )
    expect(page.locator(f"#c-{second} .asks")).to_contain_text("<u>ops</u>")
    assert key not in page.content()
    page.locator(f"#c-{first} [name=reason]").fill("It was raised in one region only.")
    page.locator(f"#c-{first}").locator("text=Reject").click()
    expect(page.locator("#panel-review .notice")).to_contain_text("Rejected.")
    expect(page.locator(f"#c-{first}")).to_have_count(0)
    page = visit.open("/page/review")
    page.locator(f"#c-{second} [name=pinned]").check()
    page.locator(f"#c-{second} [name=atomize]").check()
    page.locator(f"#c-{second}").locator("text=Accept").click()
    expect(page.locator("#panel-review .notice")).to_contain_text("The team remembers it as learning:b-bold-b")
    expect(page.locator(f"#c-{second}")).to_have_count(0)
    expect(page.locator("#waiting-review")).to_have_count(0)
    assert scene.call("show_contribution", "emil", id=first).reason == "It was raised in one region only."
    accepted = scene.call("show_contribution", "ida", id=second)
    assert (accepted.status, len(accepted.atoms)) == ("accepted", 1)
    scene.call("apply_policy", policy={})


def test_a_constraint_is_pinned_and_unpinned(visit: Visit, scene: Scene) -> None:
    page = visit.open("/page/brief?for=programmer")
    page.click("text=Pin a constraint")
    page.fill("[name=claim]", "The wire contract does not move before the release.")
    page.fill("[name=where]", "src/engrambus/nowhere.py")
    page.click("text=Pin it")
    expect(page.locator("#panel-brief .notice")).to_contain_text("FILE_NOT_FOUND")
    page.fill("[name=claim]", "The wire contract does not move before the release.")
    page.fill("[name=where]", "src/engrambus/errors.py:1-4")
    page.click("text=Pin it")
    expect(page.locator(".brief-line").first).to_contain_text("The wire contract does not move")
    assert "The wire contract" in scene.call("brief", "lead").lines[1]
    visit.console_errors = [error for error in visit.console_errors if "422" not in error and "404" not in error]
    page = visit.open("/?q=wire+contract")
    page.click(".row .claim")
    page.click("#drawer button:has-text('Unpin')")
    expect(page.locator("#drawer .notice")).to_have_text("No longer pinned.")
    assert "The wire contract" not in scene.call("brief", "lead").lines[1]


def test_versions_of_a_brief_are_compared(visit: Visit, scene: Scene) -> None:
    page = visit.open("/page/brief?for=architect")
    page.select_option("[name=since]", "1")
    page.wait_for_url("**since=1*")
    expect(page.locator(".added").first).to_be_visible()
    expect(page.locator(".removed").first).to_be_visible()
    page.select_option("[name=version]", "1")
    page.wait_for_url("**version=1*")
    expect(page.locator(".version")).to_have_text("version 1")
    first = scene.call("list_briefs", role="architect", version=1).lines
    page = visit.open("/page/brief?for=architect&version=1")
    text = page.locator("#panel-brief > .lines").inner_text()
    assert all(line.partition("] ")[2].rpartition(" (")[0] in text for line in first if line.startswith("["))


def test_a_brief_shows_pins_authors_and_ages_and_is_shown_for_an_agent(visit: Visit, scene: Scene) -> None:  # EB-17
    kept = scene.call(
        "keep_episode", text="Amounts are cents, never floats.", kind="decision", slug="cents", pinned=True
    )
    page = visit.open("/page/brief?for=programmer")
    memory = page.locator(".brief-line", has_text="Amounts are cents, never floats.")
    expect(memory.locator(".mark")).to_have_text("pinned")
    expect(page.locator("#panel-brief h3").first).to_have_text("Pinned")
    expect(page.locator(".brief-line .about bdi").last).to_have_text(re.compile(r"^[a-z-]+$"))
    expect(page.locator(".brief-line .about time").first).to_be_visible()
    page.select_option("[name=for]", "emil")
    page.wait_for_url("**for=emil*")
    shown = scene.call("list_briefs", for_agent="emil").lines
    expect(page.locator(".brief-line")).to_have_count(sum(line.startswith("[") for line in shown))
    page.click(".brief-line a.claim >> nth=0")
    expect(page.locator("#drawer")).to_be_visible()
    scene.call("pin_episode", id=kept.memory_id, unpin=True)


def test_budgets_show_each_agent_and_the_team(visit: Visit, scene: Scene) -> None:
    page = visit.open("/page/budgets")
    team = scene.call("stats").team
    expect(page.locator(".tiles")).to_contain_text(f"{team.inline_tokens:,}")
    rows = {row.agent_id: row for row in scene.call("stats").agents}
    emil = page.locator("tbody tr", has=page.locator("th a", has_text="emil"))
    meters = emil.locator("meter")
    assert meters.nth(0).get_attribute("value") == str(rows["emil"].turn.repo)
    assert meters.nth(0).get_attribute("max") == str(rows["emil"].limits.repo)
    assert meters.nth(2).get_attribute("value") == str(rows["emil"].turn.put_tokens)
    assert meters.nth(2).get_attribute("max") == str(rows["emil"].limits.put_tokens)
    assert meters.nth(3).get_attribute("value") == str(rows["emil"].turn.run_tokens)
    team_budget = scene.call("team_budget")
    meter = page.locator("tfoot meter")
    assert (meter.get_attribute("value"), meter.get_attribute("max")) == (str(team_budget.used), str(team_budget.limit))
    expect(page.locator("tfoot td").nth(3)).to_have_text(f"{team.derefs:,}")
    page.click("tbody th a:has-text('emil')")
    expect(page.locator(".row .agent").first).to_have_text("emil")


def test_figures_are_drawn(visit: Visit) -> None:
    page = visit.open("/page/figures?bucket=PT1M")
    expect(page.locator(".uplot canvas")).to_have_count(5)
    page.click("text=the last two days")
    expect(page.locator(".uplot canvas")).to_have_count(5)
    page.locator("figure").first.locator("summary").click()
    expect(page.locator("figure").first.locator("tbody tr").first).to_be_visible()


def test_the_feed_can_be_used_by_keyboard(visit: Visit) -> None:
    page = visit.open("/")
    expect(page.locator("#live")).to_have_text("live")
    for key in "jjk":
        page.keyboard.press(key)
    expect(page.locator(".row").first).to_have_class(re.compile("chosen"))
    claim = page.locator(".row").first.locator(".claim").inner_text()
    page.keyboard.press("Enter")
    expect_in_drawer(page, claim)
    page.keyboard.press("Escape")
    expect(page.locator("#drawer")).to_be_hidden()
    page.keyboard.press("p")
    expect(page.locator("#drawer .code")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.locator("#words")).to_be_focused()
    page.keyboard.type("jk")
    assert page.input_value("#words") == "jk"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()


def test_closing_the_drawer_returns_the_focus_to_its_link(visit: Visit) -> None:
    page = visit.open("/")
    expect(page.locator("#live")).to_have_text("live")
    chip = page.locator(".row .chip").nth(2)
    chip.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#drawer")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#drawer")).to_be_hidden()
    expect(chip).to_be_focused()


def test_the_choice_of_light_or_dark_is_stored(visit: Visit) -> None:
    page = visit.open("/")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.click("button[value=dark]")
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    assert page.evaluate(background) == dark
    page.emulate_media(color_scheme="dark")
    page.click("button[value=light]")
    assert page.evaluate(background) == light
    page.click("button[value=light]")
    assert page.evaluate(background) == dark


def test_another_run_can_be_chosen(visit: Visit, scene: Scene) -> None:
    first = scene.call("list_runs").runs[-1]
    page = visit.open("/")
    page.click(".runs summary")
    page.click(f".runs li a:has-text('{first.goal}')")
    assert f"run={first.run_id}" in page.url
    expect(page.locator(".runs summary")).to_contain_text(first.goal)
    page.click("nav >> text=Budgets")
    assert f"run={first.run_id}" in page.url
    expect(page.locator(".empty")).to_contain_text("engrambus agent add")


def test_every_panel_fits_on_a_phone(browser: Browser, bus: RunningServer) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True, reduced_motion="reduce"
    )
    visit = Visit(context, bus)
    panels = ("brief", "budgets", "requests", "review", "reserved", "work", "figures")
    for path in ("/", *(f"/page/{name}" for name in panels)):
        page = visit.open(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        expect(page.locator(".bar nav [aria-current]")).to_be_in_viewport(ratio=1)
    page = visit.open("/")
    page.locator(".row .chip").first.tap()
    expect(page.locator("#drawer .code")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("#drawer").bounding_box() == {"x": 0, "y": 0, "width": 390, "height": 844}
    page.locator("#drawer .close").tap()
    expect(page.locator("#drawer")).to_be_hidden()
    assert visit.console_errors == []
    context.close()


def test_without_scripts_the_page_says_that_it_needs_them(browser: Browser, bus: RunningServer) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{bus.port}/page/requests")
    expect(page.get_by_role("main")).to_contain_text("This page needs scripts")
    expect(page.locator("#sign-in")).to_be_hidden()
    context.close()


def test_pictures_for_the_readme(
    visit: Visit, scene: Scene, browser: Browser, bus: RunningServer, pictures: Path | None
) -> None:
    """Open the main views; write pictures of them to the folder in ENGRAMBUS_PICTURES, if it is set."""
    pointer = scene.ref(check_tokens)
    views = {
        "now": ("/", "light"),
        "pointer": (f"/?pointer={quote(pointer, safe='')}", "dark"),
        "brief": ("/page/brief?for=programmer", "light"),
        "figures": ("/page/figures", "dark"),
    }
    visit.page.set_viewport_size({"width": 1280, "height": 800})
    for name, (path, scheme) in views.items():
        visit.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page = visit.open(path)
        expect(page.locator("#live")).to_have_text("live")
        expect(page.locator(".runs summary")).to_contain_text(GOAL)
        if pictures:
            time.sleep(0.8)
            page.screenshot(path=pictures / f"page-{name}.png")
    if pictures:
        context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark")
        phone = Visit(context, bus)
        time.sleep(0.8)
        phone.page.screenshot(path=pictures / "page-phone.png")
        context.close()


@pytest.mark.parametrize("path", ["/page/nowhere", "/?colour=red", "/?kind=gossip", "/?run=x", "/?before=soon"])
def test_an_invalid_address_shows_an_error_page(bus: RunningServer, path: str) -> None:
    answer = bus.call("GET", path, token=None, headers={"Engrambus-Session": bus.open_session()})
    assert answer.status in (404, 422)
    assert b"Go to the start page" in answer.body


def test_the_brief_and_the_feed_agree_and_a_stale_engram_is_confirmed_with_its_lines(  # BX-01
    visit: Visit, pictures: Path | None
) -> None:
    page = visit.open("/?stale=1")
    claim = "Every spend is checked"
    row = page.locator(".row", has_text=claim)
    expect(row.locator(".mark.stale")).to_contain_text("changed since")
    expect(page.locator("#panel-brief div.lines")).to_contain_text("left out")
    expect(page.locator("#panel-brief .brief-line", has_text=claim)).to_have_count(0)
    row.locator(".claim").click()
    expect_in_drawer(page, "% left, now ")
    if pictures is not None:
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=pictures / f"stale-{scheme}.png")
    assert ":" in page.input_value(".renew input[name=where]")
    page.click(".renew button")
    expect_in_drawer(page, "It is in the briefs again")
    expect(page.locator(".renew")).to_have_count(0)
