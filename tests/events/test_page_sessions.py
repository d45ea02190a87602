"""The stream of events, opened with a session of the page instead of a token."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from engrambus.edges.http.events import EventsEndpoint
from engrambus.edges.http.sessions import SESSION_SECONDS, BrowserSessions
from engrambus.edges.http.streams import StreamLimits
from engrambus.gateway import Gateway
from tests.http.running_server import RunningServer, run_server
from tests.projects import Repository


class Clock:
    """A clock that a test turns."""

    seconds = 0.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> BrowserSessions:
    return BrowserSessions(lambda: clock.seconds)


@pytest.fixture
def bus(gateway: Gateway, repository: Repository, sessions: BrowserSessions) -> Iterator[RunningServer]:
    """Run a server whose streams take these sessions."""
    limits = StreamLimits(max_open=8, heartbeat_seconds=0.4)
    with run_server(gateway, repository, events=EventsEndpoint(gateway, limits, sessions=sessions)) as bus:
        yield bus


def test_a_stream_ends_when_its_session_expires(bus: RunningServer, sessions: BrowserSessions, clock: Clock) -> None:
    secret = sessions.open()
    connection = HTTPConnection("127.0.0.1", bus.port, timeout=60)
    connection.request("GET", "/events", headers={"Engrambus-Session": secret})
    stream = connection.getresponse()
    assert stream.readline().startswith(b"retry:")
    clock.seconds = SESSION_SECONDS - 1
    assert bus.put("While the session lasts.").status == 200
    while stream.readline() != b"event: less.engram.put\n":
        pass
    clock.seconds = SESSION_SECONDS
    while stream.readline():
        pass
    connection.close()
    again = bus.call("GET", "/events", token=None, headers={"Engrambus-Session": secret})
    assert (again.status, again.code) == (401, "SESSION_INVALID")


def test_a_page_of_events_is_sent_for_a_session(bus: RunningServer, sessions: BrowserSessions) -> None:
    bus.put("One event.")
    headers = {"Engrambus-Session": sessions.open(), "Accept": "application/json"}
    answer = bus.call("GET", "/events", token=None, headers=headers)
    assert [event["type"] for event in answer.json["events"]][-1] == "less.engram.put"
    assert "engrambus-session" in answer.headers["vary"]


def test_a_refused_session_is_not_replaced_by_a_token(bus: RunningServer) -> None:
    answer = bus.call("GET", "/events", headers={"Engrambus-Session": "x", "Accept": "application/json"})
    assert (answer.status, answer.code) == (401, "SESSION_INVALID")
