"""The page over HTTP: shell and static files for everybody, views and forms for visitors with a session."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from urllib.parse import parse_qsl

import msgspec
from anyio import to_thread
from starlette.types import ASGIApp, Receive, Scope, Send

from engrambus.core import SECOND_US
from engrambus.edges.http.call_log import log_refusal, name_call
from engrambus.edges.http.callers import session_caller
from engrambus.edges.http.requests import header, read_body, read_query, read_text
from engrambus.edges.http.responses import Headers, StaticResponse, send_json
from engrambus.edges.http.sessions import (
    SESSION_HEADER,
    SESSION_SECONDS,
    BrowserSession,
    BrowserSessions,
    SignInCodes,
    session_secret,
)
from engrambus.edges.page.actions import ACTIONS
from engrambus.edges.page.assets import shell, static_files, static_folder
from engrambus.edges.page.session import Address, PageSession
from engrambus.edges.page.view import PAGE_PARAMS, PageView, error_view
from engrambus.errors import (
    ContentType,
    EngramBusError,
    FieldUnknown,
    OriginForbidden,
    RouteNotFound,
    SessionInvalid,
)
from engrambus.gateway import LOCAL_ADMIN, Gateway, hide_secrets_in

MAX_FORM_BYTES = 16 * 1024
MAX_FORM_FIELDS = 20
MAX_CODE_CHARS = 64
KEEP = b"max-age=31536000, immutable"
"""Files whose path changes with their content may be kept for a year."""

_SECURITY_HEADERS: Headers = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    # Without a referrer, browsers would send no Origin with the page's own forms.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]
_VARY = (b"vary", f"HX-Target, {SESSION_HEADER}".encode())
_HTML = "text/html; charset=utf-8"
_HTML_HEADERS: Headers = [
    (b"content-type", _HTML.encode()),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    _VARY,
    *_SECURITY_HEADERS,
]


def page_routes(gateway: Gateway, codes: SignInCodes, sessions: BrowserSessions) -> dict[str, dict[str, ASGIApp]]:
    """Return the endpoints of the page by path and method."""
    page = PageEndpoints(gateway, codes, sessions)
    routes: dict[str, dict[str, ASGIApp]] = {
        "/": {"GET": page.view},
        "/page/{panel}": {"GET": page.view},
        "/page/do/{action}": {"POST": page.run_action},
        "/page/open": {"POST": page.open_session},
        "/page/sign-out": {"POST": page.end_session},
    }
    for name, (body, content_type) in static_files().items():
        response = StaticResponse(body, content_type, _SECURITY_HEADERS, cache_control=KEEP)
        routes[f"{static_folder()}/{name}"] = {"GET": response}
    return routes


class PageEndpoints:
    """Serves the shell to everybody, and views and forms to visitors with a session."""

    # decision 64: the shell is the same for everybody and holds nothing of the project. All else needs the secret of a
    # session in a header, which no browser adds by itself: another site or another port cannot ask for it.

    def __init__(self, gateway: Gateway, codes: SignInCodes, sessions: BrowserSessions) -> None:
        self._gateway = gateway
        self._codes = codes
        self._sessions = sessions
        self._shell = StaticResponse(shell(), _HTML, [_VARY, *_SECURITY_HEADERS])

    async def view(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`GET /` and `GET /page/{panel}`: send the shell; with a session a view, or the part that htmx asks for."""
        name_call(scope, "page")
        if session_secret(scope) is None:
            await self._shell(scope, receive, send)
            return
        self._check_session(scope, "page")
        try:
            address = Address(scope["path"], read_query(scope, PAGE_PARAMS))
            body = await to_thread.run_sync(partial(self._render, scope, address))
        except EngramBusError as refusal:
            await _send_refusal(scope, send, refusal)
        else:
            await _send_html(send, 200, body)

    async def run_action(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /page/do/{action}`: run a form's action, then send the part that has changed."""
        name = scope["path_params"]["action"]
        name_call(scope, f"page.{name}")
        self._check_session(scope, f"page.{name}")
        try:
            if name not in ACTIONS:
                raise RouteNotFound
            form = await _read_form(scope, receive, ACTIONS[name].fields | {"back"})
            back = Address.parse(form.pop("back", "/"))
            status, body = await to_thread.run_sync(partial(self._run_action, scope, name, form, back))
        except EngramBusError as refusal:
            await _send_refusal(scope, send, refusal)
        else:
            await _send_html(send, status, body)

    async def open_session(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /page/open`: exchange the code of a link for a session; the one the browser had before ends."""
        name_call(scope, "page.open")
        form = await _read_form(scope, receive, frozenset({"code"}))
        lifetime_seconds = await to_thread.run_sync(self._session_seconds)
        claims = self._codes.use(form.get("code", "").strip()[:MAX_CODE_CHARS])
        with suppress(SessionInvalid):  # it had none
            self._sessions.end(self._sessions.check(session_secret(scope) or "").id)
        answer = {"session": self._sessions.open(lifetime_seconds, claims), "expires_in": lifetime_seconds}
        await send_json(send, msgspec.json.encode(answer))

    async def end_session(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /page/sign-out`: end the visitor's session."""
        name_call(scope, "page.sign-out")
        session = self._check_session(scope, "page.sign-out")
        await _read_form(scope, receive, frozenset())
        self._sessions.end(session.id)
        await send_json(send, b"{}")

    def _session_seconds(self) -> int:
        """Return how long a session lasts: no longer than the policy lets a token live."""
        with self._gateway.store.read() as view:
            return min(SESSION_SECONDS, view.policy().token_lifetime.ceiling_us // SECOND_US)

    def _check_session(self, scope: Scope, call: str) -> BrowserSession:
        """Return the session of a request; refuse one that has none, or whose session has ended."""
        try:
            session = self._sessions.check(session_secret(scope) or "")
        except SessionInvalid as refusal:
            self._gateway.count_unidentified(refusal)
            raise
        name_call(scope, call, session_caller(scope, session.id).name)
        return session

    def _render(self, scope: Scope, address: Address) -> str:
        return _render_target(PageView(self._visitor(address), address), _target_id(scope))

    def _run_action(self, scope: Scope, name: str, form: dict[str, str], back: Address) -> tuple[int, str]:
        visitor = self._visitor(back)
        notice = ""
        refusal: EngramBusError | None = None
        try:
            notice = ACTIONS[name](visitor, form)
        except EngramBusError as error:
            refusal = error
            log_refusal(scope, refusal)
        view = PageView(visitor, back, notice=notice, refusal=refusal, sent=form if refusal else None)
        return refusal.status if refusal else 200, _render_target(view, _target_id(scope))

    def _visitor(self, address: Address) -> PageSession:
        return PageSession(self._gateway, LOCAL_ADMIN, address.params.get("run"))


async def _read_form(scope: Scope, receive: Receive, fields: frozenset[str]) -> dict[str, str]:
    """Return the non-empty fields of a form that was sent from the page itself."""
    if header(scope, b"origin") is None:  # the guard has already refused a foreign one
        raise OriginForbidden(field="Origin")
    content_type = (header(scope, b"content-type") or b"").decode("latin-1")
    if content_type.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise ContentType(field="Content-Type", limit="application/x-www-form-urlencoded", used=content_type[:80])
    body = await read_body(scope, receive, MAX_FORM_BYTES)
    form = dict(parse_qsl(read_text(body), max_num_fields=MAX_FORM_FIELDS))
    for unknown in sorted(form.keys() - fields):
        raise FieldUnknown(f"This form has no field '{unknown[:80]}'.", field=unknown[:120])
    return form


def _target_id(scope: Scope) -> str | None:
    """Return the id of the element that htmx replaces."""
    target = (header(scope, b"hx-target") or b"").decode("latin-1")
    return target.partition("#")[2] or None


def _render_target(view: PageView, target_id: str | None) -> str:
    return (view.render_part(target_id) if target_id else None) or view.render()


async def _send_refusal(scope: Scope, send: Send, refusal: EngramBusError) -> None:
    """Send a refusal as HTML, to be shown in place of the view."""
    log_refusal(scope, hide_secrets_in(refusal))
    await _send_html(send, refusal.status, error_view(refusal))


async def _send_html(send: Send, status: int, text: str) -> None:
    body = text.encode()
    headers = [(b"content-length", str(len(body)).encode()), *_HTML_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
