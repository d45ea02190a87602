"""The log of `engrambus up --log json`: one JSON object a line for every event, call and refusal, never content."""

from __future__ import annotations

import json
import logging
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engrambus.core import SECOND, print_time
from engrambus.errors import EngramBusError
from engrambus.gateway import Call, Gateway
from engrambus.gateway.events import Follower

ROOT = "engrambus"
JOIN_SECONDS = 5.0
"""How long the end waits for a stderr that nobody reads."""
events = logging.getLogger(f"{ROOT}.events")
calls = logging.getLogger(f"{ROOT}.calls")


class JsonFormatter(logging.Formatter):
    """A record as one line of ASCII: nothing that was sent can begin a line of its own or reach a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        told: dict[str, Any] = {
            "logged": print_time(int(record.created * SECOND)),
            "level": record.levelname.lower(),
            "log": record.name,
            "message": record.getMessage(),
        }
        told |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            told["error"] = record.exc_info[0].__name__  # not its text, which may quote what was sent
            told["trace"] = [f"{each.filename}:{each.lineno}" for each in traceback.extract_tb(record.exc_info[2])]
        return json.dumps(told, ensure_ascii=True)


@contextmanager
def logging_events(gateway: Gateway) -> Iterator[None]:
    """Log to stderr, for a while, what happens in a project."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger(ROOT)
    level, propagate = root.level, root.propagate
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    root.propagate = False
    woken, ended = threading.Event(), threading.Event()
    follower = gateway.event_log.follow(None, matches=lambda event: True, wake=woken.set)
    writer = threading.Thread(target=_write, args=(follower, woken, ended), name="log", daemon=True)
    writer.start()
    leave = gateway.watch_calls(_log_call)
    try:
        yield
    finally:
        leave()
        ended.set()
        woken.set()
        writer.join(JOIN_SECONDS)
        follower.close()
        root.removeHandler(handler)
        root.setLevel(level)
        root.propagate = propagate


def _log_call(call: Call) -> None:
    """A line for a call that was answered; one that was refused has its line from whoever told the caller so."""
    if call.code is None:
        told: dict[str, Any] = {"operation": call.operation.name, "microseconds": call.took_ns // 1000}
        if call.caller is not None:
            told["agent"] = call.caller.full_name
        calls.info("answered", extra={"fields": told})


def _write(follower: Follower, woken: threading.Event, ended: threading.Event) -> None:
    last = False
    while not last:
        woken.wait()
        woken.clear()
        last = ended.is_set()  # what happened until then is still written
        more = True
        while more:
            try:
                told, more = follower.read()
            except EngramBusError:
                break  # callers are told what is wrong; the log goes on when there is more
            for event in told:
                events.info(event.type, extra={"fields": event.to_wire()})
