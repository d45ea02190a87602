"""Money: a parent's budget is exceeded by one step at most, and nobody runs on an authority that is not their own."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engrambus.app import open_project
from engrambus.edges.sdk import Bus
from engrambus.errors import AuthorityStamped
from engrambus.settings import Settings
from engrambus.space.tuples import Price, tuple_id
from tests.projects import Repository
from tests.space.terminal import Terminal, open_terminal

MODULE = "tests.attacks.priced_yools"
WORKER = ("worker", "--lane", "build", "--until-empty", "--concurrency", "8", "--import", MODULE)
BUDGET_USD, TRUE_USD = 0.20, 0.05


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """A project whose catalog declares yools that lie about their price."""
    return open_terminal(repository, settings, tmp_path, MODULE)


class Team:
    """A parent tuple with a budget, and children that spend it."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal

    def put(self, yools: list[tuple[str, dict[str, Any]]], **budget: float) -> str:
        """Put a parent with a budget and a child for each yool; return the parent's id."""
        with self.bus() as bus:
            parent = bus.tuple_out("parents", agent_terms=budget).id
            for yool, args in yools:
                bus.tuple_out("build", payload=[{"yool": yool, "args": args}], parent_id=parent)
        return str(parent)

    def bus(self) -> Bus:
        """Open the project in this process."""
        return Bus.open(self.terminal.path, settings=self.settings)

    def spent(self, parent: str) -> tuple[int, int]:
        """Return the micro-dollars and tokens that the parent's children have spent, by the sum of their records."""
        with closing(open_project(self.terminal.path, self.settings)) as gateway:
            space = gateway.tuple_space.space
            record = space.get(parent)
            children = space.rd_all({"parent_id": parent}, limit=1000)
            assert sum(child.own_micros for child in children) == record.spent_micros  # nothing vanished
            return record.spent_micros, record.spent_tokens

    def states(self) -> list[str]:
        """Return the states of all children."""
        with closing(open_project(self.terminal.path, self.settings)) as gateway:
            return [child.state for child in gateway.tuple_space.space.rd_all({"lane": "build"}, limit=1000)]

    @property
    def settings(self) -> Settings:
        """The settings of the project's owner."""
        return Settings.from_environment(self.terminal.environment)


@pytest.fixture
def team(terminal: Terminal) -> Team:
    """A parent's children in a project."""
    return Team(terminal)


def _work(terminal: Terminal, workers: int, meanwhile: Callable[[list[Any]], None] = lambda running: None) -> None:
    running = [terminal.start(*WORKER) for _ in range(workers)]
    meanwhile(running)
    for worker in running:
        worker.communicate(timeout=120)


def test_steps_that_cost_more_than_announced_exceed_a_budget_by_one_step_at_most(team: Team) -> None:
    """Puts 32 children that announce $0.01 and spend $0.05 under a parent with $0.20, for four workers."""
    parent = team.put([("agent.price.lie", {"number": number}) for number in range(32)], budget_usd=BUDGET_USD)
    _work(team.terminal, 4)
    assert team.spent(parent)[0] <= (BUDGET_USD + TRUE_USD) * 1_000_000
    assert team.states().count("done") >= 3  # the honest rest of the budget was used


def test_a_budget_of_tokens_holds_as_well(team: Team) -> None:
    """The same with tokens: 10 announced, 50 spent, 200 allowed."""
    parent = team.put([("agent.price.lie", {"number": number}) for number in range(32)], budget_tokens=200)
    _work(team.terminal, 2)
    assert team.spent(parent)[1] <= 200 + 50


def test_workers_that_are_killed_do_not_loosen_a_budget(team: Team) -> None:
    """Kills two of four workers with SIGKILL while their steps spend more than they announced."""
    team.terminal.environment["YOOL_TUPLE_LEASE_SECONDS"] = "3"  # what the killed ones held is taken over soon
    parent = team.put([("agent.price.lie", {"number": number}) for number in range(16)], budget_usd=BUDGET_USD)

    def kill(running: list[Any]) -> None:
        ends = time.monotonic() + 60
        while team.spent(parent)[0] == 0 and time.monotonic() < ends:
            time.sleep(0.05)
        for worker in running[:2]:
            worker.send_signal(signal.SIGKILL)

    _work(team.terminal, 4, kill)
    team.terminal.start(*WORKER).communicate(timeout=120)  # counts what the killed ones have spent
    assert 0 < team.spent(parent)[0] <= (BUDGET_USD + TRUE_USD) * 1_000_000


