"""`GET /events` as JSON: a page of events, with the same bytes until there are new ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.gateway import Gateway
from engrambus.gateway.events import EventLog, ResumePoint, events_after, newest_events
from tests.events.reader import open_stream
from tests.events.test_event_log import commit_line
from tests.harness.stores import MemoryHarness
from tests.http.running_server import Answer, RunningServer, run_server
from tests.projects import Repository

JSON = {"Accept": "application/json"}


@pytest.fixture
def bus(gateway: Gateway, repository: Repository) -> Iterator[RunningServer]:
    """Run a server for a project."""
    with run_server(gateway, repository) as bus:
        yield bus


def _page(bus: RunningServer, query: str = "", token: str = "", **headers: str) -> Answer:
    renamed = {name.replace("_", "-"): value for name, value in headers.items()}
    return bus.call("GET", f"/events{query}", token=token, headers={**JSON, **renamed})


def test_a_page_holds_the_events_of_a_stream(bus: RunningServer) -> None:  # EB-26
    for number in range(4):
        bus.put(f"Claim {number} of the page.", at=[f"src/parser.py:{number + 1}"])
    page = _page(bus)
    assert page.headers["content-type"] == "application/json"
    with open_stream(bus, "?after=0") as reader:
        events = [block.data for block in reader.until("less.engram.put", 4)]
    assert page.json == {"id": "5", "more": False, "events": events}


def test_a_page_keeps_its_etag_until_there_is_a_new_event(bus: RunningServer) -> None:
    bus.put()
    first = _page(bus)
    tag = first.headers["etag"]
    assert first.headers["vary"] == "accept, authorization, engrambus-session"
    second = _page(bus, If_None_Match=tag)
    assert (second.status, second.body, second.headers["etag"]) == (304, b"", tag)
    bus.call("GET", "/engram/query?q=parser")  # events that are not journalled are in no page
    assert _page(bus, If_None_Match=tag).status == 304
    bus.put("Something else.", at=["src/parser.py:3"])
    changed = _page(bus, If_None_Match=tag)
    assert changed.status == 200
    assert changed.headers["etag"] != tag


def test_pages_follow_one_another(bus: RunningServer) -> None:
    engrams = [{"claim": f"Claim {n} of many.", "at": ["src/parser.py:1"]} for n in range(25)]
    assert bus.call("POST", "/engrams", {"engrams": engrams}).status == 200
    everything = [event["id"] for event in _page(bus, "?after=0&limit=500").json["events"]]
    assert len(everything) == 26
    ids: list[str] = []
    after, has_more = "0", True
    while has_more:
        page = _page(bus, f"?after={after}&limit=7").json
        ids += [event["id"] for event in page["events"]]
        after, has_more = page["id"], page["more"]
    assert ids == everything
    assert _page(bus, "?limit=7").json["events"] == _page(bus, "?after=0").json["events"][-7:]
    assert _page(bus, f"?after={after}").json == {"id": after, "more": False, "events": []}
    assert _page(bus, "?after=999").json["id"] == after


def test_a_page_holds_only_events_its_reader_may_see(bus: RunningServer) -> None:  # EB-20, EB-26
    run = str(bus.call("POST", "/run", {"goal": "another"}).json["run_id"])
    zoe = bus.call("POST", "/agent", {"name": "zoe", "role": "programmer"}, token=bus.sign(run=run)).json["token"]
    bus.put("Seen by all.", at=["src/parser.py:1"])
    bus.put("Seen here only.", at=["src/parser.py:2"], scope="run")
    kinds = [(event["type"], event["data"].get("scope")) for event in _page(bus, token=zoe).json["events"]]
    assert ("less.engram.put", "project") in kinds
    assert ("less.engram.put", "run") not in kinds
    puts = _page(bus, "?type=less.engram.put").json["events"]
    assert [event["data"]["scope"] for event in puts] == ["project", "run"]
    assert bus.call("GET", "/events", token=None, headers=JSON).code == "TOKEN_MISSING"


@pytest.mark.parametrize(("query", "code", "field"), [
    ("?limit=0", "FIELD_VALUE", "limit"),
    ("?limit=501", "FIELD_VALUE", "limit"),
    ("?limit=ten", "FIELD_VALUE", "limit"),
    ("?limit=99999999999999999999", "FIELD_VALUE", "limit"),
    ("?limit=0000019999999", "FIELD_VALUE", "limit"),
    ("?limit=000001" + 5000 * "9", "FIELD_VALUE", "limit"),
    ("?after=yesterday", "FIELD_VALUE", "after"),
    ("?type=less.unknown", "FIELD_VALUE", "type"),
    ("?colour=red", "FIELD_UNKNOWN", "colour"),
])  # fmt: skip
def test_invalid_parameters_are_refused(bus: RunningServer, query: str, code: str, field: str) -> None:
    refused = _page(bus, query)
    assert (refused.code, refused.json["field"]) == (code, field)
    assert field != "limit" or refused.json["limit"] == 500


def test_a_stream_has_no_limit(bus: RunningServer) -> None:
    with open_stream(bus, "?limit=3") as reader:
        assert (reader.status, reader.problem()) == (422, "FIELD_UNKNOWN")


@given(st.integers(0, 300), st.integers(1, 200))
def test_pages_lose_and_repeat_nothing(lines: int, limit: int) -> None:
    harness = MemoryHarness()
    store = harness.gateway.store
    log = EventLog(store)
    for number in range(lines):
        commit_line(store, 2 + number)
    ids: list[str | None] = []
    point, has_more = ResumePoint(0), True
    while has_more:
        page = events_after(log, point, limit, lambda event: True)
        assert len(page.events) <= limit
        ids += [event.id for event in page.events]
        point, has_more = page.end, page.has_more
    assert ids == [f"{seq}.0" for seq in range(1, store.last_line() + 1)]
    newest = newest_events(log, limit, lambda event: True)
    assert [event.id for event in newest.events] == ids[-limit:]
    assert newest.end == ResumePoint(store.last_line())
    log.close()
    harness.close()
