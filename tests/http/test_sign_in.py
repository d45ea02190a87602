"""The shell of the page, its static files, the codes that work once, and the sessions they open."""

from __future__ import annotations

import re

import pytest

from engrambus.edges.http.sessions import (
    CODE_SECONDS,
    MAX_CODES,
    MAX_SESSIONS,
    SESSION_SECONDS,
    BrowserSessions,
    SignInCodes,
)
from engrambus.edges.page.assets import static_folder
from engrambus.errors import CodeInvalid, SessionInvalid
from engrambus.testing.client import GatewayClient
from tests.http.running_server import RunningServer


def test_the_shell_loads_only_the_servers_own_files(bus: RunningServer) -> None:
    page = bus.call("GET", "/", token=None)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "same-origin"
    html = page.body.decode()
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*\ssrc=)|https?://", html)
    for target in re.findall(r'(?:src|href)="([^"]+)"', html):
        assert bus.call("GET", target, token=None).status == 200, target


def test_the_scripts_build_no_html_and_use_no_cookie(bus: RunningServer) -> None:
    for name in ("early", "session", "events", "plots", "page"):
        script = bus.call("GET", f"{static_folder()}/{name}.js", token=None).body.decode()
        assert not re.search(
            r"(?<!swap: \")(innerHTML|outerHTML)|insertAdjacentHTML|document\.write|eval\(|cookie", script
        )


def view(bus: RunningServer, secret: str) -> int:
    """Ask for a view with a session and return the status."""
    return bus.call("GET", "/page/work", token=None, headers={"Engrambus-Session": secret}).status


def test_a_code_opens_one_session(bus: RunningServer) -> None:
    code = bus.codes.new()
    opened = bus.open_with(code).json
    assert opened["expires_in"] == SESSION_SECONDS
    assert view(bus, opened["session"]) == 200
    with bus.nothing_stored():
        second = bus.open_with(code)
    assert (second.status, second.code, second.json["hint"]) == (401, "CODE_INVALID", "Get a new link: engrambus up.")


def test_a_session_lasts_no_longer_than_the_policy_lets_a_token_live(bus: RunningServer) -> None:
    client = GatewayClient(bus)
    client.call("apply_policy", policy={"token_ttl": "PT1H", "max_token_ttl": "PT2H"})
    assert bus.open_with(bus.codes.new()).json["expires_in"] == 7200
    client.call("apply_policy", policy={})
    assert bus.open_with(bus.codes.new()).json["expires_in"] == SESSION_SECONDS


@pytest.mark.parametrize("code", ["guess", "", "x" * 200, "\u00e4"])
def test_an_unknown_code_is_refused(bus: RunningServer, code: str) -> None:
    assert bus.open_with(code).code == "CODE_INVALID"


def test_a_session_is_opened_by_a_form_with_a_code_and_nothing_else(bus: RunningServer) -> None:
    own = {"Origin": f"http://127.0.0.1:{bus.port}"}
    assert bus.call("POST", "/page/open", {"code": bus.codes.new()}, token=None, headers=own).code == "CONTENT_TYPE"
    form = own | {"Content-Type": "application/x-www-form-urlencoded"}
    body = f"code={bus.codes.new()}&as=admin".encode()
    assert bus.call("POST", "/page/open", body, token=None, headers=form).code == "FIELD_UNKNOWN"


def test_an_admin_gets_another_code(bus: RunningServer) -> None:
    answer = bus.call("POST", "/session/code").json
    assert answer["expires_in"] == CODE_SECONDS
    assert bus.open_with(answer["code"]).status == 200
    assert bus.call("POST", "/session/code", token=None).code == "TOKEN_MISSING"


def test_an_admin_lists_and_ends_sessions(bus: RunningServer) -> None:
    bus.call("POST", "/session/end", {"all": True})
    first, second = bus.open_session(), bus.open_session()
    listed = bus.call("GET", "/session").json
    newest, oldest = listed["sessions"]
    assert oldest["opened_at"] <= newest["opened_at"] <= newest["used_at"] <= listed["as_of"] < newest["expires_at"]
    assert bus.call("POST", "/session/end", {"id": newest["id"]}).json == {"ended": 1}
    assert (view(bus, first), view(bus, second)) == (200, 401)
    again = bus.call("POST", "/session/end", {"id": newest["id"]})
    assert (again.status, again.code, again.json["field"]) == (404, "SESSION_NOT_FOUND", "id")
    assert bus.call("POST", "/session/end", {}).code == "FIELD_MISSING"
    assert bus.call("POST", "/session/end", {"all": True}).json == {"ended": 1}
    assert bus.call("POST", "/session/end", {"all": True}).json == {"ended": 0}
    assert bus.call("GET", "/session").json["sessions"] == []


def test_a_session_expires_and_the_idle_ones_end_beyond_the_limit() -> None:
    now = 0.0
    sessions = BrowserSessions(lambda: now)
    first = sessions.open()
    now = SESSION_SECONDS - 1
    idle, *busy = [sessions.open() for _ in range(MAX_SESSIONS - 1)]
    now += 0.5
    for secret in (first, *busy):  # being used does not renew it
        sessions.check(secret)
    newest = sessions.open()
    with pytest.raises(SessionInvalid):
        sessions.check(idle)
    now = SESSION_SECONDS
    with pytest.raises(SessionInvalid):
        sessions.check(first)
    assert [sessions.check(secret).id for secret in (newest, *busy)]
    assert len(sessions.newest_first()) == MAX_SESSIONS - 1


def test_what_was_opened_in_a_session_is_told_its_end_once() -> None:
    sessions = BrowserSessions()
    session = sessions.check(sessions.open())
    told: list[str] = []
    with sessions.calling_on_end(session, lambda: told.append("first")):
        sessions.end(session.id)
        sessions.end(session.id)
    assert told == ["first"]
    with sessions.calling_on_end(session, lambda: told.append("too late")):
        assert told == ["first", "too late"]


def test_a_code_expires_and_the_oldest_are_dropped_beyond_the_limit() -> None:
    now = 0.0
    codes = SignInCodes(lambda: now)
    unused, first = codes.new(), codes.new()
    now = CODE_SECONDS - 1
    codes.use(first)
    now = CODE_SECONDS
    with pytest.raises(CodeInvalid):
        codes.use(unused)
    oldest, *newer = [codes.new() for _ in range(MAX_CODES + 1)]
    with pytest.raises(CodeInvalid):
        codes.use(oldest)
    for code in newer:
        codes.use(code)


def test_the_health_check_says_nothing_about_the_project(bus: RunningServer) -> None:
    answer = bus.call("GET", "/healthz", token=None)
    assert set(answer.json) == {"status", "version"}
    assert answer.json["status"] == "ok"
