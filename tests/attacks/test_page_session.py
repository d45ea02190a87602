"""Attacks on the session of the page: other local servers, foreign pages, stolen and guessed secrets."""  # EB-27

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.http.running_server import RunningServer, run_server
from tests.page.conftest import Visit, start_browser
from tests.projects import make_gateway, make_repository, make_settings

GOAL = "Rewrite the ledger of Kestrel Bank"
CLAIM = "The vault door opens on Tuesdays."
SESSION = "Engrambus-Session"
MAX_GUESSES = 5
ADDRESSES = ("/", "/page/feed", "/page/work", "/page/nowhere", "/?run=01ARZ3NDEKTSV4RRFFQ69G5FAV", "/?engram=x#code=y")


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Run a server for a project with a goal and a claim that nobody else may learn."""
    folder = tmp_path_factory.mktemp("page-session")
    repository = make_repository(folder / "repository-of-the-bank")
    gateway = make_gateway(repository.path, make_settings(folder / "home"))
    with run_server(gateway, repository) as bus:
        bus.call("POST", "/run", {"goal": GOAL})
        bus.token = bus.sign()
        assert bus.put(CLAIM).status == 200
        yield bus
    gateway.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start one browser for these tests."""
    with start_browser() as browser:
        yield browser


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser profile."""
    context = browser.new_context()
    yield context
    context.close()


class Thief(ThreadingHTTPServer):
    """Another server on this machine. It records what it is sent, and plants cookies for the whole host."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _ThiefHandler)
        self.received: list[dict[str, str]] = []
        self.address = f"http://127.0.0.1:{self.server_address[1]}"

    def secrets(self) -> set[str]:
        """Return every word that it was sent in any header."""
        return {
            word for sent in self.received for text in sent.values() for word in re.split(r"[\s;,=]+", text) if word
        }


