"""Queries of other processes reach those who follow events, and cost nothing if nobody does."""  # EB-26

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engrambus.app import open_project
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway, to_request
from engrambus.gateway.events import ActivityChannel, Event, Follower
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings
from tests.cli.runner import COMMAND
from tests.projects import Repository

PATIENCE_SECONDS = 30
QUERY = Event(
    id=None,
    type="less.engram.query",
    time="2026-01-01T00:00:00.000000Z",
    project="p",
    run="r",
    agent="a",
    data={"k": 3, "found": 1},
    audience="r",
)


@pytest.fixture
def other(repository: Repository, settings: Settings, gateway: Gateway) -> Iterator[Gateway]:
    """A second gateway of the same project, as another process has one."""
    second = open_project(repository.path, settings)
    yield second
    second.close()


@pytest.fixture
def fifos(repository: Repository) -> Path:
    """The folder of the FIFOs."""
    return repository.path / ".catalog" / "activity"


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[ActivityChannel]:
    """A channel that listens."""
    channel = ActivityChannel(tmp_path / "activity", "p")
    channel.listen()
    yield channel
    channel.close()


@contextmanager
def following(gateway: Gateway, credential: Credential = LOCAL_ADMIN) -> Iterator[Follower]:
    """Follow a gateway's events as a caller sees them."""
    matches = gateway.event_filter(credential).matches
    follower = gateway.event_log.follow(None, matches=matches, wake=lambda: None)
    try:
        yield follower
    finally:
        follower.close()


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def call(gateway: Gateway, operation: str, credential: Credential = LOCAL_ADMIN, **fields: Any) -> Any:
    """Call an operation."""
    declared = OPERATIONS[operation]
    return gateway.call(declared, to_request(fields, declared.request), credential)


def queries(follower: Follower, events: list[Event]) -> list[Event]:
    """Add the follower's next events to those seen so far; return the queries among them."""
    events += follower.read()[0]
    return [event for event in events if event.type == "less.engram.query"]


def test_a_query_at_the_command_line_is_told_with_the_same_event(
    repository: Repository, settings: Settings, gateway: Gateway, fifos: Path, tmp_path: Path
) -> None:
    events: list[Event] = []
    with following(gateway) as follower:
        call(gateway, "query_engrams", q="anything", k=3)
        wait_for(fifos.is_dir)
        done = subprocess.run(
            [COMMAND, "query", "anything", "--k", "3"],
            cwd=repository.path,
            env={**os.environ, "HOME": str(tmp_path / "home")},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        wait_for(lambda: len(queries(follower, events)) == 2)
    own, told = queries(follower, events)
    assert (told.data, told.agent, told.run, told.audience) == (own.data, own.agent, own.run, own.audience)
    assert (told.id, told.project) == (None, own.project)


def test_an_agent_is_told_of_queries_in_its_own_run_only(gateway: Gateway, other: Gateway, fifos: Path) -> None:
    here = Credential(token=call(gateway, "add_agent", name="ada", role="architect").token)
    elsewhere = Credential(local_admin=True, run=call(gateway, "open_run", goal="Another goal").run_id)
    with following(gateway, here) as agent, following(gateway) as admin:
        wait_for(fifos.is_dir)
        call(other, "query_engrams", elsewhere, q="secret plans")
        call(other, "query_engrams", here, q="parser")
        seen: list[Event] = []
        wait_for(lambda: len(queries(admin, seen)) == 2)
        (event,) = queries(agent, [])
    assert event.agent == "ada"
    assert "parser" not in str(event)


def test_without_followers_nothing_is_created_or_written(gateway: Gateway, other: Gateway, fifos: Path) -> None:
    call(other, "query_engrams", q="anything")
    assert not fifos.exists()
    with following(gateway):
        wait_for(fifos.is_dir)
        (fifo,) = fifos.iterdir()
        assert fifo.stat().st_mode & 0o777 == 0o600
        assert fifos.stat().st_mode & 0o777 == 0o700
    wait_for(lambda: not fifos.exists())


def test_a_fifo_whose_reader_died_is_removed(gateway: Gateway, other: Gateway, fifos: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    fifos.mkdir(mode=0o700)
    os.mkfifo(fifos / f"{dead.pid}.0123456789ab", 0o600)
    call(other, "query_engrams", q="anything")
    assert list(fifos.iterdir()) == []


def test_a_full_fifo_blocks_nobody(listener: ActivityChannel, tmp_path: Path) -> None:
    writer = ActivityChannel(tmp_path / "activity", "p")
    for _ in range(5000):
        writer.publish(lambda: QUERY)
    received = listener.read()
    assert 100 < len(received) < 5000
    assert set(map(msgspec.json.encode, received)) == {msgspec.json.encode(QUERY)}
    writer.publish(lambda: QUERY)
    assert listener.read() == [QUERY]


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "less.engram.put"},
        {"type": "less.made.up"},
        {"project": "another"},
        {"id": "7.0"},
        {"agent": "a sentence of words"},
        {"data": {"found": "Anything that somebody wrote."}},
        {"data": {"claim": 1}},
        {"audience": "a sentence of words"},
    ],
)
def test_what_is_no_event_of_a_call_is_dropped(
    listener: ActivityChannel, tmp_path: Path, changes: dict[str, Any]
) -> None:
    writer = ActivityChannel(tmp_path / "activity", "p")
    writer.publish(lambda: msgspec.structs.replace(QUERY, **changes))
    (fifo,) = (tmp_path / "activity").iterdir()
    descriptor = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    os.write(descriptor, b"not JSON\n\n{}\n")
    os.close(descriptor)
    writer.publish(lambda: QUERY)
    assert listener.read() == [QUERY]


def test_a_link_in_place_of_the_folder_or_a_fifo_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "activity").symlink_to(tmp_path / "elsewhere")
    channel = ActivityChannel(tmp_path / "activity", "p")
    channel.listen()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "elsewhere" / "1.0123456789ab").symlink_to(tmp_path / "notes.txt")
    channel.publish(lambda: QUERY)
    assert (tmp_path / "notes.txt").read_text() == "mine"
