"""`GET /events` over real sockets: which events arrive for whom, and readers that disconnect or stall."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from engrambus.app import open_project
from engrambus.edges.http.events import EVENT_LIMITS, EventsEndpoint
from engrambus.gateway import Gateway
from engrambus.gateway.events import EVENT_TYPES
from engrambus.settings import Settings
from tests.cli.runner import COMMAND
from tests.events.reader import open_stream
from tests.http.running_server import RunningServer, run_server
from tests.projects import Repository

CLAIM = "The lexer gives up on a byte it does not know."


@pytest.fixture
def bus(gateway: Gateway, repository: Repository) -> Iterator[RunningServer]:
    """Run a server for a project."""
    with run_server(gateway, repository) as bus:
        yield bus


def endpoint(gateway: Gateway, **limits: Any) -> EventsEndpoint:
    """Return the endpoint with other limits."""
    return EventsEndpoint(gateway, EVENT_LIMITS._replace(**limits))


def engrambus(bus: RunningServer, home: Path, *words: str) -> None:
    """Run the command `engrambus` on the project's files."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMBUS_")}
    environment |= {"HOME": str(home)}
    done = subprocess.run(
        [COMMAND, *words], cwd=bus.repository.path, env=environment, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr


def other_run(bus: RunningServer, name: str = "zoe") -> tuple[str, str]:
    """Open another run and add an agent; return the run's id and the agent's token."""
    run = str(bus.call("POST", "/run", {"goal": "another"}).json["run_id"])
    answer = bus.call("POST", "/agent", {"name": name, "role": "programmer"}, token=bus.sign(run=run))
    return run, str(answer.json["token"])


def test_an_event_arrives_at_once(bus: RunningServer) -> None:  # EB-26
    token = bus.add("ada", "architect")
    with open_stream(bus, token=token) as reader:
        assert reader.status == 200
        assert reader.headers["content-type"] == "text/event-stream"
        first = reader.block()
        assert first is not None
        assert first.retry == "2000"
        assert first.id == "2"
        engram = bus.put(CLAIM, kind="risk", scope="run", token=token).json["id"]
        event = reader.event()
    assert event.id == "3.0"
    assert event.data["agent"] == "ada"
    assert event.data["run"] == bus.run
    assert event.data["project"] == bus.gateway.store.project
    assert event.data["data"] == {"engram": engram, "kind": "risk", "scope": "run", "pointers": 1}


def test_events_of_another_process_arrive(bus: RunningServer, tmp_path: Path) -> None:  # EB-26
    with open_stream(bus) as reader:
        engrambus(bus, tmp_path / "home", "put", CLAIM, "--at", "src/parser.py:1-3")
        event = reader.event()
    assert (event.type, event.data["agent"]) == ("less.engram.put", "admin")


def test_a_query_is_an_event_without_an_id_for_connected_readers(bus: RunningServer) -> None:
    bus.put(CLAIM)
    with open_stream(bus) as reader:
        bus.call("GET", "/engram/query?q=lexer+byte&k=5")
        event = reader.event()
        assert event.id is None
        assert event.type == "less.engram.query"
        assert event.data["data"] == {"k": 5, "keys": 0, "found": 1, "truncated": False}
        bus.put("Another claim about another thing.", at=["src/parser.py:3-4"])
        assert reader.event().type == "less.engram.put"
    with open_stream(bus, "?after=0") as later:
        assert "less.engram.query" not in {block.type for block in later.until("less.engram.put", 2)}


def test_a_change_of_work_is_an_event_for_admins(bus: RunningServer, tmp_path: Path) -> None:  # YT-08
    with (
        open_stream(bus) as admin,
        open_stream(bus, "?type=work.changed") as board,
        open_stream(bus, token=bus.add("ada", "architect")) as agent,
    ):
        admin.until("less.token.issue")
        assert bus.call("POST", "/tuple", {"lane": "later"}).status == 200
        event = admin.event()
        assert (event.type, event.id, event.data["data"]) == ("work.changed", None, {"line": 1})
        assert board.event().data["data"] == {"line": 1}
        engrambus(bus, tmp_path / "home", "out", "--lane", "later")
        assert board.event().data["data"] == {"line": 2}
        bus.put(CLAIM)
        assert agent.event().type == "less.engram.put", "an agent gets no events of work"
    with open_stream(bus, "?after=0&type=work.changed,less.engram.put") as later:
        assert later.event().type == "less.engram.put", "events of work are not stored for later readers"


def test_no_content_is_ever_sent(bus: RunningServer) -> None:  # EB-26
    token = bus.add("ada", "architect")
    with open_stream(bus, "?after=0") as reader:
        engram = bus.put(CLAIM, token=token, tags=["unspeakable-tag"]).json
        bus.call("POST", "/pointer/deref", {"pointer": engram["pointers"][0]["ref"]}, token=token)
        bus.call("GET", "/brief", token=token)
        bus.call("GET", "/engram/query?q=lexer+gives+up+on+a+byte", token=token)
        bus.call("POST", f"/engram/{engram['id']}/confirm", token=token)
        bus.call("DELETE", f"/engram/{engram['id']}")
        events = reader.until("less.engram.forget")
    kinds = {block.type for block in events}
    assert {"less.run.open", "less.agent.add", "less.deref.prove", "less.brief.make", "less.engram.query"} < kinds
    sent = str([block.data for block in events])
    contents = [CLAIM, "unspeakable-tag", "first run", "line 10 of the parser", "src/parser.py", token]
    for text in contents:
        for start in range(max(1, len(text) - 11)):
            assert text[start : start + 12] not in sent


def test_an_agent_gets_the_events_of_its_run_and_of_the_project(bus: RunningServer) -> None:  # EB-20, EB-26
    ada, (_, zoe) = bus.add("ada", "architect"), other_run(bus)
    with open_stream(bus, "?after=0", token=zoe) as reader, open_stream(bus, "?after=0") as admin:
        hidden = bus.put("Only for the run of ada.", scope="run", token=ada).json["id"]
        bus.call("GET", "/engram/query", token=ada)
        bus.call("POST", f"/engram/{hidden}/confirm", token=ada)
        shared = bus.put("For the whole project to know.", scope="project", token=bus.sign()).json["id"]
        of_zoe = bus.put("Only for the run of zoe.", scope="run", token=zoe).json["id"]
        events = reader.until("less.engram.put", 2)
        assert [block.data["data"].get("engram") for block in events if "engram" in str(block.type)] == [shared, of_zoe]
        assert hidden not in str([block.data for block in events])
        assert {block.data["data"].get("name") for block in events if block.type == "less.agent.add"} == {"zoe"}
        everything = admin.until("less.engram.put", 3)
        assert {"less.engram.confirm", "less.engram.query"} < {block.type for block in everything}


def test_a_promotion_is_visible_to_everyone(bus: RunningServer) -> None:
    ada, (_, zoe) = bus.add("ada", "programmer"), other_run(bus)
    with open_stream(bus, token=zoe) as reader:
        engram = bus.put("Soon for everyone to know.", scope="run", token=ada, confidence=0.9).json["id"]
        admin = bus.sign(run=_run_of(bus, engram))
        assert bus.call("POST", f"/engram/{engram}/promote", {}, token=admin).status == 200
        event = reader.event()
    assert (event.type, event.data["data"]) == ("less.engram.promote", {"engram": engram, "scope": "project"})


def _run_of(bus: RunningServer, engram: str) -> str:
    with bus.gateway.store.read() as view:
        for number in (1, 2):
            stored = view.find([f"r{number}"], engram)
            if stored is not None:
                return str(stored.run)
    raise AssertionError


def test_only_the_requested_types_arrive(bus: RunningServer) -> None:
    token = bus.add("ada", "architect")
    with open_stream(bus, "?after=0&type=less.engram.put,less.agent.add") as reader:
        bus.call("GET", "/engram/query", token=token)
        bus.put(CLAIM, token=token)
        assert [block.type for block in reader.until("less.engram.put")] == ["less.agent.add", "less.engram.put"]


@pytest.mark.parametrize(
    ("query", "last_id", "code"),
    [
        ("?type=less.nothing", None, "FIELD_VALUE"),
        ("?after=x", None, "FIELD_VALUE"),
        ("", "1.2.3", "FIELD_VALUE"),
        ("?wrong=1", None, "FIELD_UNKNOWN"),
        ("?as=nobody", None, "AGENT_NOT_FOUND"),
    ],
)
def test_invalid_parameters_are_refused(bus: RunningServer, query: str, last_id: str | None, code: str) -> None:
    with open_stream(bus, query, last_id=last_id) as reader:
        assert reader.problem() == code


def test_a_valid_token_of_this_project_is_required(bus: RunningServer) -> None:
    for token, code in (
        (None, "TOKEN_MISSING"),
        ("st1.nothing.at-all", "TOKEN_INVALID"),
        (bus.sign(seconds=-1), "TOKEN_EXPIRED"),
    ):
        with open_stream(bus, token=token) as reader:
            assert reader.status == 401
            assert reader.problem() == code


def test_a_stream_ends_when_its_token_expires(gateway: Gateway, repository: Repository) -> None:
    with run_server(gateway, repository, events=endpoint(gateway, heartbeat_seconds=0.1)) as bus:
        token = bus.sign(seconds=2)
        with open_stream(bus, token=token) as reader:
            assert reader.status == 200
            with pytest.raises(EOFError):
                reader.event()
        with open_stream(bus, token=token) as second:
            assert second.problem() == "TOKEN_EXPIRED", "the stream did not end earlier"


def test_resuming_loses_and_repeats_no_event(bus: RunningServer) -> None:  # EB-26
    bus.put(CLAIM)
    with open_stream(bus, "?after=0") as reader:
        seen = [block.id for block in reader.until("less.engram.put")]
        last = reader.last_id
    at = ["src/parser.py:1-2"]
    bus.call("POST", "/engrams", {"engrams": [{"claim": f"Claim {n} of many.", "at": at} for n in range(10)]})
    with open_stream(bus, last_id=last) as reader:
        seen += [block.id for block in reader.until("less.engram.put", 4)]  # in the middle of a commit
        last = reader.last_id
    bus.put("The last of them all.", at=["src/parser.py:5-6"])
    with open_stream(bus, "?after=0", last_id=last) as reader:
        seen += [block.id for block in reader.until("less.engram.put", 7)]
    assert len(seen) == len(set(seen))
    with open_stream(bus, "?after=0") as reader:
        assert [block.id for block in reader.until("less.engram.put", 12)] == seen


def test_a_stream_without_events_can_be_resumed(bus: RunningServer) -> None:
    with open_stream(bus) as reader:
        assert reader.block() is not None
        last = reader.last_id
    bus.put(CLAIM)
    with open_stream(bus, last_id=last) as reader:
        assert reader.event().type == "less.engram.put"


def test_a_stream_can_be_resumed_after_a_restart_of_the_server(
    gateway: Gateway, repository: Repository, settings: Settings, tmp_path: Path
) -> None:
    with run_server(gateway, repository) as bus:
        bus.put(CLAIM)
        with open_stream(bus, "?after=0") as reader:
            first = reader.until("less.engram.put")
            last = reader.last_id
    engrambus(bus, tmp_path / "home", "put", "Put while no server ran.", "--at", "src/parser.py:7-9")
    reopened = open_project(repository.path, settings)
    try:
        with run_server(reopened, repository) as bus, open_stream(bus, last_id=last) as reader:
            bus.put("Put after the restart.", at=["src/parser.py:11-12"])
            second = reader.until("less.engram.put", 2)
    finally:
        reopened.close()
    assert [block.id for block in first + second] == ["1.0", "2.0", "3.0", "4.0"]


def test_a_quiet_stream_gets_heartbeats(gateway: Gateway, repository: Repository) -> None:
    events = endpoint(gateway, heartbeat_seconds=0.05)
    with run_server(gateway, repository, events=events) as bus, open_stream(bus) as reader:
        reader.block()
        beats = [reader.block() for _ in range(3)]
    assert all(beat is not None and beat.comment and beat.type is None and beat.id == "1" for beat in beats)


def test_a_stream_gets_heartbeats_while_its_reader_may_not_see_the_events(
    gateway: Gateway, repository: Repository
) -> None:
    events = endpoint(gateway, heartbeat_seconds=0.5)
    with run_server(gateway, repository, events=events) as bus, open_stream(bus, "?type=less.run.end") as reader:
        reader.block()
        done = threading.Event()

        def busy() -> None:
            while not done.wait(0.05):
                bus.call("GET", "/engram/query?q=parser")

        client = threading.Thread(target=busy)
        client.start()
        try:
            beat = reader.block()
        finally:
            done.set()
            client.join()
    assert beat is not None
    assert (beat.comment, beat.id) == (True, "1")


def test_the_number_of_open_streams_is_limited(gateway: Gateway, repository: Repository) -> None:
    with run_server(gateway, repository, events=endpoint(gateway, max_open=3)) as bus:
        with ExitStack() as stack:
            for _ in range(3):
                assert stack.enter_context(open_stream(bus)).block() is not None
            with open_stream(bus) as refused:
                assert refused.status == 503
                assert refused.problem() == "TOO_MANY_STREAMS"
            assert bus.call("GET", "/stats").status == 200
        _soon(lambda: _status(bus) == 200)


def _status(bus: RunningServer) -> int:
    with open_stream(bus) as reader:
        return reader.status


def _soon(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_stalled_reader_is_cut_off_and_others_are_not_affected(gateway: Gateway, repository: Repository) -> None:
    events = endpoint(gateway, max_open=2, stall_seconds=1.0)
    with (
        run_server(gateway, repository, events=events, send_buffer=4096) as bus,
        open_stream(bus, receive_buffer=2048) as slow,
        open_stream(bus) as quick,
        ThreadPoolExecutor(1) as executor,
    ):
        assert slow.block() is not None
        at = ["src/parser.py:1-2"]
        all_events = executor.submit(quick.until, "less.engram.put", 1500)
        for batch in range(3):
            engrams = [{"claim": f"Claim {batch} {n} of very many.", "at": at} for n in range(500)]
            assert bus.call("POST", "/engrams", {"engrams": engrams}).status == 200
        everything = [block.id for block in all_events.result()]
        assert len(set(everything)) == 1500
        _soon(lambda: _status(bus) == 200)  # the slow reader's stream no longer counts
        got: list[str | None] = []
        with suppress(EOFError, OSError, HTTPException):
            while True:
                got.append(slow.event().id)
        assert len(got) < 1500
        bus.put(CLAIM, at=["src/parser.py:20-21"])
        assert quick.event().type == "less.engram.put"
        last = got[-1] if got else slow.last_id
        with open_stream(bus, last_id=last) as resumed:
            got += [block.id for block in resumed.until("less.engram.put", 1501 - len(got))]
    assert got[:1500] == everything


@pytest.mark.parametrize("stalled", [False, True])
def test_the_server_stops_while_streams_are_open(
    gateway: Gateway, repository: Repository, stalled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as stack:
        with run_server(gateway, repository, send_buffer=4096) as bus:
            reader = stack.enter_context(open_stream(bus, receive_buffer=2048 if stalled else None))
            assert reader.block() is not None
            if stalled:
                at = ["src/parser.py:1-2"]
                for batch in range(2):
                    engrams = [{"claim": f"Claim {batch} {n} of very many.", "at": at} for n in range(500)]
                    bus.call("POST", "/engrams", {"engrams": engrams})
                time.sleep(0.3)
        if not stalled:
            assert reader.block() is None, "the stream ends completely"
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_head_request_gets_the_headers_only(bus: RunningServer) -> None:
    answer = bus.call("HEAD", "/events")
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"", "text/event-stream")
    assert bus.call("POST", "/events").code == "METHOD_NOT_ALLOWED"


def test_the_stream_is_in_the_openapi_document(bus: RunningServer) -> None:
    entry = bus.call("GET", "/openapi.json", token=None).json["paths"]["/events"]["get"]
    assert "text/event-stream" in entry["responses"]["200"]["content"]
    types: Any = next(parameter for parameter in entry["parameters"] if parameter["name"] == "type")["schema"]["items"][
        "enum"
    ]
    assert set(types) == EVENT_TYPES


def test_readers_with_equal_filters_get_equal_events(bus: RunningServer) -> None:  # EB-20, EB-26
    ada, (_, zoe) = bus.add("ada", "architect"), other_run(bus)
    everything, puts = "?after=0", "?after=0&type=less.engram.put"
    requests = [
        (query, token) for query in (everything, puts, "?after=2&type=less.engram.put") for token in ("", ada, zoe)
    ]
    with ExitStack() as stack:
        readers = [
            (query, token, stack.enter_context(open_stream(bus, query, token=token))) for query, token in requests * 2
        ]
        for number in range(6):
            for token in (ada, zoe):
                lines = [f"src/parser.py:{number + 1}-{number + 2}"]
                bus.put(f"Claim {number} of one run.", scope="run", token=token, at=lines)
        last = bus.put("The last claim, for the whole project.", scope="project", at=["src/parser.py:20-21"])
        for query, token, reader in readers:
            events: list[Any] = []
            while not events or events[-1]["data"].get("engram") != last.json["id"]:
                events.append(reader.event().data)
            page = bus.call("GET", f"/events{query}", token=token, headers={"Accept": "application/json"})
            assert events == page.json["events"]


def test_an_expired_token_ends_only_its_own_streams(gateway: Gateway, repository: Repository) -> None:
    with run_server(gateway, repository, events=endpoint(gateway, heartbeat_seconds=0.1)) as bus:
        token = bus.sign(seconds=2)
        with open_stream(bus, token=token) as first, open_stream(bus, token=token) as second, open_stream(bus) as admin:
            for reader in (first, second):
                with pytest.raises(EOFError):
                    reader.event()
            engram = bus.put(CLAIM).json["id"]
            assert admin.event().data["data"]["engram"] == engram


@contextmanager
def open_readers(bus: RunningServer, count: int) -> Iterator[list[Any]]:
    """Open many streams at once."""
    with ExitStack() as stack:
        yield [stack.enter_context(open_stream(bus)) for _ in range(count)]


def test_many_readers_get_the_same_events(bus: RunningServer) -> None:
    with open_readers(bus, 30) as readers:
        for number in range(5):
            bus.put(f"Claim {number} that all shall get.", at=[f"src/parser.py:{number + 1}-{number + 2}"])
        ids = [[block.id for block in reader.until("less.engram.put", 5)] for reader in readers]
    assert ids == [ids[0]] * 30
