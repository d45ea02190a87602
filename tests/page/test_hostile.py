"""Text by agents is data and never runs; other sites cannot use the page."""  # EB-27

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

import engrambus
from engrambus.edges.page.assets import static_files
from engrambus.edges.page.highlight import highlight_lines
from engrambus.edges.page.template_filters import (
    escape_invisible,
    format_count,
    format_duration,
    format_time,
    pointer_label,
    safe_link,
    to_json,
)
from engrambus.gateway import LOCAL_ADMIN
from engrambus.operations import OPERATIONS
from tests.attacks.older_version import call_unchecked
from tests.http.running_server import RunningServer, run_server
from tests.page.conftest import Visit
from tests.projects import Repository, commit_files, make_gateway, make_repository, make_settings

SCRIPT = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
BREAKOUT = "</script></textarea></title>\"'><svg onload=\"document.title='owned'\">{{ 7 * 7 }}"
STATIC = Path(engrambus.__file__).parent / "edges/page/static"


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Run a server for a project whose goal, files, claims and requests are hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    repository = make_repository(folder / "repository")
    name = "src/<script>alert(1)<.py"
    sha = commit_files(repository.path, {name: f'x = "{SCRIPT}"\n# </pre></script>{SCRIPT}\r stray\n' * 3})
    gateway = make_gateway(repository.path, make_settings(folder / "home"))
    with run_server(gateway, Repository(repository.path, sha)) as bus:
        # Markup counts as code; here it must get through to the page.
        apply = OPERATIONS["apply_policy"]
        gateway.call(apply, apply.request(policy={"limits": {"inline_code": "off"}}), LOCAL_ADMIN)
        bus.call("POST", "/run", {"goal": f"Goal {BREAKOUT}"})
        bus.token = bus.sign()
        bus.add("coder")
        token = bus.call("POST", "/agent/coder/token", {}).json["token"]
        at = [f"{name}:1-2"]
        for kind in ("constraint", "risk", "decision", "fact"):
            answer = bus.put(f"{kind}: {SCRIPT} {BREAKOUT}", kind=kind, at=at, tags=["<b>", "x"], token=token)
            assert answer.status == 200, answer.body
        call_unchecked(gateway, "put_engram", claim="\u202egnp.exe right to left\u2066", at=at, kind="todo")
        ref = bus.call("GET", "/feed?k=1").json["rows"][0]["engram"]["pointers"][0]["ref"]
        request = {"pointer": ref, "reason": SCRIPT, "intended_use": BREAKOUT}
        assert bus.call("POST", "/pointer/request", request, token=token).status == 200
        report = {"ROLE": "programmer", "TASK_STATUS": "done", "OUTPUT": {"summary": SCRIPT, "next": BREAKOUT}}
        used = [row["engram"]["id"] for row in bus.call("GET", "/feed").json["rows"]]
        for message in (
            {"text": json.dumps(report), "used": used},
            {"text": f"{SCRIPT} {BREAKOUT}", "to": "admin"},
        ):
            answer = bus.call("POST", "/message", message, token=token)
            assert answer.status == 200, answer.body
        bus.call("GET", "/brief?role=architect")
        yield bus
    gateway.close()


PATHS = (
    "/",
    "/page/brief?for=architect",
    "/page/brief?for=architect&since=1",
    "/page/budgets",
    "/page/requests",
    "/page/figures",
    "/page/messages",
    "/?pointer=javascript:alert(1)",
    "/?pointer=%22%3E%3Cscript%3Edocument.title='owned'%3C/script%3E",
    "/?q=%3Cscript%3E%22%27onfocus=alert(1)%20autofocus",
)


def test_text_by_agents_does_not_run(visit: Visit, bus: RunningServer) -> None:
    rows = bus.call("GET", "/feed").json["rows"]
    paths = [*PATHS, *(f"/?engram={row['engram']['id']}" for row in rows)]
    for path in paths:
        page = visit.open(path)
        page.wait_for_load_state()
        assert page.title() != "owned", path
        assert re.search("[\u202a-\u202e\u2066-\u2069]", page.content()) is None, path
        assert page.locator("body script, svg, [onerror], [onload], [onfocus], img[src=x]").count() == 0, path
        for link in page.eval_on_selector_all("a", "links => links.map((link) => link.protocol)"):
            assert link in ("http:", "https:", "vscode:"), path
    assert len(visit.page.context.pages) == 1


