"""Schedules and delays on the command line, over HTTP and beside workers. # YT-16"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from engrambus.core import SECOND_US, SystemClock, parse_time, print_time, short_id
from engrambus.errors import ScheduleNotFound, YoolForbidden
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway
from engrambus.operations import OPERATIONS
from engrambus.operations.schedules import AddSchedule, ListSchedules, ScheduleNamed
from engrambus.settings import Settings
from engrambus.space.catalog import CAPABILITIES, Catalog, CatalogEntry, write_catalog
from engrambus.space.schedules import Schedules, emit_schedules
from engrambus.space.tuples import TupleSpace
from tests.harness.stores import MemoryWorkHarness
from tests.http.running_server import run_server
from tests.projects import Repository
from tests.space.terminal import WORK, Terminal, open_terminal
from tests.space.worker_harness import wait_until

LINT = CatalogEntry(name="agent.lint.ruff", version=1, authority=("user", "agent"), lane="build")
DEPLOY = CatalogEntry(name="agent.deploy.prod", version=1, authority=("user",), lane="build")
NIGHTLY: dict[str, Any] = {"name": "nightly", "cron": "0 3 * * *", "lane": "build", "payload": [{"yool": LINT.name}]}


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """Open a project with a catalog of the tests' yools."""
    return open_terminal(repository, settings, tmp_path, "tests.space.yools")


def _sum(*words: str) -> tuple[str, ...]:
    return (*words, "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", "b=2")


def test_a_delayed_task_is_shown_and_not_run_early(terminal: Terminal) -> None:
    later = terminal.json(*_sum("out", "--in", "PT10M"))["id"]
    at = terminal.json(*_sum("out", "--at", "2036-12-01T09:00+01:00"))["id"]
    shown = terminal.run("rd", "--where", f"id={at}")
    assert "not before 2036-12-01T08:00:00.000000Z" in shown
    board = terminal.json("board")["lanes"]
    assert [(lane["waiting"], lane["delayed"]) for lane in board] == [(2, 2)]
    assert "build: 2 of 2 not before 20" in terminal.run("board")
    why = terminal.run("why", at)
    assert "It may be claimed not before 2036-12-01T08:00:00.000000Z" in why
    assert "not before 2036" in terminal.run("observe", at)
    assert "TUPLE_NOT_FOUND" in terminal.run("in", "--lane", "build", code=1)
    assert "MISS" not in terminal.run(*WORK)
    waits_us = parse_time(terminal.json("observe", later)["not_before"]) - SystemClock().now()
    assert 0 < waits_us <= 600 * SECOND_US
    put = terminal.json(*_sum("out", "--at", "2020-01-01T00:00Z"))["id"]
    assert "MISS" in terminal.run(*WORK)
    assert terminal.json("observe", put)["state"] == "done"


def test_wrong_delays_are_refused(terminal: Terminal) -> None:
    (terminal.path / "t.json").write_text(json.dumps({"lane": "build", "delay": "PT1H"}))
    assert terminal.json("dispatch", "t.json")["new"]
    assert "NOT_BEFORE_PAST_DEADLINE" in _error(
        terminal, {"lane": "b", "delay": "PT1H", "agent_terms": {"deadline_iso": _in(60)}}
    )
    both = {"lane": "b", "delay": "PT1H", "agent_terms": {"not_before_iso": _in(60)}}
    assert "FIELD_VALUE" in _error(terminal, both)
    for delay in ("PT0S", "P1M", "10m", "-PT1H"):
        assert "TTL_INVALID" in _error(terminal, {"lane": "b", "delay": delay})
    assert "TERMS_INVALID" in terminal.run("out", "--lane", "b", "--at", "tomorrow", code=1)
    assert "not both" in terminal.run("out", "--lane", "b", "--at", _in(60), "--in", "PT1H", code=2)


def _in(seconds: int) -> str:
    return print_time(SystemClock().now() + seconds * SECOND_US)


def _error(terminal: Terminal, fields: dict[str, Any]) -> str:
    (terminal.path / "wrong.json").write_text(json.dumps(fields))
    return terminal.run("dispatch", "wrong.json", code=1)


