"""Who sees whose work, and on whose authority it is done. # YT-04 # YT-05 # YT-15"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engrambus.app import open_project, open_worker_dependencies
from engrambus.core import SystemClock
from engrambus.errors import ReceiptNotFound, RunEnded, TupleNotFound, YoolForbidden
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway, to_request
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings
from engrambus.space.catalog import CAPABILITIES, Catalog, CatalogEntry, write_catalog
from engrambus.space.tuples import Completion, read_pattern
from engrambus.space.work import LaneWorkerPool, Progress
from engrambus.testing.work import completion
from tests.projects import Repository
from tests.space.shop import MODULE, OWN

LINT = CatalogEntry(name="agent.lint.ruff", version=1, authority=("user", "agent"), lane="build")
STEPS = {"payload": [{"yool": LINT.name}]}


class Now:
    """What receipts take the time from."""

    clock = SystemClock()


class Runs:
    """A project with two runs, and an agent in each."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.space = gateway.tuple_space.space
        self.hers = self._agent("ada", gateway.identify(LOCAL_ADMIN).run.run_id)
        self.his = self._agent("bob", self.ask("open_run", LOCAL_ADMIN, goal="another").run_id)

    def _agent(self, name: str, run: str) -> Credential:
        return Credential(token=self.ask("add_agent", Credential(local_admin=True, run=run), name=name).token)

    def run_of(self, who: Credential) -> str:
        """The run somebody is in."""
        return self.gateway.identify(who).run.run_id

    def ask(self, name: str, who: Credential, /, **fields: Any) -> Any:
        """An operation's answer."""
        operation = OPERATIONS[name]
        return self.gateway.call(operation, to_request(fields, operation.request), who)

    def give_up(self, lane: str) -> str:
        """What waits in a lane is tried once and given up."""
        (claim,) = self.space.claim({"lane": lane}, worker="w")
        self.space.complete([Completion(id=claim.id, fence=claim.fence, failure="exit 1")])
        return claim.id


@pytest.fixture
def runs(gateway: Gateway, repository: Repository) -> Runs:
    write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog([LINT]))
    return Runs(gateway)


@pytest.mark.parametrize("name", ["tuple_rd", "tuple_in"])
def test_another_runs_tuples_match_no_pattern(runs: Runs, name: str) -> None:
    one = runs.ask("tuple_out", runs.hers, lane="notes").id
    before = runs.space.store.last_line()
    for asked in ({"lane": "notes"}, {"pattern": {"run": runs.run_of(runs.hers)}}, {"pattern": {"id": one}}, {}):
        with pytest.raises(TupleNotFound):
            runs.ask(name, runs.his, **asked)
    assert (runs.space.store.last_line(), runs.space.get(one).state) == (before, "waiting")
    assert runs.ask(name, runs.hers, lane="notes").tuple["id"] == one


def test_what_is_taken_is_shown_as_it_was_read(runs: Runs) -> None:
    put = runs.ask("tuple_dispatch", runs.hers, lane="build", **STEPS)
    read = runs.ask("tuple_rd", runs.hers, lane="build")
    taken = runs.ask("tuple_in", runs.hers, lane="build")
    assert (read.state, taken.state) == ("waiting", "taken")
    assert taken.tuple == read.tuple
    assert taken.tuple["receipts"] == [put.receipt_id]


def test_patterns_see_a_tuple_as_it_was_created_and_its_id_run_and_state(runs: Runs) -> None:
    one = runs.ask("tuple_dispatch", runs.hers, lane="build", **STEPS)
    assert runs.ask("tuple_rd", runs.hers, lane="build").tuple["receipts"] == [one.receipt_id]
    stamped = {"id": one.id, "run": runs.run_of(runs.hers), "state": "waiting"}
    created = {"lane": "build", "payload.0.yool": LINT.name, "receipts.0": {"exists": False}}
    assert runs.ask("tuple_rd", runs.hers, pattern=stamped | created).tuple["id"] == one.id
    with pytest.raises(TupleNotFound):
        runs.ask("tuple_rd", runs.hers, pattern={"receipts.0": one.receipt_id})


def test_an_agent_is_listed_the_work_of_its_own_run(runs: Runs) -> None:
    terms = {"max_retries": 0}
    dead = {}
    for who, lane in ((runs.hers, "hers"), (runs.his, "his")):
        runs.ask("tuple_dispatch", who, lane=lane, agent_terms=terms, **STEPS)
        dead[who] = runs.give_up(lane)
    for who in (runs.hers, runs.his):
        assert [each.id for each in runs.ask("list_dead", who).dead] == [dead[who]]
        assert [each.run_id for each in runs.ask("list_work", who).runs] == [runs.run_of(who)]
    assert {each.id for each in runs.ask("list_dead", LOCAL_ADMIN).dead} == set(dead.values())
    assert len(runs.ask("list_work", LOCAL_ADMIN).runs) == 2


