"""Sessions of the page: a code that works once is exchanged for a secret that only the page's addresses accept.

The code is in the fragment of a link, which browsers do not send to servers. A person who can read the terminal can
open the page with it; a second visitor with the same link cannot.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hmac import compare_digest
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.types import Scope

from engrambus.core import SECOND_US, digest, print_time
from engrambus.edges.http.requests import header
from engrambus.errors import CodeInvalid, FieldMissing, SessionInvalid, SessionNotFound
from engrambus.gateway import Operation, Route
from engrambus.gateway.context import Context
from engrambus.policy import ADMIN, TokenClaims

SESSION_HEADER = "Engrambus-Session"
"""The header that carries the secret of a session."""
CODE_SECONDS = 600
SESSION_SECONDS = 12 * 3600
MAX_CODES = 64
MAX_SESSIONS = 64
MAX_GUESSES = 5
"""Wrong endings after which a code is void."""
NAME_CHARS = 8
"""Characters at the beginning of a code that name it; the rest is secret."""

_NEW_LINK = "Get a new link: engrambus up."


def elapsed_seconds() -> float:
    """Return seconds that also pass while the machine is suspended, where the system counts them."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class _Code(Struct):
    """A code that was not used yet."""

    key: str
    """Its digest: the code itself is not stored."""
    expires: float
    claims: TokenClaims | None = None
    """What the token says that asked for it; None for the account that runs the server."""
    guesses: int = 0


class SignInCodes:
    """Unused codes of this server process."""

    # decision 64: a code is void after a few wrong endings. Wrong codes with another beginning count against none, so
    # that nobody can keep the owner out by sending many.

    def __init__(self, now: Callable[[], float] = elapsed_seconds) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._codes: dict[str, _Code] = {}

    def new(self, claims: TokenClaims | None = None) -> str:
        """Return a code that works once within the next ten minutes, for the account or the bearer of a token."""
        name, secret = secrets.token_urlsafe(6), secrets.token_urlsafe(24)
        with self._lock:
            now = self._now()
            valid = [(name, code) for name, code in self._codes.items() if code.expires > now]
            self._codes = dict(valid[-MAX_CODES + 1 :])
            self._codes[name] = _Code(digest((name + secret).encode()), now + CODE_SECONDS, claims)
        return name + secret

    def use(self, text: str) -> TokenClaims | None:
        """Use up a code and return whose it is; raise CodeInvalid if it was used, has expired or is unknown."""
        name = text[:NAME_CHARS]
        with self._lock:
            code = self._codes.get(name)
            if code is not None and code.expires > self._now():
                if compare_digest(code.key, digest(text.encode())):
                    del self._codes[name]
                    return code.claims
                code.guesses += 1
                if code.guesses >= MAX_GUESSES:
                    del self._codes[name]
        raise CodeInvalid(field="code", hint=_NEW_LINK)


class BrowserSession(Struct):
    """One browser that is signed in to the page."""

    id: str
    """Names it in lists and for counting; no secret."""
    opened: float
    used: float
    expires: float
    on_end: set[Callable[[], None]]
    """What is called when it ends: open streams end with it."""
    claims: TokenClaims | None = None
    """What the token says with which its code was made: it ends with that token."""


