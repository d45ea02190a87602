"""A model that follows a script, behind the address a client believes to be its vendor's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Lock, Thread
from typing import Any, NamedTuple, Protocol

_OURS = re.compile(r"mcp_+engrambus[_/]+(\w+)")
_NAME = re.compile(r"Your name there is (\S+);")


class ModelRequest(NamedTuple):
    """A request to the model, independent of the vendor's format."""

    prompt: str
    """All text it was given, except its own messages and tool results."""
    tools: tuple[str, ...]
    """Names of the tools it may call; `group/name` where the client groups them."""
    results: tuple[str, ...]
    """Results of its calls so far, in order."""
    messages: tuple[str, ...]
    """Its own messages so far, in order."""
    body: str
    """The whole request."""

    @property
    def ours(self) -> set[str]:
        """Our own names of our tools among those it may call."""
        return {matches[1] for tool in self.tools if (matches := _OURS.fullmatch(tool))}

    @property
    def agent_names(self) -> list[str]:
        """The distinct names that its prompt says are its own."""
        return list(dict.fromkeys(_NAME.findall(self.prompt)))

    @property
    def agent_name(self) -> str:
        """The only name that its prompt says is its own."""
        assert len(self.agent_names) == 1, f"expected one name, got {self.agent_names}"
        return self.agent_names[0]

    def tool(self, name: str) -> str:
        """Return the client's name of a tool."""
        fitting = [tool for tool in self.tools if re.fullmatch(rf"(?:.*[_/])?{name}", tool)]
        assert len(fitting) == 1, f"expected one tool called {name}, got {fitting} among {self.tools}"
        return fitting[0]


class Call(NamedTuple):
    """A tool the model calls."""

    tool: str
    arguments: dict[str, Any]


Answer = Call | str
Script = Callable[[ModelRequest], Answer]


class Dialect(Protocol):
    """How one vendor's clients ask their model, and are answered."""

    def read(self, path: str, body: Any) -> ModelRequest | None:
        """What the model is asked; nothing when the request is for something else, such as a count of tokens."""

    def write(self, answer: Answer, number: int) -> dict[str, Any]:
        """The answer, as one object."""

    def events(self, response: dict[str, Any]) -> list[dict[str, Any]]:
        """The events that say the same; a `type` in one is also its name."""

    def streams(self, path: str, body: Any) -> bool:
        """Whether the client wants events."""

    def aside(self) -> str:
        """What to say to a question beside the conversation: one for a title, or for which model to take."""


class Model:
    """The scripted model and what it was asked."""

    def __init__(self, dialect: Dialect, script: Script) -> None:
        self.dialect, self.script = dialect, script
        self.asked: list[ModelRequest] = []
        self.problems: list[str] = []
        """What nobody expected; the conversation was ended with it."""
        self.outside: list[str] = []
        """Where else the client wanted to go, and did not get: its proxy is us."""
        self._numbers, self._lock = count(1), Lock()

    def answer(self, path: str, data: bytes) -> tuple[str, bytes]:
        """The type and the bytes of the answer to a request."""
        body = json.loads(data)
        request = self.dialect.read(path, body)
        if request is None:
            return "application/json", b'{"input_tokens": 1, "totalTokens": 1}'
        response = self.dialect.write(
            self._think(request) if request.tools else self.dialect.aside(), next(self._numbers)
        )
        if not self.dialect.streams(path, body):
            return "application/json", json.dumps(response).encode()
        return "text/event-stream", b"".join(map(_event, self.dialect.events(response)))

    def _think(self, request: ModelRequest) -> Answer:
        with self._lock:
            self.asked.append(request)
        try:
            return self.script(request)
        except Exception as problem:
            self.stumble(problem)
            return "The script ends here."

    def stumble(self, problem: Exception) -> None:
        """Note a problem for the test: a thread of the server cannot fail it."""
        self.problems.append(f"{type(problem).__name__}: {problem}")


def _event(event: dict[str, Any]) -> bytes:
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


@contextmanager
def serving_model(model: Model) -> Iterator[str]:
    """The model on a free port of the loopback; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
            if not self._is_for_us():
                return
            try:
                kind, result = model.answer(self.path, data)
            except Exception as problem:
                model.stumble(problem)
                self._say("text/plain", b"Nobody expected this.", status=400)
            else:
                self._say(kind, result)

        def do_GET(self) -> None:
            if self._is_for_us():
                self._say("application/json", b'{"models": [], "data": []}')

        do_HEAD = do_GET

        def do_CONNECT(self) -> None:
            self._is_for_us()

        def _is_for_us(self) -> bool:
            if self.command != "CONNECT" and self.path.startswith("/"):
                return True
            model.outside.append(self.path)
            self._say("text/plain", b"There is no way out.", status=403)
            return False

        def _say(self, kind: str, data: bytes, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
