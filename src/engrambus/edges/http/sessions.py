"""Sessions of the page: a code that works once is exchanged for a token.

The code is in the fragment of a link, which browsers do not send to servers. A person who can read the terminal can
open the page with it; a second visitor with the same link cannot.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.types import Scope

from engrambus.core import SECOND_US, digest, print_time
from engrambus.edges.http.requests import header
from engrambus.errors import CodeInvalid
from engrambus.gateway import Operation, Route
from engrambus.gateway.context import Context
from engrambus.policy import ADMIN, TokenClaims

CODE_SECONDS = 600
SESSION_SECONDS = 12 * 3600
MAX_CODES = 64


class SignInCodes:
    """Unused codes of this server process."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._expiries: dict[str, float] = {}
        """Expiry by the code's digest: the codes themselves are not stored."""

    def new(self) -> str:
        """Return a code that works once within the next ten minutes."""
        now = self._now()
        valid = [(key, expiry) for key, expiry in list(self._expiries.items()) if expiry > now]
        code = secrets.token_urlsafe(24)
        self._expiries = dict(valid[-MAX_CODES + 1 :]) | {_key(code): now + CODE_SECONDS}
        return code

    def use(self, code: str) -> None:
        """Use up a code; raise CodeInvalid if it was used, has expired or is unknown."""
        expiry = self._expiries.pop(_key(code), None)
        if expiry is None or expiry <= self._now():
            raise CodeInvalid(field="code", hint="Get a new link: engrambus up.")


def _key(code: str) -> str:
    return digest(code.encode())


def cookie_name(scope: Scope) -> str:
    """Return the name of the session's cookie, which holds the port."""
    # decision 16: browsers share the cookies of a host between its ports; two projects must not overwrite each other's.
    return f"engrambus-{scope['server'][1]}"


def session_token(scope: Scope) -> str | None:
    """Return the token in the session's cookie."""
    return cookie(scope, cookie_name(scope))


def cookie(scope: Scope, name: str) -> str | None:
    """Return the value of a cookie."""
    for part in (header(scope, b"cookie") or b"").decode("latin-1").split(";"):
        cookie_name, equals, value = part.strip().partition("=")
        if equals and cookie_name == name:
            return value
    return None


class OpenSession(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    code: Annotated[str, Meta(max_length=64, description="The code from the link that `engrambus up` printed")]


class SessionAnswer(Struct, frozen=True, kw_only=True):
    token: str
    run_id: str
    expires_at: str


class NewCode(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class CodeAnswer(Struct, frozen=True, kw_only=True):
    code: str
    expires_in: int
    """Seconds until the code expires."""


def session_operations(codes: SignInCodes) -> tuple[Operation[Any, Any], Operation[Any, Any]]:
    """Return the page's two operations: exchange a code for a session, and make a new code."""

    def open_session(context: Context, request: OpenSession) -> SessionAnswer:
        codes.use(request.code)
        expires_us = context.as_of + SESSION_SECONDS * SECOND_US
        run_id = context.caller.run.run_id
        claims = TokenClaims(
            agent=ADMIN, role=ADMIN, parent=None, project=context.caller.project, run=run_id, expires_us=expires_us
        )
        return SessionAnswer(token=context.key.sign(claims), run_id=run_id, expires_at=print_time(expires_us))

    def new_code(context: Context, request: NewCode) -> CodeAnswer:
        return CodeAnswer(code=codes.new(), expires_in=CODE_SECONDS)

    return (
        _declare(
            open_session, "session.open", "/session", OpenSession, SessionAnswer, "Exchange a code for a session."
        ),
        _declare(new_code, "session.code", "/session/code", NewCode, CodeAnswer, "Make another code for the page."),
    )


def _declare(
    run: Callable[..., Any], title: str, path: str, request: type[Struct], response: type[Struct], summary: str
) -> Operation[Any, Any]:
    return Operation(
        name=run.__name__,
        title=title,
        summary=summary,
        request=request,
        response=response,
        roles=frozenset({ADMIN}),
        run=run,
        writes=False,
        route=Route("POST", path),
        command=None,
        tool=None,
        absent_from=dict.fromkeys(("mcp", "cli", "client"), "the page is opened in a browser"),
    )
