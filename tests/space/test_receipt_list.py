"""Receipts listed by run, with their uses from the cache. # YT-08 # YT-09"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engrambus import Bus
from engrambus.core import estimate_tokens
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.settings import Settings
from engrambus.testing import expect_refusal
from tests.http.running_server import run_server
from tests.projects import Repository
from tests.space.terminal import WORK, Terminal, open_terminal


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """Open a project with a catalog of the tests' yools."""
    return open_terminal(repository, settings, tmp_path, "tests.space.yools")


def put(terminal: Terminal, yool: str, *args: str, run: str | None = None) -> str:
    """Put a tuple of one step; return its id."""
    chosen = ("--run", run) if run is not None else ()
    words = [word for arg in args for word in ("--arg", arg)]
    return str(terminal.json("out", "--lane", "build", "--yool", yool, *words, *chosen)["id"])


def summary(answer: Any) -> list[tuple[str, int, bool]]:
    """Return yool, exit status and whether it was a hit of each row."""
    return [(row["yool"], row["exit"], row["hit"]) for row in answer["receipts"]]


# YT-08: CP2, a run-scoped index
def test_the_receipts_of_a_run_are_listed_with_cost_and_hits(terminal: Terminal) -> None:
    first = str(terminal.json("run", "new", "first")["run_id"])
    leave = put(terminal, "agent.leave.report", "text=all good")
    spend = put(terminal, "agent.spend.money", "usd=0.12", "times=1")
    terminal.run(*WORK)
    second = str(terminal.json("run", "new", "second")["run_id"])
    again = put(terminal, "agent.leave.report", "text=all good")
    failing = put(terminal, "agent.fail.always")
    terminal.run(*WORK, code=1)
    listed = terminal.json("receipt", "list", "--run", first)
    assert listed["run_id"] == first
    assert sorted(summary(listed)) == [("agent.leave.report.v1", 0, False), ("agent.spend.money.v1", 0, False)]
    by_tuple = {row["tuple_id"]: row for row in listed["receipts"]}
    assert (by_tuple[spend]["usd"], by_tuple[leave]["artifacts"]) == (0.12, {"file": 1})
    listed = terminal.json("receipt", "list", "--run", second)
    hit = next(row for row in listed["receipts"] if row["hit"])
    assert (hit["id"], hit["tuple_id"]) == (by_tuple[leave]["id"], again), "a hit names the original receipt"
    assert (hit["usd"], hit["wall_ms"], hit["step"]) == (0, 0, 0)
    assert hit["ended_at"] > by_tuple[leave]["ended_at"], "of a hit, when it answered"
    assert {row["tuple_id"] for row in listed["receipts"]} == {again, failing}
    assert terminal.json("receipt", "list", "--run-id", second)["receipts"] == listed["receipts"]
    every = terminal.json("receipt", "list")
    assert len(every["receipts"]) == len(listed["receipts"]) + 2
    everything = terminal.json("receipt", "list", "--all")["receipts"]
    assert [row["yool"] for row in everything if "step" not in row] == ["tuple.run"] * 4
    assert "RUN_NOT_FOUND" in terminal.run("receipt", "list", "--run", "nothing", code=1)
    terminal.run("verify")
    next(terminal.path.rglob("work.db")).unlink()
    assert terminal.json("receipt", "list")["receipts"] == every["receipts"], "the same from an index that was rebuilt"


# YT-08
def test_filters_pages_and_short_ids(terminal: Terminal) -> None:
    ids = [put(terminal, "agent.sum.numbers", f"a={number}", "b=1") for number in range(5)]
    failing = put(terminal, "agent.fail.always")
    terminal.run(*WORK, code=1)
    everything = terminal.json("receipt", "list")["receipts"]
    failed = terminal.json("receipt", "list", "--failed")["receipts"]
    assert {row["tuple_id"] for row in failed} == {failing}
    assert all(row["exit"] != 0 for row in failed)
    assert len(terminal.json("receipt", "list", "--yool", "agent.sum")["receipts"]) == 5
    assert terminal.json("receipt", "list", "--yool", "agent.su")["receipts"] == []
    (mine,) = terminal.json("receipt", "list", "--tuple", ids[2][7:19])["receipts"]
    assert mine["tuple_id"] == ids[2]
    assert len(terminal.json("receipt", "list", "--since", "PT1H")["receipts"]) == len(everything)
    assert terminal.json("receipt", "list", "--since", "2099-01-01T00:00:00Z")["receipts"] == []
    paged: list[Any] = []
    cursor: list[str] = []
    while True:
        page = terminal.json("receipt", "list", "--limit", "4", *cursor)
        paged += page["receipts"]
        if "cursor" not in page:
            break
        cursor = ["--cursor", page["cursor"]]
    assert paged == everything
    assert "FIELD_VALUE" in terminal.run("receipt", "list", "--cursor", "7.x", code=1)
    head, *rows = terminal.run("receipt", "list").splitlines()
    assert head.split()[:3] == ["RECEIPT", "YOOL", "EXIT"]
    assert [row.split()[0] for row in rows] == [row["id"][7:19] for row in everything]
    assert terminal.run("receipt", "get", rows[0].split()[0])


# YT-08, EB-15: an agent sees its own run only, and no answer is larger than asked for
def test_agents_list_their_own_run(gateway: Gateway, repository: Repository) -> None:
    admin = Bus(gateway, LOCAL_ADMIN)
    other = admin.record_tests(REPORT).receipt_id
    run = admin.open_run("another").run_id
    own = [admin.record_tests(REPORT, name=f"{number}.xml").receipt_id for number in range(20)]
    with run_server(gateway, repository) as bus:
        agent = bus.add("coder")
        rows = bus.call("GET", "/receipt", token=agent).json["receipts"]
        assert [row["id"] for row in rows] == own[::-1]
        assert other not in {row["id"] for row in rows}
        assert bus.call("GET", f"/receipt?run={run}", token=agent).json["receipts"] == rows
        (first_run,) = {row.run_id for row in admin.list_work().runs} - {run}
        hidden = bus.call("GET", f"/receipt?run={first_run}", token=agent)
        absent = bus.call("GET", f"/receipt?run={'0' * 26}", token=agent)
        assert (hidden.status, hidden.code) == (absent.status, absent.code) == (404, "RUN_NOT_FOUND")
        assert [row["id"] for row in bus.call("GET", f"/receipt?run={first_run}").json["receipts"]] == [other]
        collected, target = [], "/receipt?max_tokens=900"
        while True:
            page = bus.call("GET", target, token=agent)
            assert estimate_tokens(page.body) <= 900
            assert page.json["receipts"]
            collected += page.json["receipts"]
            if "cursor" not in page.json:
                break
            target = f"/receipt?max_tokens=900&cursor={page.json['cursor']}"
        assert collected == rows
    with expect_refusal("BUDGET_TOO_SMALL"):
        admin.receipt_list(max_tokens=20)


REPORT = '<testsuite><testcase classname="t" name="one" file="t.py"><failure>no</failure></testcase></testsuite>'