def test_one_honest_step_buys_no_flood_of_dear_ones(team: Team) -> None:
    """Lets the first step cost what it announced, and all others five times as much."""
    parent = team.put([("agent.price.turn", {"number": number}) for number in range(32)], budget_usd=BUDGET_USD)
    _work(team.terminal, 2)
    assert team.spent(parent)[0] <= (BUDGET_USD + TRUE_USD) * 1_000_000


def test_steps_that_still_run_when_the_budget_breaks_are_stopped(team: Team, tmp_path: Path) -> None:
    """Starts a step that waits with its spending until the budget is gone."""
    started = tmp_path / "started"
    parent = team.put([("agent.price.late", {"started": str(started)})], budget_usd=0.01)

    def break_budget(running: list[Any]) -> None:
        ends = time.monotonic() + 60
        while not started.exists() and time.monotonic() < ends:
            time.sleep(0.05)
        with closing(open_project(team.terminal.path, team.settings)) as gateway:
            space = gateway.tuple_space.space
            (child,) = space.rd_all({"lane": "build"})
            with team.bus() as bus:
                bus.tuple_out("other", payload=[{"yool": "agent.price.lie", "args": {"number": 0}}], parent_id=parent)
            (claim,) = space.claim({"lane": "other"}, worker="elsewhere")
            space.record_cost(claim.id, claim.fence, 0, Price(micros=50_000))
            assert child.state == "claimed"

    _work(team.terminal, 1, break_budget)
    assert team.spent(parent)[0] == 50_000  # the step was stopped before it spent anything
    assert team.states() == ["dead"]


def test_honest_prices_lose_no_parallel_steps(team: Team, tmp_path: Path) -> None:
    """Not an attack: steps that kept their price before run eight at once, as many as the worker may."""
    folder = tmp_path / "first"
    folder.mkdir()
    rest = {"folder": str(folder), "together": 1}
    team.put([("agent.price.honest", {"number": number, **rest}) for number in range(8)], budget_usd=0.08)
    _work(team.terminal, 1)
    together = tmp_path / "together"
    together.mkdir()
    rest = {"folder": str(together), "together": 8}
    parent = team.put([("agent.price.honest", {"number": number, **rest}) for number in range(8)], budget_usd=0.08)
    _work(team.terminal, 1)
    assert team.states() == ["done"] * 16  # each fails unless the other seven run at the same time
    assert team.spent(parent)[0] == 80_000


# Authority


FORGED = {"user": "root", "agent": "evil", "ci": True}


def test_the_local_admin_cannot_forge_an_authority(team: Team) -> None:  # YT-04
    """Sends a tuple with another authority, without an id and with the id that matches it, on the command line."""
    fields = _complete(team, FORGED)
    for forged in ({"lane": "build", "authority": FORGED}, {**fields, "id": tuple_id(fields)}):
        (team.terminal.path / "t.json").write_text(json.dumps(forged))
        for command in ("dispatch", "out"):
            problem = json.loads(team.terminal.run(command, "t.json", "--json", code=1))
            assert (problem["code"], problem["field"]) == ("AUTHORITY_STAMPED", "authority")
    assert team.states() == []


def test_no_interface_takes_a_forged_authority_from_the_admin(team: Team) -> None:  # YT-04
    """Sends a tuple with another authority and the id that matches it, in Python."""
    fields = _complete(team, FORGED)
    with team.bus() as bus:
        for send in (bus.tuple_out, bus.tuple_dispatch):
            with pytest.raises(AuthorityStamped):
                send(**fields, id=tuple_id(fields))


def _complete(team: Team, authority: dict[str, Any]) -> dict[str, Any]:
    """Return every field of a tuple that is not in the space."""
    return {
        "schema": "yool-tuple/v1",
        "lane": "build",
        "created_at": "2026-01-01T00:00:00.000000Z",
        "map_pos": {},
        "authority": authority,
        "agent_terms": {},
        "src_ptr": [],
        "payload": [{"yool": "agent.price.lie", "args": {"number": 0}}],
        "receipts": [],
        "parent_id": None,
    }
