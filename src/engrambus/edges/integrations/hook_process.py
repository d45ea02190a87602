"""The process `engrambus hook`: answers a tool call with as little as possible, other events through `client_hook`."""

from __future__ import annotations

import json
import os
import sys

from engrambus.edges.integrations.tool_call_hook import answer_tool_call, calls_our_tool


def main() -> int:
    """Answer the event on stdin; return the exit status."""
    data = sys.stdin.buffer.read()
    call = calls_our_tool(data)
    if call is None:
        from engrambus.edges.integrations.client_hook import answer_client

        return answer_client(data)
    try:
        answer = answer_tool_call(call, os.environ)
    except Exception as problem:  # whatever it is: the call goes on as it is, and is the lead's
        os.write(2, f"engrambus hook: {getattr(problem, 'code', type(problem).__name__)}\n".encode())
        answer = {}
    # Escaped, so that half of a surrogate pair in a text goes back as it came.
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    return 0