def test_the_lines_of_a_hostile_file_are_shown_as_text(visit: Visit) -> None:
    page = visit.open("/")
    page.locator(".row .chip").first.click()
    expect(page.locator(".line")).to_have_count(2)
    assert page.locator(".line").first.inner_text().strip() == f'x = "{SCRIPT}"'
    assert page.title() != "owned"
    assert (page.get_attribute("text=Open in editor", "href") or "").startswith("vscode://file/")


def test_a_hostile_message_is_shown_as_text_and_can_be_answered(visit: Visit, bus: RunningServer) -> None:
    page = visit.open("/page/messages")
    texts = page.locator(".mail .content")
    expect(texts).to_have_count(3)
    expect(texts.nth(0)).to_have_text(f"{SCRIPT} {BREAKOUT}")
    expect(texts.nth(1)).to_have_text(SCRIPT)
    expect(texts.nth(2)).to_contain_text(SCRIPT)
    page.locator(".mail .reply summary").first.click()
    page.get_by_label("Reply to coder").first.fill(BREAKOUT)
    page.locator(".mail .reply button").first.click()
    expect(page.get_by_role("status").last).to_contain_text("Sent to coder")
    page.get_by_label("Message", exact=True).fill(BREAKOUT * 60)
    page.locator(".write button").first.click()
    expect(page.locator("#panel-messages").get_by_role("alert")).to_contain_text("BUDGET_EXCEEDED")
    expect(page.get_by_label("Message", exact=True)).to_have_value(BREAKOUT * 60)
    assert page.locator("body script, svg, [onerror], [onload]").count() == 0
    assert page.title() != "owned"
    visit.console_errors.clear()  # the browser logs the status of the refusal


def test_invisible_characters_are_shown_as_escapes(visit: Visit) -> None:
    page = visit.open("/?kind=todo")
    expect(page.locator(".row .claim")).to_have_text("\\u{202E}gnp.exe right to left\\u{2066}")
    ((_, line),) = highlight_lines("if admin: # \u202e \u2066<b>", "a.py")
    assert str(escape_invisible(line)).endswith('<span class="c"># \\u{202E} \\u{2066}&lt;b&gt;</span>')
    assert escape_invisible(line).__html__() == str(escape_invisible(line)), "it is still markup"


