"""The limits of the server: how long it waits for a client, and how much of it one caller may hold at once."""

from __future__ import annotations

import resource
from typing import NamedTuple

MIN_RESERVED_FILES = 256
"""Files left for the store, the threads and the streams' readers; half of all where a process may open fewer."""


class ServerLimits(NamedTuple):
    """What a client may take of the server. A caller is an agent or a person; one without a token is its address."""

    # decision 74: the numbers, and what happens at each of them

    idle_seconds: float = 10.0
    """Time in which the first byte must arrive on a new connection."""
    header_seconds: float = 5.0
    """Time from the first byte of a request to the end of its headers."""
    body_seconds: float = 30.0
    """Time in which a body must have arrived."""
    body_grace_seconds: float = 5.0
    """Time after which a body must also have arrived at the least rate."""
    body_bytes_per_second: int = 1024
    """The least rate of a body."""
    keep_alive_seconds: int = 5
    """Time that a connection without a request stays open."""
    stall_seconds: float = 10.0
    """Time after which a client that reads nothing of its answer is disconnected."""
    connections: int = 1024
    """Open connections; fewer if the process may not open as many files."""
    unknown_connections: int = 512
    """Those of them that have shown no token and no session yet."""
    threads: int = 64
    """Reading calls of agents that are worked on at once; the page and the admin have threads of their own."""
    write_threads: int = 32
    """Writing calls of agents that are worked on at once; as many for reads that note what was shown."""
    caller_threads: int = 8
    """Reading calls of one agent that are worked on at once, and writing calls; its others wait behind them."""
    caller_calls: int = 64
    """Reading calls of one agent that are worked on or wait, and writing calls."""
    calls_per_minute: int = 0
    """Calls of one token in a minute; 0 counts none, as on a server that only this machine reaches."""
    failures_per_minute: int = 30
    """Calls with a wrong token from one address in a minute; each further one is answered late, and with 429."""
    failure_delay_seconds: float = 1.0
    """Time by which such an answer is delayed."""
    handshake_seconds: float = 10.0
    """Time in which a TLS handshake must be finished."""
    streams: int = 256
    """Event streams of all agents; people have as many of their own."""
    agent_streams: int = 8
    """Event streams of one agent."""
    person_streams: int = 32
    """Event streams of one session of the page, or of the admin's token."""
    mcp_sessions: int = 256
    """Sessions of older MCP clients."""
    agent_mcp_sessions: int = 8
    """Sessions of one agent."""


DEFAULT_LIMITS = ServerLimits()
TEAM_CALLS_PER_MINUTE = 1200
"""Calls of one token in a minute on a server that other machines reach, unless its operator says otherwise."""


def connection_limit(limits: ServerLimits) -> int:
    """Return how many connections may be open in this process; raise its limit of open files if that is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = limits.connections + MIN_RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        if raised > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
    if soft == resource.RLIM_INFINITY:
        return limits.connections
    return max(1, min(limits.connections, soft - min(MIN_RESERVED_FILES, soft // 2)))