class _ThiefHandler(BaseHTTPRequestHandler):
    server: Thief

    def do_GET(self) -> None:
        self.server.received.append(dict(self.headers.items()))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Set-Cookie", "planted=x; Path=/")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>thief</title><body>")

    do_POST = do_GET

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def thief() -> Iterator[Thief]:
    """Run another server on another port of 127.0.0.1."""
    thief = Thief()
    thread = threading.Thread(target=thief.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield thief
    thief.shutdown()
    thread.join()
    thief.server_close()


def lure(context: BrowserContext, thief: Thief, script: str, bus: RunningServer) -> Any:
    """Open the thief's page in the visitor's browser and return what its script found."""
    page = context.new_page()
    page.goto(thief.address)
    return page.evaluate(script, f"http://127.0.0.1:{bus.port}")


def view(bus: RunningServer, session: str, path: str = "/", **headers: str) -> int:
    """Ask for a view with a session's secret and return the status."""
    return bus.call("GET", path, token=None, headers={SESSION: session} | headers).status


class EventStream:
    """The stream of events, opened with a session's secret by a program that is no browser."""

    def __init__(self, bus: RunningServer, session: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", bus.port, timeout=20)
        self._connection.request("GET", "/events", headers={SESSION: session, "Accept": "text/event-stream"})
        self._response = self._connection.getresponse()
        self.status = self._response.status
        if self.status == 200:
            assert self._response.readline().startswith(b"retry:")
        else:
            self._close()

    def expect_ended(self) -> None:
        """Check that the stream ends by itself; reading from one that goes on times out."""
        while self._response.readline():
            pass
        self._close()

    def _close(self) -> None:
        self._response.close()
        self._connection.close()


def claims_in(page: Page) -> list[str]:
    """Return the claims that a window shows."""
    return page.locator(".row .claim").all_inner_texts()


# Another server on this machine


def test_another_local_server_gets_no_session(context: BrowserContext, bus: RunningServer, thief: Thief) -> None:
    """A dev server on another port is opened in the browser that has the page open."""
    page = Visit(context, bus).page
    expect(page.locator(".row .claim")).to_have_text(CLAIM)
    lure(context, thief, "address => fetch('/again', { credentials: 'include' }).then(() => 0)", bus)
    page.goto(thief.address)  # as if a link on the page led there
    assert len(thief.received) >= 3
    planted = {"planted=x"}
    assert {sent["Cookie"] for sent in thief.received if "Cookie" in sent} <= planted
    assert {cookie["name"] for cookie in context.cookies()} == {"planted"}
    for secret in thief.secrets():
        assert bus.call("GET", "/run", token=secret).status == 401
        assert view(bus, secret) == 401


def test_another_local_server_finds_no_secret_in_its_storage(
    context: BrowserContext, bus: RunningServer, thief: Thief
) -> None:
    """A page of another port looks through all storage of the browser that it can reach."""
    Visit(context, bus)
    script = """async () => [
        ...Object.entries(localStorage), ...Object.entries(sessionStorage), ...await caches.keys(),
        ...await indexedDB.databases(), window.name, document.referrer,
    ]"""
    assert lure(context, thief, script, bus) == ["", ""]


def test_a_cookie_planted_by_another_port_opens_nothing(bus: RunningServer) -> None:
    """A local server sets cookies with every name and value that ever counted, for all ports of the host."""
    session = bus.open_session()
    cookies = f"engrambus-{bus.port}={bus.token}; {SESSION}={session}; session={session}; engrambus-theme=dark"
    answer = bus.call("GET", "/", token=None, headers={"Cookie": cookies})
    assert answer.body == bus.call("GET", "/", token=None).body
    assert bus.call("GET", "/events", token=None, headers={"Cookie": cookies}).status == 401
    assert bus.call("GET", "/run", token=None, headers={"Cookie": cookies}).status == 401


def test_no_answer_sets_a_cookie(context: BrowserContext, bus: RunningServer) -> None:
    """The visitor uses the page, changes its colours and signs out; somebody collects the cookies."""
    set_by: list[str] = []
    context.on(
        "response", lambda response: set_by.extend(response.url for name in response.headers if name == "set-cookie")
    )
    page = Visit(context, bus).page
    page.click("button[value=dark]")
    page.click("nav >> text=Budgets")
    expect(page.locator("#panel-budgets")).to_be_visible()
    page.click("#sign-out")
    expect(page.locator("#sign-in")).to_be_visible()
    assert set_by == []
    assert context.cookies() == []


# A foreign page


def test_a_foreign_page_reads_no_data(context: BrowserContext, bus: RunningServer, thief: Thief) -> None:
    """A page of another origin fetches every address of the page, with and without the headers it would need."""
    Visit(context, bus)
    script = """async (address) => {
        const found = [];
        const options = [{}, { credentials: "include" }, { mode: "no-cors", credentials: "include" },
            { headers: { "Engrambus-Session": "x", "HX-Request": "true" } }];
        for (const path of ["/", "/page/feed", "/page/do/pin", "/events", "/stats", "/session", "/openapi.json"])
            for (const option of options) {
                try { found.push(await (await fetch(address + path, option)).text()); } catch { found.push("refused"); }
            }
        return [...new Set(found)];
    }"""
    assert set(lure(context, thief, script, bus)) <= {"refused", ""}  # no-cors answers are opaque


def test_a_foreign_page_cannot_embed_the_page(context: BrowserContext, bus: RunningServer, thief: Thief) -> None:
    """A page of another origin shows the page in a frame, to have its buttons clicked."""
    Visit(context, bus)
    page = context.new_page()
    page.goto(thief.address)
    page.evaluate(
        """address => new Promise((loaded) => {
            const frame = document.createElement("iframe");
            frame.onload = frame.onerror = loaded;
            frame.src = address;
            document.body.append(frame);
        })""",
        f"http://127.0.0.1:{bus.port}/",
    )
    _, frame = page.frames
    assert frame.url.startswith("chrome-error:")
    assert frame.locator("#sign-in, #view").count() == 0


def test_a_foreign_page_opens_no_event_stream(context: BrowserContext, bus: RunningServer, thief: Thief) -> None:
    """A page of another origin follows the project's events."""
    Visit(context, bus)
    script = """address => new Promise((ended) => {
        const stream = new EventSource(address + "/events", { withCredentials: true });
        stream.onopen = () => ended("open");
        stream.onerror = () => ended(stream.readyState === EventSource.CLOSED ? "refused" : "retrying");
    })"""
    assert lure(context, thief, script, bus) == "refused"


def test_a_foreign_page_learns_nothing_from_a_window_it_opens(
    context: BrowserContext, bus: RunningServer, thief: Thief
) -> None:
    """A page of another origin opens the page in a window of its own and looks into it."""
    Visit(context, bus)
    page = context.new_page()
    page.goto(thief.address)
    with context.expect_page() as opened:
        page.evaluate("address => { window.opened = window.open(address); }", f"http://127.0.0.1:{bus.port}/")
    expect(opened.value.locator(".row .claim")).to_have_text(CLAIM)
    assert opened.value.evaluate("window.opener") is None
    assert page.evaluate("window.opened.closed"), "the window has left the opener's group"


# Without a session


def test_a_visitor_without_a_session_gets_a_shell_without_project_data(bus: RunningServer) -> None:
    """Any program of this machine asks for the addresses of the page."""
    shells = {bus.call("GET", path, token=None).body for path in ADDRESSES}
    assert len(shells) == 1, "the same for everybody and every address"
    (shell,) = shells
    private = (GOAL, CLAIM, bus.gateway.store.project, bus.run, bus.repository.path.name, "admin", "parser.py")
    assert [text for text in private if text.encode() in shell] == []
    for headers in ({SESSION: ""}, {SESSION: "x" * 43}, {"HX-Request": "true", SESSION: "null"}):
        for path in ADDRESSES[:3]:
            answer = bus.call("GET", path, token=None, headers=headers)
            assert (answer.status, answer.code) == (401, "SESSION_INVALID")
            assert [text for text in private if text.encode() in answer.body] == []


def test_a_visitor_without_a_session_changes_nothing(bus: RunningServer) -> None:
    """Any program of this machine sends the forms of the page, as its own origin would."""
    row = bus.call("GET", "/feed?k=1").json["rows"][0]["engram"]["id"]
    form = {"Origin": f"http://127.0.0.1:{bus.port}", "Content-Type": "application/x-www-form-urlencoded"}
    with bus.nothing_stored():
        for headers in ({}, {SESSION: "x"}, {SESSION: bus.token}, {"Authorization": f"Bearer {bus.token}"}):
            answer = bus.call("POST", "/page/do/pin", f"id={row}".encode(), token=None, headers=form | headers)
            assert answer.status == 401


# A secret in the wrong place


def test_a_session_is_no_bearer_token(bus: RunningServer) -> None:
    """Somebody who got hold of a session's secret sends it as a bearer token to every operation."""
    session = bus.open_session()
    assert view(bus, session) == 200
    paths = bus.call("GET", "/openapi.json").json["paths"]
    open_to_all = {"/healthz", "/openapi.json", "/proof"} | {path for path in paths if path.startswith("/schemas/")}
    tried = 0
    for path, methods in paths.items():
        for method in methods:
            if path in open_to_all:
                continue
            target = re.sub(r"\{\w+\}", "x", path)
            for headers in ({"Authorization": f"Bearer {session}"}, {SESSION: session}):
                if path == "/events" and SESSION in headers:
                    continue  # the one address besides the page that takes a session
                body: Any = {} if method == "post" else None
                answer = bus.call(method.upper(), target, body, token=None, headers=headers)
                assert answer.status == 401, (method, target, headers.keys(), answer.body)
                tried += 1
    assert tried > 120


def test_a_bearer_token_is_no_session(bus: RunningServer) -> None:
    """An agent sends its own token, or an admin's, as a session."""
    agent = bus.add("mole")
    for token in (agent, bus.token, f"Bearer {bus.token}"):
        for path in ("/", "/page/feed", "/page/work", "/events"):
            assert view(bus, token, path) == 401, path


def test_an_agent_can_neither_list_nor_end_sessions(bus: RunningServer) -> None:
    """An agent of any role asks for the sessions of the page and for a code of its own."""
    session = bus.open_session()
    lead = bus.add("lead", "architect")
    for method, path in (("GET", "/session"), ("POST", "/session/end"), ("POST", "/session/code")):
        answer = bus.call(method, path, {"all": True} if path.endswith("end") else None, token=lead)
        assert (answer.status, answer.code) == (403, "ROLE_FORBIDDEN")
    assert view(bus, session) == 200


def test_the_list_of_sessions_shows_no_secret(bus: RunningServer) -> None:
    """Somebody reads the list of sessions over the admin's shoulder, and tries what it shows."""
    session = bus.open_session()
    listed = bus.call("GET", "/session")
    assert session.encode() not in listed.body
    for row in listed.json["sessions"]:
        for value in row.values():
            assert view(bus, str(value)) == 401


def test_a_session_is_not_in_the_address_the_history_or_a_referrer(context: BrowserContext, bus: RunningServer) -> None:
    """Somebody collects every address that the browser has sent or shown."""
    addresses: list[str] = []
    context.on("request", lambda request: addresses.extend([request.url, request.headers.get("referer", "")]))
    context.on("request", lambda request: addresses.append(request.headers.get("hx-current-url", "")))
    page = Visit(context, bus).page
    page.click("nav >> text=Budgets")
    expect(page.locator("#panel-budgets")).to_be_visible()
    stored = page.evaluate("Object.values(localStorage)")
    secrets = [value for value in stored if view(bus, value) == 200]
    assert len(secrets) == 1
    shown = json.dumps([*addresses, page.url, page.evaluate("history.state"), page.content()])
    assert secrets[0] not in shown
    assert "code=" not in json.dumps([url for url in addresses if "#" not in url])


# Codes


def test_a_used_code_opens_nothing(bus: RunningServer) -> None:
    """Somebody reads the link in the terminal after its owner has opened it."""
    code = bus.codes.new()
    assert bus.open_with(code).status == 200
    again = bus.open_with(code)
    assert (again.status, again.code) == (401, "CODE_INVALID")
    assert "set-cookie" not in again.headers


def test_a_code_never_buys_a_bearer_token(bus: RunningServer) -> None:
    """Somebody who saw a link exchanges its code at every address that takes one."""
    for path in ("/session", "/session/code", "/session/end", "/agent", "/run"):
        code = bus.codes.new()
        answer = bus.call("POST", path, {"code": code}, token=None)
        assert answer.status in (401, 405), path
        answer = bus.call("POST", path, {"code": code}, token=code)
        assert answer.status in (401, 405), path
    opened = bus.open_with(bus.codes.new())
    assert set(opened.json) == {"session", "expires_in"}
    assert bus.call("GET", "/run", token=opened.json["session"]).status == 401


def test_guesses_use_a_code_up(bus: RunningServer) -> None:
    """A program that knows the beginning of a code tries endings."""
    code = bus.codes.new()
    for number in range(MAX_GUESSES):
        wrong = bus.open_with(code[:-4] + f"{number:04}")
        assert (wrong.status, wrong.code) == (401, "CODE_INVALID")
    assert bus.open_with(code).code == "CODE_INVALID"


def test_guesses_without_a_beginning_lock_nobody_out(bus: RunningServer) -> None:
    """A program floods the server with codes at random, so that the owner cannot sign in."""
    code = bus.codes.new()
    for number in range(100):
        assert bus.open_with(f"{number:040}").code == "CODE_INVALID"
    assert bus.open_with(code).status == 200


def test_a_code_is_not_taken_from_a_foreign_page(bus: RunningServer) -> None:
    """A page of another origin signs the visitor's browser in with a code of its own."""
    code = bus.codes.new()
    for origin in ({}, {"Origin": "http://127.0.0.1:1"}, {"Origin": "null"}):
        assert bus.open_with(code, origin).code == "ORIGIN_FORBIDDEN"
    assert bus.open_with(code).status == 200, "a refused attempt does not use the code up"


# Sessions that have ended


def test_an_ended_session_is_dead_with_its_open_streams(bus: RunningServer) -> None:
    """A thief of a session has the events open while the owner ends the session."""
    session, other = bus.open_session(), bus.open_session()
    row = bus.call("GET", "/session").json["sessions"][0]
    stream, other_stream = EventStream(bus, session), EventStream(bus, other)
    assert bus.call("POST", "/session/end", {"id": row["id"]}).json == {"ended": 1}
    other_stream.expect_ended()
    assert view(bus, other) == 401
    assert EventStream(bus, other).status == 401
    assert view(bus, session) == 200
    assert bus.call("POST", "/session/end", {"all": True}).json["ended"] >= 1
    stream.expect_ended()
    assert view(bus, session) == 401


def test_signing_out_ends_the_session_in_every_window(context: BrowserContext, bus: RunningServer) -> None:
    """Somebody kept a copy of the secret, and finds a second window that was left open."""
    first = Visit(context, bus)
    second = context.new_page()
    second.goto(first.base)
    expect(second.locator("#live")).to_have_text("live")
    copies = [value for value in second.evaluate("Object.values(localStorage)") if view(bus, value) == 200]
    streams = [EventStream(bus, copy) for copy in copies]
    assert len(copies) == 1
    first.page.click("#sign-out")
    for page in (first.page, second):
        expect(page.locator("#sign-in")).to_be_visible()
        assert claims_in(page) == []
        assert CLAIM not in page.content()
    assert view(bus, copies[0]) == 401
    streams[0].expect_ended()
    assert not set(copies) & set(second.evaluate("Object.values(localStorage)"))


def test_a_new_link_ends_the_session_it_replaces(bus: RunningServer) -> None:
    """Somebody kept the secret of a browser whose owner has opened another link."""
    old = bus.open_session()
    new = bus.open_with(bus.codes.new(), {"Origin": f"http://127.0.0.1:{bus.port}", SESSION: old}).json["session"]
    assert (view(bus, old), view(bus, new)) == (401, 200)


def test_a_session_ends_with_the_server(context: BrowserContext, tmp_path: Path) -> None:
    """The server is started again on the same port; an old secret, and a window that was left open, come back."""
    repository = make_repository(tmp_path / "repository")
    gateway = make_gateway(repository.path, make_settings(tmp_path / "home"))
    with run_server(gateway, repository) as bus:
        page = Visit(context, bus).page
        expect(page.locator("#live")).to_have_text("live")
        (old,) = [value for value in page.evaluate("Object.values(localStorage)") if view(bus, value) == 200]
        stream = EventStream(bus, old)
        port = bus.port
    stream.expect_ended()
    expect(page.locator("#live")).to_have_text("not connected")
    with run_server(gateway, repository, port=port) as bus:
        assert view(bus, old) == 401
        expect(page.locator("#sign-in")).to_be_visible()
        expect(page.locator("#sign-in h2")).to_have_text("Your session has ended")
        page.goto(f"http://127.0.0.1:{port}/page/budgets#code={bus.codes.new()}")
        expect(page.locator("#panel-budgets")).to_be_visible()
    gateway.close()


def test_a_window_left_open_asks_a_new_server_once(context: BrowserContext, tmp_path: Path) -> None:
    """The server stops when the window is about to reload its panels, and is started again before that."""
    repository = make_repository(tmp_path / "repository")
    gateway = make_gateway(repository.path, make_settings(tmp_path / "home"))
    context.clock.install(time=0)
    context.clock.pause_at(1)  # the timers of the window run when the test says so, however slow the machine is
    with run_server(gateway, repository) as bus:
        page = Visit(context, bus).page
        expect(page.locator("#live")).to_have_text("live")  # its panels are loaded again 400 ms later
        port = bus.port
    while page.locator("#live").inner_text() != "not connected":
        page.clock.run_for(20)
        page.wait_for_timeout(50)
    requests: list[str] = []
    with run_server(gateway, repository, port=port):
        page.on("request", lambda request: requests.append(request.url))
        page.clock.run_for(1000)
        while page.locator("#sign-in").is_hidden():
            page.clock.run_for(200)
            page.wait_for_timeout(50)
        page.clock.run_for(20_000)
        page.evaluate("fetch('/healthz').then((answer) => answer.text())")  # what was asked before has been counted
        address = f"http://127.0.0.1:{port}"
        assert requests == [f"{address}/events", f"{address}/healthz"], "it asks once and not again and again"
    gateway.close()


def test_nobody_else_gets_the_port_of_a_running_server(bus: RunningServer) -> None:
    """A process binds the same port, to be the page's origin and read its storage."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        with pytest.raises(OSError, match="in use"):
            sock.bind(("127.0.0.1", bus.port))
