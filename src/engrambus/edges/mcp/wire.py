"""The protocol's messages: lines of JSON on standard input, the results of tool calls, and answers to refused messages.

Lines are read as strictly as bodies over HTTP before the protocol's library gets them.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, BinaryIO

import anyio
import msgspec
from anyio import from_thread, lowlevel
from mcp.shared.message import SessionMessage
from mcp.types import PARSE_ERROR, JSONRPCError, JSONRPCResponse

from engrambus.core import read_json
from engrambus.edges.mcp.answers import problem_text
from engrambus.errors import BodyTooLarge, EngramBusError
from engrambus.gateway import hide_secrets_in
from engrambus.visible_text import make_json_visible, make_visible

MAX_LINE_BYTES = 1024 * 1024

_ARGUMENTS = "params.arguments."
_TOOL_CALL = re.compile(
    rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15}|"[^"\\]{1,80}")\s*,\s*"method"\s*:\s*"tools/call"'
)


def take_stdin() -> BinaryIO:
    """Return standard input and replace it with /dev/null, so that no subprocess or library reads from it."""
    stdin = os.dup(sys.stdin.fileno())
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, sys.stdin.fileno())
    os.close(devnull)
    return os.fdopen(stdin, "rb")


def tool_result(value: dict[str, Any] | str, *, is_error: bool = False, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return the result of a tool call: an object as structured content and as text, prose as text only.

    `notes` are lines that stand before the answer, as texts of their own; with them there is no structured content.
    """
    # decision 15: clients that get structured content show a model nothing else, so prose must come without any.
    # decision 72: all of this is for a model, also answers that are hashed, whose programs get them unchanged
    if isinstance(value, str):
        text = make_visible(value)
    else:
        document = make_json_visible(msgspec.json.encode(value))
        value, text = msgspec.json.decode(document), document.decode()
    content = [{"type": "text", "text": shown} for shown in (*notes, text)]
    result: dict[str, Any] = {"content": content, "isError": is_error, "resultType": "complete"}
    if not isinstance(value, str) and not notes:
        result["structuredContent"] = value
    return result


class StdinLines:
    """An asynchronous iterator over the valid lines of standard input; invalid lines are answered with an error."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._sender, self._receiver = anyio.create_memory_object_stream[bytes]()
        self._is_reading = False
        self._output: Any = None
        self._has_output = anyio.Event()

    def answer_to(self, output: Any) -> None:
        """Set the stream for answers to invalid lines."""
        self._output = output
        self._has_output.set()

    async def __aenter__(self) -> StdinLines:
        return self

    async def __aexit__(self, *problem: object) -> None:
        # The reading thread must notice the closed stream while the event loop still exists.
        self._receiver.close()
        with anyio.CancelScope(shield=True):
            await lowlevel.checkpoint()

    def __aiter__(self) -> StdinLines:
        return self

    async def __anext__(self) -> str:
        while True:
            line = await self._next_line()
            try:
                if len(line) > MAX_LINE_BYTES:
                    raise BodyTooLarge(limit=MAX_LINE_BYTES)
                read_json(line, max_bytes=MAX_LINE_BYTES)
            except EngramBusError as refusal:
                if not line.isspace():
                    await self._refuse(line, refusal)
            else:
                return line.decode()

    async def _next_line(self) -> bytes:
        if not self._is_reading:
            self._is_reading = True
            # Nothing can interrupt a read of standard input; a daemon thread does not keep the process alive.
            threading.Thread(target=self._read_lines, args=(lowlevel.current_token(),), daemon=True).start()
        try:
            return await self._receiver.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    def _read_lines(self, loop: lowlevel.EventLoopToken) -> None:
        with suppress(anyio.RunFinishedError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while line := self._read_line():
                from_thread.run(self._sender.send, line, token=loop)
            from_thread.run(self._sender.aclose, token=loop)

    def _read_line(self) -> bytes:
        """Read a line; return only the beginning of one that is too long."""
        line = self._source.readline(MAX_LINE_BYTES + 1)
        part = line
        while len(line) > MAX_LINE_BYTES and part and not part.endswith(b"\n"):
            part = self._source.readline(MAX_LINE_BYTES)
        return line

    async def _refuse(self, line: bytes, refusal: EngramBusError) -> None:
        await self._has_output.wait()
        answer, is_tool_call = refusal_message(line, refusal)
        model = JSONRPCResponse if is_tool_call else JSONRPCError
        await self._output.send(SessionMessage(model.model_validate(answer)))


def refusal_message(text: bytes, refusal: EngramBusError) -> tuple[dict[str, Any], bool]:
    """Return the answer to a message that the protocol's library does not get, and whether it was a tool call.

    A tool call is answered with the problem as its result, because that is what a model reads.
    """
    call_id = _tool_call_id(text)
    if call_id is not None and refusal.field is not None:
        refusal.field = refusal.field.removeprefix(_ARGUMENTS)  # a model knows its arguments, not the protocol
    problem = hide_secrets_in(refusal).problem()
    if call_id is not None:
        return {"jsonrpc": "2.0", "id": call_id, "result": tool_result(problem_text(problem), is_error=True)}, True
    error = {"code": PARSE_ERROR, "message": refusal.title, "data": problem}
    return {"jsonrpc": "2.0", "id": None, "error": error}, False


def _tool_call_id(text: bytes) -> int | str | None:
    """Return the id of a tool call that may be invalid or cut off; None if the text is not recognised as one."""
    start = _TOOL_CALL.match(text)
    if start is not None:
        matched_id: int | str = json.loads(start.group(1))
        return matched_id
    if len(text) > MAX_LINE_BYTES:
        return None
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(message, dict) and message.get("method") == "tools/call":
        call_id = message.get("id")
        if type(call_id) is int or (isinstance(call_id, str) and call_id.isprintable()):
            return call_id
    return None
