"""Letting the person at the machine into the page: a code, good for one use, is exchanged for a token.

The code travels in the fragment of a link, which browsers send to no server; whoever can read the terminal can open
the page, and nobody after them with the same link.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.types import Scope

from engrambus.core import SECOND, digest, print_time
from engrambus.edges.http.requests import header
from engrambus.errors import CodeInvalid
from engrambus.gateway import Operation, Route
from engrambus.gateway.context import Context
from engrambus.policy import ADMIN, Claims

CODE_SECONDS = 600
SESSION_SECONDS = 12 * 3600
MAX_CODES = 64


class Codes:
    """Codes that were given and not used yet; they live as long as the server."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._ends: dict[str, float] = {}

    def new(self) -> str:
        """A code that works once within the next ten minutes."""
        now = self._now()
        live = [(name, end) for name, end in list(self._ends.items()) if end > now]
        code = secrets.token_urlsafe(24)
        self._ends = dict(live[-MAX_CODES + 1 :]) | {_name(code): now + CODE_SECONDS}
        return code

    def use(self, code: str) -> None:
        """Use a code up, or refuse it."""
        end = self._ends.pop(_name(code), None)
        if end is None or end <= self._now():
            raise CodeInvalid(field="code", hint="Get a fresh link: engrambus up.")


def _name(code: str) -> str:
    return digest(code.encode())


def cookie_name(scope: Scope) -> str:
    """What a browser keeps the session under; browsers do not tell ports apart, so the name does."""
    return f"engrambus-{scope['server'][1]}"


def session_token(scope: Scope) -> str | None:
    """The token of a browser's session."""
    return cookie(scope, cookie_name(scope))


def cookie(scope: Scope, name: str) -> str | None:
    """The value of a cookie."""
    for part in (header(scope, b"cookie") or b"").decode("latin-1").split(";"):
        given, equals, value = part.strip().partition("=")
        if equals and given == name:
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
    """How many seconds it can be used for."""


def session_operations(codes: Codes) -> tuple[Operation[Any, Any], Operation[Any, Any]]:
    """The page's own two operations: exchanging a code, for anyone who has one, and making one, for admins."""

    def open_session(context: Context, request: OpenSession) -> SessionAnswer:
        codes.use(request.code)
        expires_at = context.as_of + SESSION_SECONDS * SECOND
        run_id = context.caller.run.run_id
        claims = Claims(
            agent=ADMIN, role=ADMIN, parent=None, project=context.caller.project, run=run_id, expires_at=expires_at
        )
        return SessionAnswer(token=context.key.sign(claims), run_id=run_id, expires_at=print_time(expires_at))

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
