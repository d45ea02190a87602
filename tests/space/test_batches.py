"""Batches at the edges, with real workers, and after a kill -9. # YT-16"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings
from engrambus.space.catalog import CAPABILITIES, Catalog, CatalogEntry, write_catalog
from engrambus.space.tuples import BatchSpace
from engrambus.testing.work import PERSON, RUN, completion, put
from engrambus.testing.work.batches import figures, spawn
from engrambus.testing.work.harness import take
from tests.harness.stores import SqliteWorkHarness
from tests.http.running_server import RunningServer, run_server
from tests.projects import Repository
from tests.space.terminal import WORK, Terminal, open_terminal
from tests.space.worker_harness import open_worker_harness, running_pools, step, wait_until

LINT = CatalogEntry(name="agent.lint.ruff", version=1, authority=("user", "agent"), lane="build")
TEMPLATE: dict[str, Any] = {"lane": "build", "payload": [{"yool": "agent.lint.ruff", "args": {"path": "src"}}]}


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """Open a project whose catalog declares yools."""
    return open_terminal(repository, settings, tmp_path, "tests.space.yools")


@pytest.fixture
def bus(gateway: Any, repository: Repository) -> Any:
    """Serve a project with a catalog."""
    write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog([LINT]))
    with run_server(gateway, repository) as server:
        yield server


def test_a_worker_works_on_as_many_leaves_at_once_as_it_has_slots(tmp_path: Path) -> None:
    with open_worker_harness(tmp_path / "project") as harness:
        calls, go = tmp_path / "calls", tmp_path / "go"
        leaf = step("agent.think.once", calls=str(calls), go=str(go), n="${agent.number}")
        batch = BatchSpace(harness.space).spawn(
            {"lane": "build", "payload": [leaf]}, depth=2, branching=4, threshold=1, authority=PERSON, run=RUN
        )

        def running() -> int:
            return len(harness.space.rd_all({"lane": "build", "state": "claimed"}))

        with running_pools(harness.pool(concurrency=6)):
            wait_until(lambda: calls.exists() and calls.read_text().count("called") == 6)
            assert 6 <= running() <= 12  # up to twice as many are claimed, so that cached answers wait for no slot
            go.touch()
            wait_until(lambda: harness.space.get(batch.id).state == "done")
        assert calls.read_text().count("called") == 16


@pytest.mark.slow
def test_a_batch_is_done_once_by_workers_of_which_one_is_killed(terminal: Terminal, tmp_path: Path) -> None:
    """Every leaf has one final receipt; only steps that were cut off run again."""
    calls = tmp_path / "calls"
    spawn = ("batch", "spawn", "--lane", "build", "--yool", "agent.count.calls", "--arg", f"path={calls}")
    batch = terminal.json(*spawn, "--depth", "2", "--branching", "14", "--threshold", "100")["id"]
    killed = terminal.start(*WORK, "--concurrency", "8")
    wait_until(lambda: calls.exists() and calls.read_text().count("called") > 40, 60)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=30)
    shown = terminal.json("batch", "show", batch)
    states = shown["levels"][2]["states"]
    assert states["done"] < 196
    assert shown["levels"][2]["folded"] + sum(states.values()) == 196
    terminal.run("resume", "--import", "tests.space.yools", "--concurrency", "8")
    shown = terminal.json("batch", "show", batch)
    assert (shown["state"], shown["folded"]) == ("done", 0)
    assert [level["states"] for level in shown["levels"]] == [{"done": 1}, {"done": 14}, {"done": 196}]
    assert [level["receipts"] for level in shown["levels"][:2]] == [1, 14]
    assert 2 * 196 <= shown["levels"][2]["receipts"] <= 2 * 196 + 8
    assert 196 <= calls.read_text().count("called") <= 196 + 8
    assert terminal.json("verify")["findings"] == []


def test_a_batch_at_the_command_line(terminal: Terminal) -> None:
    spawn = ("batch", "spawn", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=${agent.number}")
    answer = terminal.json(*spawn, "--arg", "b=1", "--depth", "2", "--branching", "3", "--threshold", "2")
    assert (answer["agents"], answer["leaves"], answer["folded"]) == (13, 9, 12)
    batch = answer["id"][7:19]
    assert "13 agents, 12 not materialised" in terminal.run("board")
    assert "1 open, 12 not materialised" in terminal.run("runs")
    assert "13 agents, 12 not materialised" in terminal.run("observe", batch)
    assert "3 of its 3 children have not ended" in terminal.run("why", batch)
    terminal.run("in", "--lane", "build")
    assert terminal.json("batch", "compress", f"{batch}/0.1")["agents"] == 4
    assert terminal.json("batch", "prune", batch) == {"id": answer["id"], "agents": 6, "folded": 10}
    assert "is cancelled" in terminal.run("cancel", f"{batch}/0.2")
    terminal.run(*WORK)
    assert terminal.json("batch", "list")["batches"][0]["state"] == "done"
    assert "of 9 leaves 4 cancelled or taken" in terminal.run("observe", batch)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--depth", "0", "--branching", "3"), "BATCH_SHAPE_INVALID"),
        (("--depth", "3", "--branching", "-1"), "BATCH_SHAPE_INVALID"),
        (("--depth", "64", "--branching", "1"), "BATCH_SHAPE_INVALID"),
        (("--depth", "30", "--branching", "1000"), "BATCH_TOO_LARGE"),
        (("--depth", "1", "--branching", "2", "--threshold", "0"), "BATCH_THRESHOLD"),
        (("--depth", "1", "--branching", "2", "--yool", "agent.not.there"), "YOOL_NOT_FOUND"),
        (("--depth", "1", "--branching", "2", "--arg", "c=3"), "YOOL_ARGUMENTS"),
    ],
)
def test_a_bad_batch_is_refused_and_nothing_is_stored(terminal: Terminal, words: tuple[str, ...], code: str) -> None:
    spawn = ("batch", "spawn", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", "b=1")
    assert code in terminal.run(*spawn, *words, code=1)
    assert terminal.json("batch", "list") == {"batches": []}


def test_a_batch_over_http(bus: RunningServer) -> None:
    sent = bus.call("POST", "/batch", {**TEMPLATE, "depth": 3, "branching": 100, "agent_terms": {"budget_usd": 2}})
    assert (sent.status, sent.json["folded"]) == (200, 1_010_100)
    batch = sent.json["id"]
    shown = bus.call("GET", f"/batch/{batch}").json
    assert (shown["agents"], shown["budget_usd"], len(shown["levels"])) == (1_010_101, 2, 4)
    (claim,) = bus.gateway.tuple_space.space.claim({"lane": "build"}, worker="w")
    refused = bus.call("POST", f"/batch/{batch}/compress", {"path": "0.0"})
    assert (refused.status, refused.json["code"]) == (409, "BATCH_RUNNING")
    assert claim.id[7:19] in refused.json["detail"]
    assert bus.call("POST", f"/batch/{batch}/prune", {}).json["agents"] == 31
    (row,) = bus.call("GET", "/work").json["batches"]
    assert (row["id"], row["folded"]) == (batch, 1_010_097)


def test_a_batch_of_another_run_looks_absent(bus: RunningServer) -> None:
    batch = bus.call("POST", "/batch", {**TEMPLATE, "depth": 1, "branching": 2}).json["id"]
    open_run, add = OPERATIONS["open_run"], OPERATIONS["add_agent"]
    run = bus.gateway.call(open_run, open_run.request(goal="another"), LOCAL_ADMIN).run_id
    spy = bus.gateway.call(add, add.request(name="spy"), Credential(local_admin=True, run=run)).token
    for method, path in (("GET", ""), ("POST", "/prune"), ("POST", "/compress")):
        body: dict[str, Any] | None = {} if method == "POST" else None
        assert bus.call(method, f"/batch/{batch}{path}", body, token=spy).code == "TUPLE_NOT_FOUND"
    assert bus.call("GET", "/batch", token=spy).json == {"batches": []}
    single = bus.call("POST", "/tuple", TEMPLATE).json["id"]
    assert bus.call("GET", f"/batch/{single}").code == "BATCH_NOT_FOUND"


def test_an_idempotency_key_spawns_a_batch_once(bus: RunningServer) -> None:
    body: dict[str, Any] = {**TEMPLATE, "depth": 1, "branching": 2}
    first, again = (bus.call("POST", "/batch", body, headers={"Idempotency-Key": "once"}).json for _ in range(2))
    assert (first["new"], again["new"], first["id"]) == (True, False, again["id"])
    refused = bus.call("POST", "/batch", {**body, "depth": 2}, headers={"Idempotency-Key": "once"})
    assert refused.code == "IDEMPOTENCY_CONFLICT"


def test_a_batch_of_another_process_is_worked_on_at_once(tmp_path: Path) -> None:
    """Although this process has known until then that there is none."""
    here, there = (SqliteWorkHarness(tmp_path / "catalog") for _ in range(2))
    put(here)
    here.space.complete([completion(here, claim) for claim in take(here)])
    batch = spawn(there, 2, 2)
    claims = take(here, limit=4)
    here.space.complete([completion(here, claim) for claim in claims[:3]])
    assert [level["states"] for level in figures(there, batch)] == [
        {"open": 1},
        {"done": 1, "open": 1},
        {"claimed": 1, "done": 3},
    ]
    there.space.complete([completion(there, claims[3])])
    assert here.space.get(batch).state == "done"
    assert here.space.store.verify() == []
    for harness in (here, there):
        harness.close()
