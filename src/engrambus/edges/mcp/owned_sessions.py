"""Sessions of older MCP clients: how many each agent has, and which of them ends when it opens one more."""

from __future__ import annotations

from collections import Counter
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engrambus.errors import TooManySessions

SESSION_HEADER = b"mcp-session-id"
VERSION_HEADER = b"mcp-protocol-version"
INITIALIZE = "POST"


class OwnedSessions:
    """The open sessions by agent, each in the order of its last request."""

    # decision 74: an agent that forgets its sessions loses its own oldest one, and nobody else waits for it.

    def __init__(self, max_per_agent: int) -> None:
        self._max_per_agent = max_per_agent
        self._sessions: dict[str, dict[str, None]] = {}
        """Ids of the sessions by agent, the one used last at the end."""
        self._in_use: Counter[str] = Counter()

    async def handle(self, owner: str, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an agent's request on; before it opens a session too many, end the agent's oldest idle one."""
        session = _header(scope["headers"], SESSION_HEADER)
        if session is None:
            await self._make_room(owner, app, scope)
        else:
            self._in_use[session] += 1

        async def send_and_note(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note(owner, session, scope["method"], message)
            await send(message)

        try:
            await app(scope, receive, send_and_note)
        finally:
            if session is not None:
                self._in_use[session] -= 1
                if not self._in_use[session]:
                    del self._in_use[session]

    def _note(self, owner: str, session: str | None, method: str, start: Message) -> None:
        own = self._sessions.setdefault(owner, {})
        opened = _header(start["headers"], SESSION_HEADER) if session is None else None
        if opened is not None and start["status"] < 400:
            own[opened] = None
        elif session in own:
            del own[session]
            if start["status"] != 404 and method != "DELETE":
                own[session] = None
        if not own:
            del self._sessions[owner]

    async def _make_room(self, owner: str, app: ASGIApp, scope: Scope) -> None:
        own = self._sessions.get(owner, {})
        if len(own) < self._max_per_agent or scope["method"] != INITIALIZE:
            return
        oldest = next((session for session in own if session not in self._in_use), None)
        if oldest is None:
            raise TooManySessions(
                f"'{owner}' has {len(own)} sessions in use.", limit=self._max_per_agent, hint="End one of them first."
            )
        del own[oldest]
        kept = [(name, value) for name, value in scope["headers"] if name not in (b"content-length", VERSION_HEADER)]
        ending = {**scope, "method": "DELETE", "headers": [*kept, (SESSION_HEADER, oldest.encode())]}
        await app(ending, _no_body, _ignore)


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _ignore(message: Message) -> None:
    pass


def _header(headers: Any, name: bytes) -> str | None:
    value = next((value for header, value in headers if header == name), None)
    return None if value is None else value.decode("latin-1")
