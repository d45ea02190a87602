"""Visibility of tuples and receipts for each caller, and the authority of its tuples. # YT-04 # YT-05 # YT-15"""

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
from engrambus.errors import PatternPath, ReceiptNotFound, RunEnded, TupleNotFound, YoolForbidden
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway, to_request
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings
from engrambus.space.catalog import CAPABILITIES, Catalog, CatalogEntry, write_catalog
from engrambus.space.tuples import Completion, read_pattern
from engrambus.space.work import LaneWorkerPool, Progress
from engrambus.testing.work import completion, receipt
from tests.projects import Repository
from tests.space.worker_harness import MODULE, YOOLS

LINT = CatalogEntry(name="agent.lint.ruff", version=1, authority=("user", "agent"), lane="build")
STEPS = {"payload": [{"yool": LINT.name}]}


class Now:
    """The clock of the receipts."""

    clock = SystemClock()


class Runs:
    """A project with two runs: agent ada in the first, agent bob in the second."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.space = gateway.tuple_space.space
        self.ada = self._agent("ada", gateway.identify(LOCAL_ADMIN).run.run_id)
        self.bob = self._agent("bob", self.call("open_run", LOCAL_ADMIN, goal="another").run_id)

    def _agent(self, name: str, run: str) -> Credential:
        return Credential(token=self.call("add_agent", Credential(local_admin=True, run=run), name=name).token)

    def run_of(self, credential: Credential) -> str:
        """Return the id of a caller's run."""
        return self.gateway.identify(credential).run.run_id

    def call(self, name: str, credential: Credential, /, **fields: Any) -> Any:
        """Call an operation."""
        operation = OPERATIONS[name]
        return self.gateway.call(operation, to_request(fields, operation.request), credential)

    def fail_tuple(self, lane: str, **step: Any) -> str:
        """Claim the tuple of a lane and report a failure, with a receipt of a step if told about one; return its id."""
        (claim,) = self.space.claim({"lane": lane}, worker="w")
        done = (receipt(Now, claim, exit=1, error="exit 1", **step),) if step else ()  # type: ignore[arg-type]
        self.space.complete([Completion(id=claim.id, fence=claim.fence, receipts=done, failure="exit 1")])
        return claim.id


@pytest.fixture
def runs(gateway: Gateway, repository: Repository) -> Runs:
    write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog([LINT]))
    return Runs(gateway)


@pytest.mark.parametrize("name", ["tuple_rd", "tuple_in"])
def test_tuples_of_another_run_match_no_pattern(runs: Runs, name: str) -> None:
    tuple_id = runs.call("tuple_out", runs.ada, lane="notes").id
    last_line = runs.space.store.last_line()
    for request in ({"lane": "notes"}, {"pattern": {"run": runs.run_of(runs.ada)}}, {"pattern": {"id": tuple_id}}, {}):
        with pytest.raises(TupleNotFound):
            runs.call(name, runs.bob, **request)
    assert (runs.space.store.last_line(), runs.space.get(tuple_id).state) == (last_line, "waiting")
    assert runs.call(name, runs.ada, lane="notes").tuple["id"] == tuple_id


def test_a_taken_tuple_is_returned_as_it_was_read(runs: Runs) -> None:
    dispatched = runs.call("tuple_dispatch", runs.ada, lane="build", **STEPS)
    rd_answer = runs.call("tuple_rd", runs.ada, lane="build")
    in_answer = runs.call("tuple_in", runs.ada, lane="build")
    assert (rd_answer.state, in_answer.state) == ("waiting", "taken")
    assert in_answer.tuple == rd_answer.tuple
    assert in_answer.tuple["receipts"] == [dispatched.receipt_id]


def test_patterns_match_the_created_fields_and_id_run_and_state(runs: Runs) -> None:
    dispatched = runs.call("tuple_dispatch", runs.ada, lane="build", **STEPS)
    assert runs.call("tuple_rd", runs.ada, lane="build").tuple["receipts"] == [dispatched.receipt_id]
    stamped = {"id": dispatched.id, "run": runs.run_of(runs.ada), "state": "waiting"}
    created = {"lane": "build", "payload[0].yool": LINT.name, "receipts": []}
    assert runs.call("tuple_rd", runs.ada, pattern=stamped | created).tuple["id"] == dispatched.id
    with pytest.raises(PatternPath):  # a tuple is created without receipts
        runs.call("tuple_rd", runs.ada, pattern={"receipts.0": dispatched.receipt_id})