class BrowserSessions:
    """The sessions of this server process, by the digest of their secret. They are in memory only, and end with it."""

    # decision 64: a session is no token. The page's addresses and `/events` accept it as the admin, nothing else does.

    def __init__(
        self,
        now: Callable[[], float] = elapsed_seconds,
        is_good: Callable[[TokenClaims], bool] = lambda claims: True,
    ) -> None:
        """`is_good` says whether a token still stands for an administrator."""
        self._now = now
        self._is_good = is_good
        self._lock = threading.Lock()
        self._sessions: dict[str, BrowserSession] = {}

    def open(self, lifetime_seconds: int = SESSION_SECONDS, claims: TokenClaims | None = None) -> str:
        """Open a session and return its secret; beyond the limit, the session that was idle longest ends."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            live = self._drop_expired()
            idle = sorted(live, key=lambda session: session.used)[: max(0, len(live) - MAX_SESSIONS + 1)]
            now = self._now()
            session = BrowserSession(secrets.token_hex(4), now, now, now + lifetime_seconds, set(), claims)
            self._sessions[digest(secret.encode())] = session
        for session in idle:
            self.end(session.id)
        return secret

    def check(self, secret: str) -> BrowserSession:
        """Return the session with this secret; raise SessionInvalid if it has ended or never began."""
        with self._lock:
            session = self._sessions.get(digest(secret.encode()))
            now = self._now()
            if session is None or session.expires <= now:
                raise SessionInvalid(field=SESSION_HEADER, hint=_NEW_LINK)
            session.used = now
        if session.claims is not None and not self._is_good(session.claims):
            self.end(session.id)
            raise SessionInvalid(field=SESSION_HEADER, hint=_NEW_LINK)
        return session

    def is_open(self, session: BrowserSession) -> bool:
        """True if a session has neither ended nor expired."""
        with self._lock:
            is_open = session.expires > self._now()
        return is_open and (session.claims is None or self._is_good(session.claims))

    def newest_first(self) -> list[BrowserSession]:
        """Return the open sessions."""
        with self._lock:
            return sorted(self._drop_expired(), key=lambda session: session.opened, reverse=True)

    def end(self, session_id: str | None = None) -> int:
        """End a session, or all of them, with their open streams; return how many have ended."""
        with self._lock:
            ended = [key for key, row in self._sessions.items() if session_id in (None, row.id)]
            sessions = [self._sessions.pop(key) for key in ended]
            for session in sessions:
                session.expires = self._now()
            callbacks = [callback for session in sessions for callback in session.on_end]
        for callback in callbacks:
            callback()
        return len(sessions)

    @contextmanager
    def calling_on_end(self, session: BrowserSession, callback: Callable[[], None]) -> Iterator[None]:
        """Call a function when the session ends, from any thread; at once if it has ended already."""
        with self._lock:
            session.on_end.add(callback)
            has_ended = session.expires <= self._now()
        if has_ended:
            callback()
        try:
            yield
        finally:
            with self._lock:
                session.on_end.discard(callback)

    def row(self, session: BrowserSession, as_of_us: int) -> SessionRow:
        """Return a session as it is listed, with times of the project's clock."""
        now = self._now()

        def at(moment: float) -> str:
            return print_time(as_of_us + int((moment - now) * SECOND_US))

        return SessionRow(
            id=session.id, opened_at=at(session.opened), used_at=at(session.used), expires_at=at(session.expires)
        )

    def _drop_expired(self) -> list[BrowserSession]:
        now = self._now()
        self._sessions = {key: session for key, session in self._sessions.items() if session.expires > now}
        return list(self._sessions.values())


def session_secret(scope: Scope) -> str | None:
    """Return the secret that a request carries in its session header; None without that header."""
    value = header(scope, SESSION_HEADER.lower().encode())
    return None if value is None else value.decode("latin-1").strip()


class NewCode(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class CodeAnswer(Struct, frozen=True, kw_only=True):
    code: str
    expires_in: int
    """Seconds until the code expires."""


class ListSessions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class SessionRow(Struct, frozen=True, kw_only=True):
    id: str
    opened_at: str
    used_at: str
    expires_at: str


class SessionList(Struct, frozen=True, kw_only=True):
    sessions: list[SessionRow]
    """Newest first."""
    as_of: str


class EndSession(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str | None, Meta(description="The session to end, as `session.list` shows it")] = None
    all: Annotated[bool, Meta(description="End all sessions")] = False


class EndedSessions(Struct, frozen=True, kw_only=True):
    ended: int


class SessionOperations(Struct, frozen=True):
    """The operations of this server process on its codes and sessions."""

    new_code: Operation[Any, Any]
    list_sessions: Operation[Any, Any]
    end_session: Operation[Any, Any]


def session_operations(codes: SignInCodes, sessions: BrowserSessions) -> SessionOperations:
    """Return the operations on the codes and sessions of a server: a client declares them with empty ones."""

    def new_code(context: Context, request: NewCode) -> CodeAnswer:
        token = context.caller.token
        # decision 120: a token without an id is of a command of the account that runs the server
        claims = token if token is not None and token.id is not None else None
        return CodeAnswer(code=codes.new(claims), expires_in=CODE_SECONDS)

    def list_sessions(context: Context, request: ListSessions) -> SessionList:
        rows = [sessions.row(session, context.as_of) for session in sessions.newest_first()]
        return SessionList(sessions=rows, as_of=print_time(context.as_of))

    def end_session(context: Context, request: EndSession) -> EndedSessions:
        if request.id is None and not request.all:
            raise FieldMissing("Name a session, or end all.", field="id", hint="`session.list` shows their ids.")
        ended = sessions.end(None if request.all else request.id)
        if not ended and not request.all:
            raise SessionNotFound(field="id", hint="`session.list` shows the open ones.")
        return EndedSessions(ended=ended)

    code, listing, end = ("POST", "/session/code"), ("GET", "/session"), ("POST", "/session/end")
    return SessionOperations(
        _declare(new_code, "session.code", code, NewCode, CodeAnswer, "Make another code for the page."),
        _declare(list_sessions, "session.list", listing, ListSessions, SessionList, "List the page's open sessions."),
        _declare(end_session, "session.end", end, EndSession, EndedSessions, "End a session of the page, or all."),
    )


def _declare(
    run: Callable[..., Any],
    title: str,
    route: tuple[Any, str],
    request: type[Struct],
    response: type[Struct],
    summary: str,
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
        route=Route(*route),
        command=None,
        tool=None,
        absent_from={
            "mcp": "sessions belong to people with a browser",
            "cli": "`session list` and `session end` ask the running server",
            "client": "sessions belong to people with a browser",
        },
    )
