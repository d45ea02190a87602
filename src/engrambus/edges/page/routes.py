"""The page over HTTP: its views, its forms, its session cookie and its static files."""

from __future__ import annotations

from functools import partial
from importlib import resources
from urllib.parse import parse_qsl

from anyio import to_thread
from starlette.types import ASGIApp, Receive, Scope, Send

from engrambus.edges.http.call_log import log_refusal, name_call
from engrambus.edges.http.requests import header, read_body, read_query, read_text
from engrambus.edges.http.responses import Headers, StaticResponse
from engrambus.edges.http.sessions import (
    SESSION_SECONDS,
    SignInCodes,
    cookie,
    cookie_name,
    session_operations,
    session_token,
)
from engrambus.edges.page.actions import ACTIONS
from engrambus.edges.page.session import Address, PageSession
from engrambus.edges.page.view import PAGE_PARAMS, PageView, error_page, sign_in_page
from engrambus.errors import (
    ContentType,
    EngramBusError,
    FieldUnknown,
    OriginForbidden,
    RouteNotFound,
    TokenMissing,
    Unauthorized,
)
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway, hide_secrets_in

MAX_FORM_BYTES = 16 * 1024
MAX_FORM_FIELDS = 20
MAX_CODE_CHARS = 64
THEMES = ("dark", "light")
THEME_COOKIE = "engrambus-theme"
THEME_SECONDS = 365 * 24 * 3600

CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
STATIC_FILES = (
    "page.css",
    "page.js",
    "icon.svg",
    "vendor/htmx.min.js",
    "vendor/uplot.min.js",
    "vendor/uplot.min.css",
)