def test_a_schedule_from_adding_to_removing(terminal: Terminal) -> None:
    added = terminal.run(*_sum("schedule", "add", "nightly", "--cron", "0 3 * * *", "--tz", "Europe/Berlin"))
    assert added.startswith("nightly  cron 0 3 * * * Europe/Berlin  20")
    assert "It was there already." in terminal.run(
        *_sum("schedule", "add", "nightly", "--cron", "0 3 * * *", "--tz", "Europe/Berlin")
    )
    assert "SCHEDULE_EXISTS" in terminal.run("schedule", "add", "nightly", "--every", "PT1H", "--lane", "x", code=1)
    details = terminal.json("schedule", "show", "nightly")
    assert len(details["upcoming"]) == 5
    assert all(time["local"][15:20] == "03:00" for time in details["upcoming"])
    assert details["tuple"]["payload"][0]["args"] == {"a": 1, "b": 2}
    emitted = terminal.json("schedule", "run", "nightly")["id"]
    (row,) = terminal.json("schedule", "list")["schedules"]
    assert (row["last_tuple"], row["emitted"], row["state"]) == (emitted, 1, "active")
    listed = terminal.run("schedule", "list")
    assert short_id(emitted) in listed
    assert "agent.sum.numbers " in terminal.run(*WORK)
    assert terminal.json("observe", emitted)["state"] == "done"
    assert "paused" in terminal.run("schedule", "pause", "nightly")
    assert terminal.json("schedule", "resume", "nightly")["state"] == "active"
    assert "nightly is removed" in terminal.run("schedule", "remove", "nightly")
    assert terminal.run("schedule", "list") == "No schedules.\n"
    assert "SCHEDULE_NOT_FOUND" in terminal.run("schedule", "show", "nightly", code=1)
    assert terminal.run("verify").startswith("sound")


def test_a_schedule_in_a_file_is_changed_by_options(terminal: Terminal) -> None:
    (terminal.path / "s.yaml").write_text(
        "lane: build\ncron: 0 3 * * *\ntz: Asia/Tokyo\ncatch_up: none\n"
        "payload: [{yool: agent.sum.numbers, args: {a: 1, b: 2}}]\n"
    )
    row = terminal.json("schedule", "add", "from-file", "s.yaml")["schedule"]
    assert (row["when"], row["catch_up"], row["lane"]) == ("cron 0 3 * * * Asia/Tokyo", "none", "build")
    row = terminal.json("schedule", "add", "other", "s.yaml", "--every", "PT15M", "--lane", "test")["schedule"]
    assert (row["when"], row["lane"]) == ("every PT15M", "test")


def test_nonsense_names_the_option(terminal: Terminal) -> None:
    for words, code in (
        (("--cron", "* * * * * *"), "CRON_INVALID"),
        (("--cron", "0 0 31 2 *"), "CRON_NEVER_FIRES"),
        (("--cron", "0 3 * * *", "--tz", "Mars/Base"), "ZONE_UNKNOWN"),
        (("--every", "PT1S"), "INTERVAL_INVALID"),
        (("--at", "2020-01-01T00:00Z"), "SCHEDULE_TIMING"),
        ((), "SCHEDULE_TIMING"),
    ):
        assert code in terminal.run(*_sum("schedule", "add", "x", *words), code=1)
    assert "YOOL_NOT_FOUND" in terminal.run(
        "schedule", "add", "x", "--every", "PT1H", "--lane", "b", "--yool", "agent.no.such", code=1
    )
    assert terminal.json("schedule", "list") == {"schedules": []}


def test_agents_see_and_change_their_own_schedules_only(gateway: Gateway, repository: Repository) -> None:
    write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog([LINT, DEPLOY]))
    with run_server(gateway, repository):
        agent = OPERATIONS["add_agent"]
        worker, other = (
            Credential(token=gateway.call(agent, agent.request(name=name), LOCAL_ADMIN).token)
            for name in ("one", "two")
        )
        add, listing = OPERATIONS["add_schedule"], OPERATIONS["list_schedules"]
        gateway.call(add, AddSchedule(**NIGHTLY), worker)
        assert [
            row.added_by.rpartition("/")[2] for row in gateway.call(listing, ListSchedules(), LOCAL_ADMIN).schedules
        ]
        assert gateway.call(listing, ListSchedules(), other).schedules == []
        for name in ("show_schedule", "pause_schedule", "resume_schedule", "remove_schedule", "run_schedule"):
            with pytest.raises(ScheduleNotFound):
                gateway.call(OPERATIONS[name], ScheduleNamed(name="nightly"), other)
        with pytest.raises(YoolForbidden):
            gateway.call(add, AddSchedule(**{**NIGHTLY, "name": "d", "payload": [{"yool": DEPLOY.name}]}), worker)
        put = gateway.call(OPERATIONS["run_schedule"], ScheduleNamed(name="nightly"), worker)
        record = gateway.tuple_space.space.get(put.id)
        assert record.tuple.authority["agent"].endswith("/one")