def test_another_runs_tuple_is_not_cancelled(runs: Runs) -> None:
    one = runs.ask("tuple_out", runs.hers, lane="notes").id
    with pytest.raises(TupleNotFound):
        runs.ask("cancel_tuple", runs.his, id=one)
    assert runs.space.get(one).state == "waiting"
    assert runs.ask("cancel_tuple", runs.hers, id=one).id == one


@pytest.mark.parametrize("name", ["tuple_dispatch", "tuple_out"])
def test_nothing_is_put_into_a_run_that_has_ended(runs: Runs, name: str) -> None:
    ended = Credential(local_admin=True, run=runs.run_of(runs.his))
    assert runs.ask(name, ended, lane="notes").new
    runs.ask("end_run", ended, run_id=runs.run_of(runs.his))
    before = runs.space.store.last_line()
    for who in (ended, runs.his):
        with pytest.raises(RunEnded):
            runs.ask(name, who, lane="notes")
    assert runs.space.store.last_line() == before
    assert runs.ask(name, runs.hers, lane="notes").new


def test_what_is_put_again_bears_the_authority_of_who_puts_it_again(runs: Runs) -> None:
    sent = runs.ask("tuple_dispatch", runs.his, lane="build", agent_terms={"max_retries": 0}, **STEPS).id
    agent = runs.space.get(sent).tuple.authority
    assert agent == {"user": None, "agent": runs.gateway.identify(runs.his).full_name, "ci": False}
    runs.give_up("build")
    again = runs.space.get(runs.ask("tuple_again", LOCAL_ADMIN, id=sent).id)
    assert again.tuple.authority == {"user": "admin", "agent": None, "ci": False}
    assert again.run == runs.run_of(runs.his), "and it stays in the run it was put into"


def test_a_receipt_of_another_run_is_read_by_who_was_given_its_whole_id(runs: Runs) -> None:  # YT-09
    runs.ask("tuple_dispatch", runs.hers, lane="build", **STEPS)
    (claim,) = runs.space.claim({"lane": "build"}, worker="w")
    done = completion(Now, claim, key="agent.lint.ruff.v1@0")  # type: ignore[arg-type]
    runs.space.complete([done])
    (executed,) = done.receipts
    assert executed.key is not None
    assert runs.ask("receipt_get", runs.his, id=executed.id).receipt["id"] == executed.id
    for given in (executed.id[:20], executed.id[7:20], executed.id[:-1]):
        for name in ("receipt_get", "receipt_verify"):
            with pytest.raises(ReceiptNotFound):
                runs.ask(name, runs.his, id=given)
        assert runs.ask("receipt_get", runs.hers, id=given).receipt["id"] == executed.id


@pytest.fixture
def build(repository: Repository, gateway: Gateway, tmp_path: Path) -> Iterator[tuple[Gateway, Settings]]:
    """The same project where a build is at work; some yools are for builds, others for people."""
    told = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"], "CI": "true"}
    settings = Settings.from_environment(told)
    kept = {"agent.sum.numbers": ("ci",), "agent.deploy.prod": ("user",), "agent.leave.report": ("agent", "ci")}
    entries = [
        msgspec.structs.replace(each.entry, authority=kept[each.entry.name]) for each in OWN if each.entry.name in kept
    ]
    write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog(entries))
    with closing(open_project(repository.path, settings)) as there:
        yield there, settings


ADD = {"lane": "build", "payload": [{"yool": "agent.sum.numbers", "args": {"a": 1, "b": 2}}]}
DEPLOY = {"lane": "build", "payload": [{"yool": "agent.deploy.prod"}]}
REPORT = {"lane": "build", "payload": [{"yool": "agent.leave.report", "args": {"text": "x"}}]}


def test_a_build_works_on_its_own_authority_and_no_persons(
    build: tuple[Gateway, Settings], gateway: Gateway
) -> None:  # YT-04
    there, settings = build
    runs, dispatch = Runs(there), OPERATIONS["tuple_dispatch"]
    with pytest.raises(YoolForbidden):
        gateway.call(dispatch, to_request(ADD, dispatch.request), LOCAL_ADMIN)
    for who, draft in ((LOCAL_ADMIN, DEPLOY), (runs.hers, ADD)):
        with pytest.raises(YoolForbidden):
            runs.ask("tuple_dispatch", who, **draft)
    ids = [runs.ask("tuple_dispatch", who, **draft).id for who, draft in ((LOCAL_ADMIN, ADD), (runs.hers, REPORT))]
    space = there.tuple_space.space
    assert space.get(ids[0]).tuple.authority == {"user": "admin", "agent": None, "ci": True}
    assert not space.get(ids[1]).tuple.authority["ci"], "an agent is an agent wherever it is"
    told: list[Progress] = []
    shop = msgspec.structs.replace(open_worker_dependencies(there, settings, modules=[MODULE]), registry=OWN)
    with closing(shop.runner):
        LaneWorkerPool(shop, read_pattern({"lane": "build"}), on_progress=told.append).run(until_empty=True)
    assert [space.get(each).state for each in ids] == ["done", "done"], told