def test_the_content_security_policy_blocks_inline_scripts(visit: Visit) -> None:
    page = visit.open("/")
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "document.title = 'owned'";
        document.body.append(script);
        document.body.setAttribute("style", "color: red");
    }""")
    while len(visit.console_errors) < 2:
        page.wait_for_timeout(20)  # the browser reports both within its own time
    assert page.title() != "owned"
    assert len([error for error in visit.console_errors if "Content Security Policy" in error]) == 2
    visit.console_errors.clear()


@pytest.mark.parametrize("headers", [{}, {"Origin": "http://127.0.0.1:1"}, {"Origin": "null"}])
def test_a_form_from_another_origin_does_nothing(bus: RunningServer, headers: dict[str, str]) -> None:
    session = {"Engrambus-Session": bus.open_session(), "Content-Type": "application/x-www-form-urlencoded"}
    row = bus.call("GET", "/feed?k=1").json["rows"][0]["engram"]["id"]
    forms = (("do/pin", f"id={row}"), ("do/approve", "id=x"), ("open", f"code={bus.codes.new()}"), ("sign-out", ""))
    for name, body in forms:
        with bus.nothing_stored():
            answer = bus.call("POST", f"/page/{name}", body.encode(), token=None, headers=session | headers)
        assert answer.status == 403
    assert bus.call("GET", "/", token=None, headers=session).status == 200


def test_a_form_renders_a_view_of_the_page_only(bus: RunningServer) -> None:
    headers = {
        "Engrambus-Session": bus.open_session(),
        "Origin": f"http://127.0.0.1:{bus.port}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    row = bus.call("GET", "/feed?k=1").json["rows"][0]["engram"]["id"]
    for back in ("//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)", "/openapi.json",
                 "/page/", "/page/../engram", "/page/a%0D%0ASet-Cookie:%20b=c"):  # fmt: skip
        answer = bus.call("POST", "/page/do/unpin", f"id={row}&back={back}".encode(), token=None, headers=headers)
        assert answer.status == 200
        assert b"panel-feed" in answer.body, "anything else counts as the start page"
        assert b"evil.example" not in answer.body
        assert "location" not in answer.headers
    for name, body in (("pin", b"colour=red"), ("unpin", b"back=/"), ("approve", b"uses=1"), ("deny", b"")):
        answer = bus.call("POST", f"/page/do/{name}", body, token=None, headers=headers)
        assert (answer.status, b"FIELD_" in answer.body) == (422, True), name


def test_links_open_web_pages_and_editors_only() -> None:
    assert safe_link("https://github.com/o/r") == "https://github.com/o/r"
    assert safe_link("vscode://file/x") == "vscode://file/x"
    for link in (
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "data:text/html,x",
        "http://x",
        "vscode://other/x",
        None,
    ):
        assert safe_link(link) is None


@pytest.mark.parametrize("path", ["a.py", "a.html", "a.unknown", ".diff"])
def test_lines_are_numbered_as_git_counts_them(path: str) -> None:
    text = 'a = """one\rtwo\u2028three\n<b>&amp;</b>"""\n\nlast'
    lines = highlight_lines(text, path, 7)
    assert [number for number, _ in lines] == [7, 8, 9, 10]
    texts = [re.sub(r"</?span[^>]*>", "", str(line)) for _, line in lines]
    assert texts[1].startswith("&lt;b&gt;&amp;amp;&lt;/b&gt;")
    assert texts[0].replace("&#34;", '"') == text.split("\n")[0]


def test_any_text_has_a_pointer_label() -> None:
    for ref in ("", ":", "@", "repo:", "x"):
        assert pointer_label(ref) == (ref, "", "", "")
    assert pointer_label("url:https://e.org/a@sha256:" + "0" * 64) == ("a", "url:https://e.org/", "", "sha256:0000000")
    assert pointer_label("sam:note:x@v1") == ("note:x", "sam:", "", "v1")
    assert to_json({"a": "</script>\"'"}) == '{"a":"</script>\\"\'"}'


def test_numbers_durations_and_times_are_formatted_for_people() -> None:
    assert [format_count(number) for number in (0, 999, 12_345, 24_000, -1_495, -12_345, 3_100_000, 0.25)] == [
        *("0", "999", "12.3k", "24k", "−1,495", "−12.3k", "3.1M", "0.25")
    ]
    assert [format_duration(duration) for duration in ("P14D", "PT90M", "P1DT1S", "PT0.5S")] == [
        *("14 days", "1 hour 30 minutes", "1 day 1 second", "PT0.5S")
    ]
    assert format_time("2026-11-15T16:38:35.123456Z") == "2026-11-15 16:38:35 UTC"


def test_vendored_files_have_the_published_checksums() -> None:
    table = (STATIC / "vendor/README.md").read_text()
    files = {path.name for path in (STATIC / "vendor").iterdir() if path.suffix in (".js", ".css")}
    rows = re.findall(r"^\| (\S+\.(?:js|css)) .*`([0-9a-f]{64})` \|$", table, re.MULTILINE)
    assert {name for name, _ in rows} == files
    for name, checksum in rows:
        assert hashlib.sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() == checksum
    assert {f"vendor/{name}" for name in files} <= static_files().keys()


def test_nothing_is_loaded_from_other_servers(browser: Browser, bus: RunningServer) -> None:
    context = browser.new_context()
    urls: list[str] = []
    context.on("request", lambda request: urls.append(request.url))
    visit = Visit(context, bus)
    visit.open("/page/figures")
    visit.page.wait_for_timeout(200)
    assert urls
    assert all(url.startswith(f"http://127.0.0.1:{bus.port}/") for url in urls)
    context.close()
