"""The process `engrambus hook`: loads as little as possible, and lets a running gateway answer where there is one."""

from __future__ import annotations

import json
import os
import sys
import time

from engrambus.edges.integrations.tool_call_hook import answer_tool_call, calls_our_tool

TIME_LIMIT_SECONDS = 4.0
"""Time for the whole answer; clients kill a hook after five seconds (decision 31)."""


def main() -> int:
    """Answer the event on stdin; return the exit status."""
    data = sys.stdin.buffer.read()
    call = calls_our_tool(data)
    if call is None:
        return _answer_event(data)
    try:
        answer = answer_tool_call(call, os.environ)
    except Exception as problem:  # whatever it is: the call goes on as it is, and is the lead's
        os.write(2, f"engrambus hook: {getattr(problem, 'code', type(problem).__name__)}\n".encode())
        answer = {}
    # Escaped, so that half of a surrogate pair in a text goes back as it came.
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    return 0


def _answer_event(data: bytes) -> int:
    began = time.monotonic()
    from engrambus.edges.integrations.hook_client import ask_gateway

    try:
        reply = ask_gateway(data, os.environ, TIME_LIMIT_SECONDS)
    except TimeoutError:
        from engrambus.edges.integrations.client_hook import answer_too_late

        return answer_too_late(data)
    if reply is None:
        from engrambus.edges.integrations.client_hook import answer_client

        return answer_client(data, TIME_LIMIT_SECONDS - (time.monotonic() - began))
    if reply.problems:
        os.write(2, reply.problems.encode())
    sys.stdout.buffer.write(reply.output.encode())
    sys.stdout.flush()
    return reply.status
