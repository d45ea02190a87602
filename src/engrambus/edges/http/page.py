"""The page on HTTP: who may see it, which part is asked for, and what a form does.

A browser keeps the session's token in a cookie that no script can read. Only the page and `/events` take it; the
operations of the bus take a bearer token alone, so no other site can use them through a browser.
"""

from __future__ import annotations

from functools import partial
from urllib.parse import parse_qsl

from anyio import to_thread
from starlette.types import Receive, Scope, Send

from engrambus.edges.http.answers import Headers
from engrambus.edges.http.refusals import call_named, log_refusal
from engrambus.edges.http.requests import header, read_body, read_query, read_text
from engrambus.edges.http.sessions import SESSION_SECONDS, Codes, cookie, cookie_name, session_operations, session_token
from engrambus.edges.page import ACTIONS, KNOWN, Address, Desk, Page, locked_page, refused_page
from engrambus.errors import (
    ContentType,
    EngramBusError,
    FieldUnknown,
    OriginForbidden,
    RouteNotFound,
    TokenMissing,
    Unauthorized,
)
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway

FORM_LIMIT = 16 * 1024
THEMES = ("dark", "light")
THEME = "engrambus-theme"

PAGE_HEADERS: Headers = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    # Without a referrer of our own, browsers would not say which page a form was on.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]
_HTML: Headers = [
    (b"content-type", b"text/html; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"vary", b"HX-Target, Cookie"),
    (b"x-content-type-options", b"nosniff"),
    *PAGE_HEADERS,
]


class PageDoor:
    """Serves the page to whoever has a session, and the way to one to everybody else."""

    def __init__(self, gateway: Gateway, codes: Codes) -> None:
        self._gateway = gateway
        self._open_session, _ = session_operations(codes)

    async def view(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`GET /` and `GET /page/{panel}`."""
        call_named(scope, "page")
        address = Address()
        try:
            address = Address(scope["path"], read_query(scope, KNOWN))
            body = await to_thread.run_sync(partial(self._shown, scope, address))
        except EngramBusError as refusal:
            await _refuse(scope, send, refusal, address)
        else:
            await _send(send, 200, body)

    async def act(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /page/do/{action}`: do it, then show the part of the page it was done on, or go back to it."""
        name = scope["path_params"]["action"]
        call_named(scope, f"page.{name}")
        back = Address()
        try:
            if name not in ACTIONS:
                raise RouteNotFound
            form = await _read_form(scope, receive, ACTIONS[name].fields | {"back"})
            back = Address.read(form.pop("back", "/"))
            status, body = await to_thread.run_sync(partial(self._done, scope, name, form, back))
        except EngramBusError as refusal:
            await _refuse(scope, send, refusal, back)
            return
        if status == 200 and not _part(scope):
            await _send(send, 303, "", [(b"location", str(back).encode())])
        else:
            await _send(send, status, body)

    async def enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /page/open`: exchange the code of a link for a session."""
        call_named(scope, "page.open")
        back = Address()
        try:
            form = await _read_form(scope, receive, frozenset({"code", "back"}))
            back = Address.read(form.get("back", "/"))
            request = self._open_session.request(code=form.get("code", "").strip()[:64])
            session = await to_thread.run_sync(self._gateway.call, self._open_session, request, LOCAL_ADMIN)
        except EngramBusError as refusal:
            await _refuse(scope, send, refusal, back)
            return
        kept = f"{cookie_name(scope)}={session.token}; Path=/; HttpOnly; SameSite=Lax; Max-Age={SESSION_SECONDS}"
        await _send(send, 303, "", [(b"location", str(back).encode()), (b"set-cookie", kept.encode())])

    async def theme(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /page/theme`: light, dark, or as the machine is."""
        form = await _read_form(scope, receive, frozenset({"theme", "back"}))
        theme = form.get("theme", "")
        kept = f"{THEME}={theme if theme in THEMES else ''}; Path=/; SameSite=Lax; Max-Age=31536000"
        back = str(Address.read(form.get("back", "/")))
        await _send(send, 303, "", [(b"location", back.encode()), (b"set-cookie", kept.encode())])

    def _shown(self, scope: Scope, address: Address) -> str:
        page = Page(self._desk(scope, address), address, theme=_theme(scope))
        part = _part(scope)
        return (page.part(part) if part else None) or page.whole()

    def _done(self, scope: Scope, name: str, form: dict[str, str], back: Address) -> tuple[int, str]:
        desk = self._desk(scope, back)
        notice = ""
        refusal: EngramBusError | None = None
        try:
            notice = ACTIONS[name](desk, form)
        except EngramBusError as problem:
            refusal = problem
        if refusal is not None:
            log_refusal(scope, refusal)
        page = Page(desk, back, theme=_theme(scope), notice=notice, refusal=refusal)
        part = _part(scope)
        if refusal is None and part is None:
            return 200, ""  # whoever sent it goes back to where they were
        return refusal.status if refusal else 200, (page.part(part) if part else None) or page.whole()

    def _desk(self, scope: Scope, address: Address) -> Desk:
        token = session_token(scope)
        if token is None:
            raise TokenMissing
        return Desk(self._gateway, Credential(token=token), address.params.get("run"))


async def _read_form(scope: Scope, receive: Receive, fields: frozenset[str]) -> dict[str, str]:
    """The fields of a form that was sent from our own page; empty ones are left out."""
    if header(scope, b"origin") is None:  # one that is foreign has been refused already
        raise OriginForbidden(field="Origin")
    given = (header(scope, b"content-type") or b"").decode("latin-1")
    if given.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise ContentType(field="Content-Type", limit="application/x-www-form-urlencoded", used=given[:80])
    form = dict(parse_qsl(read_text(await read_body(scope, receive, FORM_LIMIT)), max_num_fields=20))
    for unknown in sorted(form.keys() - fields):
        raise FieldUnknown(f"The field '{unknown[:80]}' is not known here.", field=unknown[:120])
    return form


def _part(scope: Scope) -> str | None:
    """The id of the element a script wants to replace; none when it is a whole page that is wanted."""
    target = (header(scope, b"hx-target") or b"").decode("latin-1")
    return target.partition("#")[2] or None


def _theme(scope: Scope) -> str:
    theme = cookie(scope, THEME) or ""
    return theme if theme in THEMES else ""


async def _refuse(scope: Scope, send: Send, refusal: EngramBusError, address: Address) -> None:
    """Show a refusal: whoever has no session is shown the way to one, and by it to the address."""
    log_refusal(scope, refusal)
    if isinstance(refusal, Unauthorized):
        told = None if isinstance(refusal, TokenMissing) else refusal
        if _part(scope):
            await _send(send, 401, "", [(b"hx-redirect", b"/")])
        else:
            door = locked_page(address, refusal=told, theme=_theme(scope))
            await _send(send, 200 if told is None else 401, door)
    else:
        await _send(send, refusal.status, refused_page(refusal, theme=_theme(scope)))


async def _send(send: Send, status: int, text: str, more: Headers | None = None) -> None:
    body = text.encode()
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *_HTML, *(more or [])]})
    await send({"type": "http.response.body", "body": body})
