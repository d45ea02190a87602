"""What the edges add: HTTP, the command line, and the memory a server takes."""

from __future__ import annotations

import http.client
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bench.measure import Row, in_turns, microseconds, percentile
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.operations import OPERATIONS
from engrambus.operations.engram_queries import QueryEngrams
from engrambus.operations.runs import AddAgent

PACED_SECONDS = 10
PACED_RATE = 200
HOOK_RUNS = 15
COMMAND = str(Path(sys.executable).with_name("engrambus"))


def http_rows(gateway: Gateway, project: Path, environment: dict[str, str], questions: list[str]) -> list[Row]:
    """Queries over HTTP against the same queries in process; then at a steady rate; then the server's memory."""
    port = free_port()
    server = subprocess.Popen(
        [COMMAND, "up", "--port", str(port), "--project", str(project)],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
    )
    try:
        token = gateway.call(OPERATIONS["add_agent"], AddAgent(name=f"bench-{port}"), LOCAL_ADMIN).token
        connection = connect(port)
        headers = {"Authorization": f"Bearer {token}"}

        def over_http(question: str) -> None:
            connection.request("GET", "/engram/query?" + urlencode({"q": question, "k": 12}), headers=headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise RuntimeError(f"HTTP {answer.status}")

        def in_process(question: str) -> None:
            gateway.call(OPERATIONS["query_engrams"], QueryEngrams(q=question, k=12), LOCAL_ADMIN)

        for question in questions[:50]:
            over_http(question)
            in_process(question)
        local, remote = in_turns(
            [partial(in_process, question) for question in questions],
            [partial(over_http, question) for question in questions],
        )
        paced = at_a_steady_rate([partial(over_http, question) for question in questions])
        added = percentile(remote, 0.95) - percentile(local, 0.95)
        p99 = percentile(paced, 0.99)
        resident = _resident_megabytes(server.pid)
    finally:
        server.terminate()
        server.wait(10)
    return [
        Row("HTTP query", "p95 added to the call in process", microseconds(added),
            f"in process {microseconds(percentile(local, 0.95))}", "–", "≤ 1 ms", added <= 1000),
        Row("HTTP query", f"p99 at {PACED_RATE} req/s", microseconds(p99), "–", "–", "≤ 10 ms", p99 <= 10_000),
        Row("memory", f"server after {len(questions) * 2 + PACED_RATE * PACED_SECONDS:,} queries",
            f"{resident:.0f} MB", "–", "–", "≤ 150 MB", resident <= 150),
    ]  # fmt: skip


def cli_rows(project: Path, environment: dict[str, str]) -> list[Row]:
    """Cold starts of the command, against a bare interpreter."""
    env = {**os.environ, **environment}
    rows = []
    bare = _cold([sys.executable, "-c", "pass"], env)
    for words, limit in ((["--help"], 100), (["query", "gateway budget", "--project", str(project)], 150)):
        took = _cold([COMMAND, *words], env)
        rows.append(
            Row("CLI", f"engrambus {words[0]}, cold, median", f"{took:.0f} ms", f"bare Python {bare:.0f} ms",
                f"{took / bare:.1f} ×", f"≤ {limit} ms", took <= limit)
        )  # fmt: skip
    return rows + hook_rows(project, env, bare)


def hook_rows(project: Path, env: dict[str, str], bare: float) -> list[Row]:
    """Cold starts of the hook, for a sub-agent that begins, calls a tool of ours, and has answered."""
    rows = []
    said = "Nobody retries a refund but the gateway: payments.py, lines 71 to 80, and the ledger takes each once."
    events: tuple[tuple[str, dict[str, Any], int], ...] = (
        ("SubagentStart", {}, 150),
        ("PreToolUse", {"tool_name": "mcp__engrambus__less_brief", "tool_input": {}}, 60),
        ("SubagentStop", {"last_assistant_message": said}, 150),
    )
    for event, more, limit in events:
        told = {"hook_event_name": event, "session_id": "bench", "cwd": str(project), "agent_id": "a", **more}
        took = _cold([COMMAND, "hook"], env, json.dumps(told).encode())
        rows.append(
            Row("CLI", f"engrambus hook, {event}, cold, median", f"{took:.0f} ms", f"bare Python {bare:.0f} ms",
                f"{took / bare:.1f} ×", f"≤ {limit} ms", took <= limit)
        )  # fmt: skip
    return rows + gateway_hook_rows(project, env)


def gateway_hook_rows(project: Path, env: dict[str, str]) -> list[Row]:
    """Hooks without and with a gateway that answers them: processor time of the hook's process, and the wall clock."""
    text = "Who retries a refund? Look at payments.py."
    edit = {"file_path": str(project / "src" / "payments.py"), "old_string": "x", "new_string": "y"}
    events: dict[str, dict[str, Any]] = {
        "UserPromptSubmit": {"prompt": text},
        "PreToolUse of an edit": {"tool_name": "Edit", "tool_input": edit},
        "PreToolUse of our tool": {"tool_name": "mcp__engrambus__less_brief", "tool_input": {}},
        "PostToolUse": {"tool_name": "Agent", "tool_input": {}},
        "SubagentStart": {"agent_id": "a", "agent_type": "Explore"},
        "SubagentStop": {"agent_id": "a", "agent_type": "Explore", "last_assistant_message": text},
    }
    told = {
        name: json.dumps(
            {"hook_event_name": name.partition(" ")[0], "session_id": "bench", "cwd": str(project), **more}
        ).encode()
        for name, more in events.items()
    }
    alone = {name: _hook_times(env, data) for name, data in told.items()}
    command = [COMMAND, "up", "--port", str(free_port()), "--project", str(project)]
    server = subprocess.Popen(command, env=env, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        server.stdout.readline()  # it serves
        served = {}
        for name, data in told.items():
            used = _processor_ms(server.pid)
            served[name] = (*_hook_times(env, data), (_processor_ms(server.pid) - used) / HOOK_RUNS)
    finally:
        server.terminate()
        server.wait(10)
    return [
        Row("CLI", f"engrambus hook, {name}, with a gateway, median "
            f"(processor {served[name][1]:.0f} ms, gateway {served[name][2]:.0f} ms)",
            f"{served[name][0]:.0f} ms", f"without {alone[name][0]:.0f} ms (processor {alone[name][1]:.0f} ms)",
            f"{served[name][0] / alone[name][0]:.2f} ×", "≤ 60 ms", served[name][0] <= 60)
        for name in events
    ]  # fmt: skip


def _processor_ms(pid: int) -> float:
    """Return the processor time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def _hook_times(env: dict[str, str], data: bytes) -> tuple[float, float]:
    """Return the medians of wall clock and processor time of a hook, in milliseconds."""
    walls, processor = [], []
    for _ in range(HOOK_RUNS):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([COMMAND, "hook"], env=env, check=True, input=data, stdout=subprocess.DEVNULL)
        walls.append((time.perf_counter() - start) * 1000)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        processor.append(used * 1000)
    return statistics.median(walls), statistics.median(processor)


def _cold(command: list[str], env: dict[str, str], given: bytes = b"") -> float:
    times = []
    for _ in range(15):
        start = time.perf_counter()
        subprocess.run(command, env=env, check=True, input=given, stdout=subprocess.DEVNULL)
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def at_a_steady_rate(
    calls: Sequence[Callable[[], object]], seconds: int = PACED_SECONDS, rate: int = PACED_RATE
) -> list[float]:
    """How long each call took from the moment it was due, in microseconds, sorted."""
    times = []
    start = time.perf_counter()
    for number in range(rate * seconds):
        due = start + number / rate
        wait = due - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        calls[number % len(calls)]()
        times.append((time.perf_counter() - max(due, start)) * 1e6)
    return sorted(times)


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def connect(port: int) -> http.client.HTTPConnection:
    """A connection to a server that is just starting."""
    for _ in range(200):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        try:
            connection.connect()
        except ConnectionRefusedError:
            time.sleep(0.05)
        else:
            return connection
    raise RuntimeError("the server did not start")


def _resident_megabytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return float("nan")
