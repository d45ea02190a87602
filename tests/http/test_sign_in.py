"""The sign-in page, its static files and the codes that work once."""

from __future__ import annotations

import re

import pytest

from engrambus.edges.http.sessions import CODE_SECONDS, MAX_CODES, SignInCodes
from engrambus.errors import CodeInvalid
from tests.http.running_server import RunningServer


def test_the_sign_in_page_loads_only_the_servers_own_files(bus: RunningServer) -> None:
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


def test_the_script_builds_no_html(bus: RunningServer) -> None:
    script = bus.call("GET", "/static/page.js", token=None).body.decode()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)


def test_a_code_opens_one_session(bus: RunningServer) -> None:
    code = bus.codes.new()
    session = bus.call("POST", "/session", {"code": code}, token=None).json
    assert bus.call("GET", "/engram/query", token=session["token"]).status == 200
    assert bus.call("GET", "/stats", token=session["token"]).json["run_id"] == session["run_id"] == bus.run
    with bus.nothing_stored():
        second = bus.call("POST", "/session", {"code": code}, token=None)
    assert (second.status, second.code, second.json["hint"]) == (401, "CODE_INVALID", "Get a new link: engrambus up.")


@pytest.mark.parametrize("body", [{"code": "guess"}, {"code": ""}])
def test_an_unknown_code_is_refused(bus: RunningServer, body: dict[str, str]) -> None:
    assert bus.call("POST", "/session", body, token=None).code == "CODE_INVALID"


@pytest.mark.parametrize(
    ("body", "code"), [({}, "FIELD_MISSING"), ({"code": 7}, "FIELD_TYPE"), ({"code": "x" * 65}, "FIELD_VALUE")]
)
def test_a_session_is_opened_with_a_code_and_nothing_else(
    bus: RunningServer, body: dict[str, object], code: str
) -> None:
    assert bus.call("POST", "/session", body, token=None).code == code
    assert bus.call("POST", "/session?as=admin", {"code": bus.codes.new()}, token=None).code == "FIELD_UNKNOWN"


def test_an_admin_gets_another_code(bus: RunningServer) -> None:
    answer = bus.call("POST", "/session/code").json
    assert answer["expires_in"] == CODE_SECONDS
    assert bus.call("POST", "/session", {"code": answer["code"]}, token=None).status == 200
    assert bus.call("POST", "/session/code", token=None).code == "TOKEN_MISSING"


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