def test_lists_show_an_agent_only_its_own_run(runs: Runs) -> None:
    terms = {"max_retries": 0}
    dead = {}
    for agent, lane in ((runs.ada, "first"), (runs.bob, "second")):
        runs.call("tuple_dispatch", agent, lane=lane, agent_terms=terms, **STEPS)
        dead[agent] = runs.fail_tuple(lane)
    for agent in (runs.ada, runs.bob):
        assert [letter.id for letter in runs.call("list_dead", agent).dead] == [dead[agent]]
        assert [row.run_id for row in runs.call("list_work", agent).runs] == [runs.run_of(agent)]
    assert {letter.id for letter in runs.call("list_dead", LOCAL_ADMIN).dead} == set(dead.values())
    assert len(runs.call("list_work", LOCAL_ADMIN).runs) == 2


# YT-15
def test_why_and_its_candidates_show_an_agent_only_its_own_run(runs: Runs) -> None:
    own = [runs.call("tuple_dispatch", runs.ada, lane=f"lane{number}", **STEPS).id for number in range(40)]
    theirs = [runs.call("tuple_dispatch", runs.bob, lane=f"lane{number}", **STEPS).id for number in range(40)]
    for tuple_id in theirs[:3]:
        with pytest.raises(TupleNotFound):
            runs.call("why", runs.ada, id=tuple_id)
    for tuple_id in (*own, *theirs):
        owner, other = (runs.ada, runs.bob) if tuple_id in own else (runs.bob, runs.ada)
        assert runs.call("why", owner, id=tuple_id[7:19]).id == tuple_id
        with pytest.raises(TupleNotFound):
            runs.call("why", other, id=tuple_id[7:19])
        with pytest.raises(TupleNotFound):
            runs.call("why", owner, id=tuple_id[7:10])  # too short for a beginning


# YT-15
def test_an_agent_pays_for_the_output_it_is_shown(runs: Runs) -> None:
    """As for lines it dereferences; a person does not."""
    runs.call("tuple_dispatch", runs.ada, lane="build", agent_terms={"max_retries": 0}, **STEPS)
    sha = runs.gateway.tuple_space.bodies.put(b"src/a.py:1:1: F401 unused\n" * 10)
    tuple_id = runs.fail_tuple("build", stdout_sha=sha)
    before = runs.call("team_budget", runs.ada).turn.tokens
    assert len(runs.call("why", LOCAL_ADMIN, id=tuple_id).failed.stdout.lines) == 10
    assert runs.call("team_budget", runs.ada).turn.tokens == before
    shown = runs.call("why", runs.ada, id=tuple_id)
    assert shown.failed.stdout.lines == ["src/a.py:1:1: F401 unused"] * 10
    assert runs.call("team_budget", runs.ada).turn.tokens > before + 50


def test_a_tuple_of_another_run_cannot_be_cancelled(runs: Runs) -> None:
    tuple_id = runs.call("tuple_out", runs.ada, lane="notes").id
    with pytest.raises(TupleNotFound):
        runs.call("cancel_tuple", runs.bob, id=tuple_id)
    assert runs.space.get(tuple_id).state == "waiting"
    assert runs.call("cancel_tuple", runs.ada, id=tuple_id).id == tuple_id


@pytest.mark.parametrize("name", ["tuple_dispatch", "tuple_out"])
def test_no_tuple_can_be_put_into_an_ended_run(runs: Runs, name: str) -> None:
    ended = Credential(local_admin=True, run=runs.run_of(runs.bob))
    assert runs.call(name, ended, lane="notes").new
    runs.call("end_run", ended, run_id=runs.run_of(runs.bob))
    last_line = runs.space.store.last_line()
    for caller in (ended, runs.bob):
        with pytest.raises(RunEnded):
            runs.call(name, caller, lane="notes")
    assert runs.space.store.last_line() == last_line
    assert runs.call(name, runs.ada, lane="notes").new


