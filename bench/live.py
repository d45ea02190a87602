"""What agents and people who watch notice: a tool call over pipes, and a gateway that many follow while many ask."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from urllib.parse import urlencode

from bench.corpus import Corpus
from bench.edges import COMMAND, PACED_RATE, at_a_steady_rate, connect, free_port
from bench.measure import Row, microseconds, percentile
from engrambus.edges.http.server_limits import DEFAULT_LIMITS
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.operations import OPERATIONS
from engrambus.operations.runs import AddAgent

LISTENERS = 200
CLIENTS = 4
PUT_EACH = 100
"""Every so-manieth request puts an engram, thirty a minute from each client; the others ask."""
WARM_SECONDS = 2
"""How long a server that was just started is asked before it is timed: it loads and opens what it needs meanwhile."""
TOOL_CALLS = 600

EMPTY = """
import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

async def listed(context, params):
    return ListToolsResult(tools=[Tool(name="less_query_engrams", input_schema={"type": "object"})])

async def called(context, params):
    return CallToolResult(content=[TextContent(type="text", text="")], structured_content={})

async def main():
    server = Server("empty", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(main)
"""
"""The SDK's own server with a tool that does nothing."""


def tool_rows(project: Path, environment: dict[str, str], questions: list[str]) -> list[Row]:
    """Tool calls over pipes, in turns with those of an empty tool; and how long it takes until the first answer."""
    from mcp import Client, StdioServerParameters

    async def both() -> tuple[list[float], list[float]]:
        ours = StdioServerParameters(
            command=COMMAND, args=["mcp", "--project", str(project)], env={**os.environ, **environment}
        )
        empty = StdioServerParameters(command=sys.executable, args=["-c", EMPTY])
        async with Client(ours) as spoken, Client(empty) as idle:
            times: tuple[list[float], list[float]] = ([], [])
            for number in range(TOOL_CALLS + 50):
                for client, taken in zip((spoken, idle), times, strict=True):  # in turns: a busy machine hurts both
                    start = time.perf_counter()
                    await client.call_tool("less_query_engrams", {"q": questions[number % len(questions)]})
                    taken.append((time.perf_counter() - start) * 1e6)
            return sorted(times[0][50:]), sorted(times[1][50:])

    ours, empty = asyncio.run(both())
    added = percentile(ours, 0.95) - percentile(empty, 0.95)
    first = _first_answer([COMMAND, "mcp", "--project", str(project)], environment)
    bare = _first_answer([sys.executable, "-c", EMPTY], environment)
    return [
        Row("MCP stdio", "query, p95 added to an empty tool", microseconds(added),
            f"empty tool {microseconds(percentile(empty, 0.95))}", "–", "≤ 5 ms", added <= 5000),
        Row("MCP stdio", "start until the first answer, median", f"{first:.0f} ms", f"empty server {bare:.0f} ms",
            f"{first / bare:.2f} ×", "–", None),
    ]  # fmt: skip


def _first_answer(command: list[str], environment: dict[str, str]) -> float:
    client = {"name": "bench", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    hello = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode() + b"\n"
    times = []
    for _ in range(7):
        start = time.perf_counter()
        with subprocess.Popen(
            command, env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as server:
            if server.stdin is None or server.stdout is None:
                raise RuntimeError("no pipes")
            server.stdin.write(hello)
            server.stdin.flush()
            server.stdout.readline()
            times.append((time.perf_counter() - start) * 1000)
            server.stdin.close()
    return statistics.median(times)


def watched_rows(
    gateway: Gateway, project: Path, environment: dict[str, str], corpus: Corpus, questions: list[str], *, seconds: int
) -> list[Row]:
    """Measure requests at a steady rate with many followers of the event stream, compared with none."""
    port = free_port()
    server = subprocess.Popen(
        [COMMAND, "up", "--port", str(port), "--project", str(project)],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
    )
    try:
        connect(port).close()
        add = OPERATIONS["add_agent"]
        tokens, followers = (
            [gateway.call(add, AddAgent(name=f"{name}-{port}-{number}"), LOCAL_ADMIN).token for number in range(count)]
            for name, count in (("bench", CLIENTS), ("follower", -(-LISTENERS // DEFAULT_LIMITS.agent_streams)))
        )
        clients = [_requests(port, token, corpus, questions) for token in tokens]
        _in_turns(clients, WARM_SECONDS)
        start_seconds = _processor_seconds(server.pid)
        alone = _in_turns(clients, min(seconds, 10))
        busy_alone = (_processor_seconds(server.pid) - start_seconds) / min(seconds, 10)
        with subprocess.Popen(
            [sys.executable, "-m", "bench.live", str(port), str(LISTENERS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as listeners:
            if listeners.stdin is None or listeners.stdout is None:
                raise RuntimeError("no pipes")
            listeners.stdin.write(" ".join(followers) + "\n")
            listeners.stdin.flush()
            if listeners.stdout.readline() != "ready\n":
                raise RuntimeError("not every listener got its stream")
            start_seconds = _processor_seconds(server.pid)
            watched = _in_turns(clients, seconds)
            busy = (_processor_seconds(server.pid) - start_seconds) / seconds
            delivered, connected = map(int, listeners.communicate("stop\n")[0].split())
    finally:
        server.terminate()
        server.wait(10)
    if connected != LISTENERS:
        raise RuntimeError(f"only {connected} of {LISTENERS} listeners were still connected")
    p99, p99_alone = percentile(watched, 0.99), percentile(alone, 0.99)
    measured = f"p99 at {PACED_RATE} req/s for {seconds} s, {LISTENERS} followers"
    return [
        Row("events", measured, microseconds(p99), f"no followers {microseconds(p99_alone)}",
            f"{p99 / p99_alone:.1f} ×", "≤ 50 ms", p99 <= 50_000),
        Row("events", f"server's processor time, {delivered / seconds:,.0f} events/s", f"{busy:.0%} of a core",
            f"no followers {busy_alone:.0%}", f"{busy / busy_alone:.1f} ×", "–", None),
    ]  # fmt: skip


def _requests(port: int, token: str, corpus: Corpus, questions: list[str]) -> list[Callable[[], object]]:
    """Return the requests of one client, on a connection of its own."""
    connection = connect(port)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def send(method: str, target: str, body: str | None = None) -> None:
        connection.request(method, target, body, headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"HTTP {answer.status}")

    def request(number: int) -> Callable[[], object]:
        if number % PUT_EACH == 0:
            body = {"claim": corpus.claim(), "at": ["src/part0/module_0.py:1-20"]}
            return partial(send, "POST", "/engram", json.dumps(body))
        return partial(send, "GET", "/engram/query?" + urlencode({"q": questions[number % len(questions)]}))

    return [request(number) for number in range(PUT_EACH * 20)]


def _in_turns(clients: list[list[Callable[[], object]]], seconds: int) -> list[float]:
    """Run each client at its share of the rate, so that a slow answer delays only the same client's next request.

    The clients are staggered: independent agents do not all send at the same instant.
    """

    def paced(number: int) -> list[float]:
        time.sleep(number / PACED_RATE)
        behind = PUT_EACH * number // len(clients)  # their puts are staggered as well
        calls = clients[number][behind:] + clients[number][:behind]
        return at_a_steady_rate(calls, seconds, PACED_RATE // len(clients))

    with ThreadPoolExecutor(len(clients)) as pool:
        return sorted(chain.from_iterable(pool.map(paced, range(len(clients)))))


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class _Listeners:
    """Many event streams, read as fast as possible."""

    def __init__(self) -> None:
        self.open = 0
        self.delivered = 0

    async def follow(self, port: int, token: str) -> None:
        """Read one stream until it ends."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        host = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n"
        writer.write(f"GET /events HTTP/1.1\r\n{host}".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise RuntimeError(head.decode())
        self.open += 1
        while chunk := await reader.read(65536):
            self.delivered += chunk.count(b"\nevent: ") + chunk.startswith(b"event: ")
        self.open -= 1


async def _listen(port: int, count: int, tokens: list[str], stopped: Callable[[], Awaitable[object]]) -> None:
    listeners = _Listeners()
    tasks = [asyncio.create_task(listeners.follow(port, tokens[number % len(tokens)])) for number in range(count)]
    while listeners.open < count and not any(task.done() for task in tasks):
        await asyncio.sleep(0.05)
    print("ready" if listeners.open == count else "refused", flush=True)
    listeners.delivered = 0
    await stopped()
    print(listeners.delivered, listeners.open, flush=True)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(
        _listen(int(sys.argv[1]), int(sys.argv[2]), sys.stdin.readline().split(),
                lambda: asyncio.to_thread(sys.stdin.readline))
    )  # fmt: skip