def test_what_the_catalog_no_longer_admits_is_recorded_on_the_schedule(
    gateway: Gateway, repository: Repository
) -> None:
    write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog([LINT]))
    schedules = gateway.tuple_space.schedules
    gateway.call(OPERATIONS["add_schedule"], AddSchedule(**{**NIGHTLY, "cron": None, "at": _in(1)}), LOCAL_ADMIN)
    write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog([DEPLOY]))
    wait_until(lambda: schedules.emit_due().refused == ("nightly",))
    (row,) = gateway.call(OPERATIONS["list_schedules"], ListSchedules(), LOCAL_ADMIN).schedules
    assert row.refused is not None
    assert (row.refused.code, row.refused.tries, row.emitted) == ("YOOL_NOT_FOUND", 1, 0)


def test_over_http(gateway: Gateway, repository: Repository) -> None:
    write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog([LINT]))
    with run_server(gateway, repository) as bus:
        assert bus.call("POST", "/schedule", NIGHTLY).json["new"]
        assert bus.call("POST", "/schedule", NIGHTLY).json["new"] is False
        wrong = bus.call("POST", "/schedule", {**NIGHTLY, "name": "x", "cron": "60 * * * *"})
        assert (wrong.status, wrong.json["code"], wrong.json["field"]) == (422, "CRON_INVALID", "cron")
        assert bus.call("POST", "/schedule/nightly/pause").json["state"] == "paused"
        assert bus.call("POST", "/schedule/nightly/run").json["new"]
        assert bus.call("GET", "/schedule").json["schedules"][0]["emitted"] == 1
        assert bus.call("DELETE", "/schedule/nightly").status == 200
        assert bus.call("GET", "/schedule/nightly").status == 404


def test_the_background_emits_a_schedule_that_is_added_while_it_sleeps() -> None:
    harness = MemoryWorkHarness()
    schedules = Schedules(harness.space)
    owner: dict[str, Any] = {"run": "r", "added_by": "me", "authority": {"user": "me"}, "is_admin": True}
    opened: list[TupleSpace] = []

    def find() -> Schedules | None:
        return Schedules(opened[0]) if opened else None

    with emit_schedules(find):
        opened.append(harness.space)
        schedules.add(name="soon", template={"lane": "build"}, every="PT10S", **owner)
        harness.clock.advance(seconds=10)
        wait_until(lambda: schedules.get("soon").state.emitted == 1)


def test_a_worker_emits(terminal: Terminal) -> None:
    at = print_time(SystemClock().now() + 10 * SECOND_US)
    terminal.run(*_sum("schedule", "add", "once", "--at", at))
    worker = terminal.start("worker", "--lane", "build", "--import", "tests.space.yools")
    try:
        wait_until(lambda: terminal.json("schedule", "list")["schedules"][0]["emitted"] == 1, 60)
        tuple_id = terminal.json("schedule", "list")["schedules"][0]["last_tuple"]
        wait_until(lambda: terminal.json("observe", tuple_id)["state"] == "done", 60)
    finally:
        worker.terminate()
        worker.communicate(timeout=60)
    assert terminal.json("schedule", "list")["schedules"][0]["state"] == "ended"


def test_a_worker_that_exits_by_itself_puts_what_is_due_first(terminal: Terminal) -> None:
    at = print_time(SystemClock().now() + 10 * SECOND_US)
    terminal.run(*_sum("schedule", "add", "once", "--at", at))
    while SystemClock().now() < parse_time(at):
        time.sleep(0.1)
    assert "agent.sum.numbers " in terminal.run(*WORK)
