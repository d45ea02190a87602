"""Lines of JSON on standard input, read as strictly as bodies over HTTP before the protocol sees them."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from contextlib import suppress
from typing import Any, BinaryIO

import anyio
import msgspec
from anyio import from_thread, lowlevel
from mcp.shared.message import SessionMessage
from mcp.types import PARSE_ERROR, JSONRPCError, JSONRPCResponse

from engrambus.core import read_json
from engrambus.errors import BodyTooLarge, EngramBusError

MAX_LINE = 1024 * 1024

_TOOL_CALL = re.compile(
    rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15}|"[^"\\]{1,80}")\s*,\s*"method"\s*:\s*"tools/call"'
)


def take_stdin() -> BinaryIO:
    """Standard input for ourselves alone: whatever we start or import reads nothing from it."""
    ours = os.dup(sys.stdin.fileno())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    return os.fdopen(ours, "rb")


def tell(value: dict[str, Any] | str, *, is_error: bool = False) -> dict[str, Any]:
    """The result of a tool call: an object as structure, and as text for clients that know only that; prose as text.

    Clients that know structure show a model nothing else, so prose must come without any.
    """
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    told: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": is_error, "resultType": "complete"}
    if not isinstance(value, str):
        told["structuredContent"] = value
    return told


class Lines:
    """The lines that may be handed on; those that may not are answered here, with the problem."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._sender, self._receiver = anyio.create_memory_object_stream[bytes]()
        self._reading = False
        self._out: Any = None
        self._has_out = anyio.Event()

    def answer_to(self, out: Any) -> None:
        """Where the answers to refused lines go."""
        self._out = out
        self._has_out.set()

    async def __aenter__(self) -> Lines:
        return self

    async def __aexit__(self, *problem: object) -> None:
        """Take no more lines; the thread that reads them is told before the loop it speaks to is gone."""
        self._receiver.close()
        with anyio.CancelScope(shield=True):
            await lowlevel.checkpoint()

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> str:
        while True:
            line = await self._next()
            try:
                if len(line) > MAX_LINE:
                    raise BodyTooLarge(limit=MAX_LINE)
                read_json(line, max_bytes=MAX_LINE)
            except EngramBusError as refusal:
                if not line.isspace():
                    await self._refuse(line, refusal)
            else:
                return line.decode()

    async def _next(self) -> bytes:
        if not self._reading:
            self._reading = True
            # Nothing can interrupt a read of standard input; a daemon lets the process end in the middle of one.
            threading.Thread(target=self._read_on, args=(lowlevel.current_token(),), daemon=True).start()
        try:
            return await self._receiver.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    def _read_on(self, loop: lowlevel.EventLoopToken) -> None:
        with suppress(anyio.RunFinishedError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while line := self._read():
                from_thread.run(self._sender.send, line, token=loop)
            from_thread.run(self._sender.aclose, token=loop)

    def _read(self) -> bytes:
        """The next line; of one that is too long, only as much as shows that."""
        line = self._source.readline(MAX_LINE + 1)
        rest = line
        while len(line) > MAX_LINE and rest and not rest.endswith(b"\n"):
            rest = self._source.readline(MAX_LINE)
        return line

    async def _refuse(self, line: bytes, refusal: EngramBusError) -> None:
        await self._has_out.wait()
        answer, is_call = refused(line, refusal)
        model = JSONRPCResponse if is_call else JSONRPCError
        await self._out.send(SessionMessage(model.model_validate(answer)))


def refused(text: bytes, refusal: EngramBusError) -> tuple[dict[str, Any], bool]:
    """What is answered to something the protocol is not shown, and whether it was a tool call, if one can tell.

    A call is answered with the problem as its result, which is what a model reads.
    """
    problem = refusal.problem()
    call = _call_id(text)
    if call is not None:
        return {"jsonrpc": "2.0", "id": call, "result": tell(problem, is_error=True)}, True
    error = {"code": PARSE_ERROR, "message": refusal.title, "data": problem}
    return {"jsonrpc": "2.0", "id": None, "error": error}, False


def _call_id(line: bytes) -> int | str | None:
    """The id of a refused tool call, as far as it can be told."""
    opening = _TOOL_CALL.match(line)
    if opening is not None:
        found: int | str = json.loads(opening.group(1))
        return found
    if len(line) > MAX_LINE:
        return None
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(said, dict) and said.get("method") == "tools/call":
        given = said.get("id")
        if type(given) is int or (isinstance(given, str) and given.isprintable()):
            return given
    return None
