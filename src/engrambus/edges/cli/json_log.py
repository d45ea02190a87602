"""The log of `engrambus up --log json`: one JSON object a line for every event, call and error, never content."""

from __future__ import annotations

import json
import logging
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engrambus.core import SECOND_US, print_time
from engrambus.errors import EngramBusError
from engrambus.gateway import Call, Gateway
from engrambus.gateway.events import Follower

ROOT = "engrambus"
JOIN_SECONDS = 5.0
"""How long the end waits for a stderr that is not read."""
events = logging.getLogger(f"{ROOT}.events")
calls = logging.getLogger(f"{ROOT}.calls")


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of ASCII, so that no sent text can begin a line or control a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        fields: dict[str, Any] = {
            "logged": print_time(int(record.created * SECOND_US)),
            "level": record.levelname.lower(),
            "log": record.name,
            "message": record.getMessage(),
        }
        fields |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            fields["error"] = record.exc_info[0].__name__  # not its text, which may quote what was sent
            frames = traceback.extract_tb(record.exc_info[2])
            fields["trace"] = [f"{frame.filename}:{frame.lineno}" for frame in frames]
        return json.dumps(fields, ensure_ascii=True)


@contextmanager
def log_to_stderr(gateway: Gateway) -> Iterator[None]:
    """Log a project's events and calls to stderr until the block ends."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger(ROOT)
    level, propagate = root.level, root.propagate
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    root.propagate = False
    wakeup, ended = threading.Event(), threading.Event()
    follower = gateway.event_log.follow(None, matches=lambda event: True, wake=wakeup.set)
    writer = threading.Thread(target=_write, args=(follower, wakeup, ended), name="log", daemon=True)
    writer.start()
    unwatch = gateway.watch_calls(_log_call)
    try:
        yield
    finally:
        unwatch()
        ended.set()
        wakeup.set()
        writer.join(JOIN_SECONDS)
        follower.close()
        root.removeHandler(handler)
        root.setLevel(level)
        root.propagate = propagate


def _log_call(call: Call) -> None:
    """Log a call that was answered; a refused call is logged by the edge that sent the error."""
    if call.code is None:
        fields: dict[str, Any] = {"operation": call.operation.name, "microseconds": call.took_ns // 1000}
        if call.caller is not None:
            fields["agent"] = call.caller.full_name
        calls.info("answered", extra={"fields": fields})


def _write(follower: Follower, wakeup: threading.Event, ended: threading.Event) -> None:
    is_last = False
    while not is_last:
        wakeup.wait()
        wakeup.clear()
        is_last = ended.is_set()  # events up to this moment are still written
        more = True
        while more:
            try:
                batch, more = follower.read()
            except EngramBusError:
                break  # callers get the error; the log continues with the next event
            for event in batch:
                events.info(event.type, extra={"fields": event.to_wire()})