def test_a_tuple_put_again_has_the_authority_of_the_caller(runs: Runs) -> None:
    sent = runs.call("tuple_dispatch", runs.bob, lane="build", agent_terms={"max_retries": 0}, **STEPS).id
    agent = runs.space.get(sent).tuple.authority
    assert agent == {"user": None, "agent": runs.gateway.identify(runs.bob).full_name, "ci": False}
    runs.fail_tuple("build")
    replacement = runs.space.get(runs.call("tuple_again", LOCAL_ADMIN, id=sent).id)
    assert replacement.tuple.authority == {"user": "admin", "agent": None, "ci": False}
    assert replacement.run == runs.run_of(runs.bob), "it stays in the run of the dead letter"


def test_a_cached_receipt_of_another_run_is_visible_by_its_full_id_only(runs: Runs) -> None:  # YT-09
    runs.call("tuple_dispatch", runs.ada, lane="build", **STEPS)
    (claim,) = runs.space.claim({"lane": "build"}, worker="w")
    report = completion(Now, claim, key="agent.lint.ruff.v1@0")  # type: ignore[arg-type]
    runs.space.complete([report])
    (executed,) = report.receipts
    assert executed.key is not None
    assert runs.call("receipt_get", runs.bob, id=executed.id).receipt["id"] == executed.id
    for prefix in (executed.id[:20], executed.id[7:20], executed.id[:-1]):
        for name in ("receipt_get", "receipt_verify"):
            with pytest.raises(ReceiptNotFound):
                runs.call(name, runs.bob, id=prefix)
        assert runs.call("receipt_get", runs.ada, id=prefix).receipt["id"] == executed.id


@pytest.fixture
def build(repository: Repository, gateway: Gateway, tmp_path: Path) -> Iterator[tuple[Gateway, Settings]]:
    """Open the same project as a CI build; some yools are for builds, others for people."""
    environment = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"], "CI": "true"}
    settings = Settings.from_environment(environment)
    authorities: dict[str, Any] = {
        "agent.sum.numbers": ("ci",),
        "agent.deploy.prod": ("user",),
        "agent.leave.report": ("agent", "ci"),
    }
    entries = [
        msgspec.structs.replace(yool.entry, authority=authorities[yool.entry.name])
        for yool in YOOLS
        if yool.entry.name in authorities
    ]
    write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog(entries))
    with closing(open_project(repository.path, settings)) as build_gateway:
        yield build_gateway, settings


ADD = {"lane": "build", "payload": [{"yool": "agent.sum.numbers", "args": {"a": 1, "b": 2}}]}
DEPLOY = {"lane": "build", "payload": [{"yool": "agent.deploy.prod"}]}
REPORT = {"lane": "build", "payload": [{"yool": "agent.leave.report", "args": {"text": "x"}}]}


def test_a_ci_build_runs_on_its_own_authority_and_not_on_a_persons(
    build: tuple[Gateway, Settings], gateway: Gateway
) -> None:  # YT-04
    build_gateway, settings = build
    runs, dispatch = Runs(build_gateway), OPERATIONS["tuple_dispatch"]
    with pytest.raises(YoolForbidden):
        gateway.call(dispatch, to_request(ADD, dispatch.request), LOCAL_ADMIN)
    for caller, draft in ((LOCAL_ADMIN, DEPLOY), (runs.ada, ADD)):
        with pytest.raises(YoolForbidden):
            runs.call("tuple_dispatch", caller, **draft)
    drafts = ((LOCAL_ADMIN, ADD), (runs.ada, REPORT))
    ids = [runs.call("tuple_dispatch", caller, **draft).id for caller, draft in drafts]
    space = build_gateway.tuple_space.space
    assert space.get(ids[0]).tuple.authority == {"user": "admin", "agent": None, "ci": True}
    assert not space.get(ids[1]).tuple.authority["ci"], "an agent has its own authority even in a build"
    progress: list[Progress] = []
    dependencies = msgspec.structs.replace(
        open_worker_dependencies(build_gateway, settings, modules=[MODULE]), registry=YOOLS
    )
    with closing(dependencies.runner):
        LaneWorkerPool(dependencies, read_pattern({"lane": "build"}), on_progress=progress.append).run(until_empty=True)
    assert [space.get(tuple_id).state for tuple_id in ids] == ["done", "done"], progress