_SECURITY_HEADERS: Headers = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    # Without a referrer, browsers would send no Origin with the page's own forms.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]
_HTML_HEADERS: Headers = [
    (b"content-type", b"text/html; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"vary", b"HX-Target, Cookie"),
    (b"x-content-type-options", b"nosniff"),
    *_SECURITY_HEADERS,
]


def page_routes(gateway: Gateway, codes: SignInCodes) -> dict[str, dict[str, ASGIApp]]:
    """Return the endpoints of the page by path and method."""
    page = PageEndpoints(gateway, codes)
    routes: dict[str, dict[str, ASGIApp]] = {
        "/": {"GET": page.view},
        "/page/{panel}": {"GET": page.view},
        "/page/do/{action}": {"POST": page.run_action},
        "/page/open": {"POST": page.open_session},
        "/page/theme": {"POST": page.set_theme},
    }
    for path, (body, content_type) in static_files().items():
        routes[path] = {"GET": StaticResponse(body, content_type, _SECURITY_HEADERS)}
    return routes


def static_files() -> dict[str, tuple[bytes, str]]:
    """Return content and media type of each static file by its path on the server."""
    folder = resources.files("engrambus.edges.page") / "static"
    return {
        f"/static/{name}": (folder.joinpath(name).read_bytes(), CONTENT_TYPES[name[name.rindex(".") :]])
        for name in STATIC_FILES
    }


class PageEndpoints:
    """Serves the page to visitors with a session, and the sign-in page to all others."""

    # decision 16: the session's token is in a cookie that no script can read. Only the page and `/events` accept it;
    # operations accept a bearer token alone, so no other site can call them through a visitor's browser.

    def __init__(self, gateway: Gateway, codes: SignInCodes) -> None:
        self._gateway = gateway
        self._open_session, _ = session_operations(codes)

    async def view(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`GET /` and `GET /page/{panel}`: send a view, or the part of it that htmx asks for."""
        name_call(scope, "page")
        address = Address()
        try:
            address = Address(scope["path"], read_query(scope, PAGE_PARAMS))
            body = await to_thread.run_sync(partial(self._render, scope, address))
        except EngramBusError as refusal:
            await _send_refusal(scope, send, refusal, address)
        else:
            await _send_html(send, 200, body)

    async def run_action(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /page/do/{action}`: run a form's action, then send the changed part or redirect to the view."""
        name = scope["path_params"]["action"]
        name_call(scope, f"page.{name}")
        back = Address()
        try:
            if name not in ACTIONS:
                raise RouteNotFound
            form = await _read_form(scope, receive, ACTIONS[name].fields | {"back"})
            back = Address.parse(form.pop("back", "/"))
            status, body = await to_thread.run_sync(partial(self._run_action, scope, name, form, back))
        except EngramBusError as refusal:
            await _send_refusal(scope, send, refusal, back)
            return
        if status == 200 and not _target_id(scope):
            await _send_html(send, 303, "", [(b"location", str(back).encode())])
        else:
            await _send_html(send, status, body)

    async def open_session(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /page/open`: exchange the code of a link for a session cookie."""
        name_call(scope, "page.open")
        back = Address()
        try:
            form = await _read_form(scope, receive, frozenset({"code", "back"}))
            back = Address.parse(form.get("back", "/"))
            request = self._open_session.request(code=form.get("code", "").strip()[:MAX_CODE_CHARS])
            session = await to_thread.run_sync(self._gateway.call, self._open_session, request, LOCAL_ADMIN)
        except EngramBusError as refusal:
            await _send_refusal(scope, send, refusal, back)
            return
        # Lax and not Strict: a link to a view must open from a chat as well.
        value = f"{cookie_name(scope)}={session.token}; Path=/; HttpOnly; SameSite=Lax; Max-Age={SESSION_SECONDS}"
        await _send_html(send, 303, "", [(b"location", str(back).encode()), (b"set-cookie", value.encode())])

    async def set_theme(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /page/theme`: choose light or dark colours, or those of the system."""
        form = await _read_form(scope, receive, frozenset({"theme", "back"}))
        theme = form.get("theme", "")
        theme = theme if theme in THEMES else ""
        value = f"{THEME_COOKIE}={theme}; Path=/; SameSite=Lax; Max-Age={THEME_SECONDS}"
        back = str(Address.parse(form.get("back", "/")))
        await _send_html(send, 303, "", [(b"location", back.encode()), (b"set-cookie", value.encode())])

    def _render(self, scope: Scope, address: Address) -> str:
        view = PageView(self._session(scope, address), address, theme=_theme(scope))
        return _render_target(view, _target_id(scope))

    def _run_action(self, scope: Scope, name: str, form: dict[str, str], back: Address) -> tuple[int, str]:
        session = self._session(scope, back)
        notice = ""
        refusal: EngramBusError | None = None
        try:
            notice = ACTIONS[name](session, form)
        except EngramBusError as error:
            refusal = error
            log_refusal(scope, refusal)
        target_id = _target_id(scope)
        if refusal is None and target_id is None:
            return 200, ""  # a browser without scripts is redirected and loads the page itself
        view = PageView(
            session, back, theme=_theme(scope), notice=notice, refusal=refusal, sent=form if refusal else None
        )
        return refusal.status if refusal else 200, _render_target(view, target_id)

    def _session(self, scope: Scope, address: Address) -> PageSession:
        token = session_token(scope)
        if token is None:
            raise TokenMissing
        return PageSession(self._gateway, Credential(token=token), address.params.get("run"))


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
    """Return the id of the element that htmx replaces; None if the browser asks for a whole page."""
    target = (header(scope, b"hx-target") or b"").decode("latin-1")
    return target.partition("#")[2] or None


def _render_target(view: PageView, target_id: str | None) -> str:
    return (view.render_part(target_id) if target_id else None) or view.render()


def _theme(scope: Scope) -> str:
    theme = cookie(scope, THEME_COOKIE) or ""
    return theme if theme in THEMES else ""


async def _send_refusal(scope: Scope, send: Send, refusal: EngramBusError, address: Address) -> None:
    """Send an error page; a visitor without a session gets the sign-in page instead."""
    log_refusal(scope, hide_secrets_in(refusal))
    if not isinstance(refusal, Unauthorized):
        await _send_html(send, refusal.status, error_page(refusal, theme=_theme(scope)))
    elif _target_id(scope):
        await _send_html(send, 401, "", [(b"hx-redirect", b"/")])
    elif isinstance(refusal, TokenMissing):
        await _send_html(send, 200, sign_in_page(address, theme=_theme(scope)))
    else:
        await _send_html(send, 401, sign_in_page(address, refusal=refusal, theme=_theme(scope)))


async def _send_html(send: Send, status: int, text: str, extra_headers: Headers | None = None) -> None:
    body = text.encode()
    headers = [(b"content-length", str(len(body)).encode()), *_HTML_HEADERS, *(extra_headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
