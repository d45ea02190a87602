"""Workers with different code share a lane: each claims only what it can run. # YT-06 # YT-22"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engrambus.settings import Settings
from engrambus.space.catalog import Catalog, Registry
from engrambus.space.tuples import ALARM_YOOL, SpaceSettings
from tests.projects import Repository
from tests.space.terminal import Terminal, open_terminal
from tests.space.worker_harness import (
    SETTINGS,
    WorkerHarness,
    open_worker_harness,
    running_pools,
    step,
    wait_until,
)

ALPHA, BETA = "agent.work.alpha", "agent.work.beta"
CODE = """
import pathlib
from engrambus.space.catalog import yool

@yool("agent.work.{name}", lane="build", cached=False)
def work(n: int, log: str) -> None:
    with open(log, "a") as file:
        file.write(f"{name} {{n}}\\n")

@yool("agent.fail.{name}", lane="build", cached=False, terms={{"max_retries": 0}})
def fail() -> None:
    print("\\x1b[31mthe reason\\x1b[0m")
    raise SystemExit(3)
"""


def command(name: str) -> Registry:
    """Return code for one yool, which prints its name."""
    registry = Registry()
    registry.yool(name, lane="build", cached=False)(["echo", name])
    return registry


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[WorkerHarness]:
    """A project whose catalog declares two yools; its worker has code for neither."""
    settings = msgspec.structs.replace(SETTINGS, alarm_wait_us=1)
    with open_worker_harness(tmp_path / "project", settings) as harness:
        catalog = Catalog(yool.entry for name in (ALPHA, BETA) for yool in command(name))
        deps = msgspec.structs.replace(harness.deps, registry=Registry(), catalog=lambda: catalog)
        yield WorkerHarness(deps, harness.progress)


def having(harness: WorkerHarness, *names: str) -> WorkerHarness:
    """Return the project for a worker with code for these yools."""
    registry = Registry(yool for name in names for yool in command(name))
    return WorkerHarness(msgspec.structs.replace(harness.deps, registry=registry), [])


def state(harness: WorkerHarness, tuple_id: str) -> tuple[str, int]:
    """Return the state of a tuple and its attempts."""
    record = harness.space.get(tuple_id)
    return record.state, record.attempts


# A tuple moves between workers


def test_a_tuple_moves_from_worker_to_worker_step_by_step(shared: WorkerHarness) -> None:
    alpha, beta = having(shared, ALPHA), having(shared, BETA)
    tuple_id = shared.put(step(ALPHA), step(BETA), step(ALPHA))
    assert beta.work() == []
    assert alpha.work() == ["miss", "handed on"]
    assert state(shared, tuple_id) == ("waiting", 0)
    assert alpha.work() == []
    assert beta.work() == ["miss", "handed on"]
    assert alpha.work() == ["miss", "done"]
    *steps, final = shared.receipts(tuple_id)
    assert [receipt.yool for receipt in steps] == [f"{ALPHA}.v1", f"{BETA}.v1", f"{ALPHA}.v1"]
    assert (final.yool, final.receipts) == ("tuple.run", tuple(receipt.id for receipt in steps))
    assert state(shared, tuple_id) == ("done", 1)


def test_parallel_branches_are_run_by_different_workers(shared: WorkerHarness) -> None:  # YT-07
    alpha, beta = having(shared, ALPHA), having(shared, BETA)
    branches = [{"after": [], **step(name)} for name in (ALPHA, BETA, ALPHA, BETA)]
    tuple_id = shared.put(*branches, {"after": [0, 1], **step(BETA)}, {"after": [4], **step(ALPHA)})
    assert alpha.work() == ["miss", "miss", "handed on"]
    assert beta.work() == ["miss", "miss", "miss", "handed on"]
    assert alpha.work() == ["miss", "done"]
    receipts = shared.receipts(tuple_id)
    assert sorted(receipt.step for receipt in receipts if receipt.step is not None) == [0, 1, 2, 3, 4, 5]
    assert sum(receipt.yool == "tuple.run" for receipt in receipts) == 1


def test_what_a_yool_needs_is_looked_up_in_the_catalog_of_the_moment(shared: WorkerHarness) -> None:
    """Its code is gone between two steps: the tuple is handed on, and no attempt is lost."""
    both = having(shared, ALPHA, BETA)
    tuple_id = shared.put(step(ALPHA), step(BETA))
    declared = both.deps.catalog()
    left = Catalog(entry for entry in declared if entry.name == ALPHA)
    answers = iter([declared] * 2)
    deps = msgspec.structs.replace(both.deps, catalog=lambda: next(answers, left))
    assert WorkerHarness(deps, []).work() == ["miss", "handed on"]
    assert state(shared, tuple_id) == ("waiting", 0)
    assert both.work() == ["miss", "done"]


def test_tuples_of_a_lost_worker_wait_for_a_worker_with_their_code(tmp_path: Path) -> None:
    """A worker without the code finds them, and neither claims them nor makes dead letters of them."""
    settings = SpaceSettings(max_retries=2, lease_us=1000)
    with open_worker_harness(tmp_path / "project", settings) as harness:
        catalog = Catalog(yool.entry for name in (ALPHA, BETA) for yool in command(name))
        project = WorkerHarness(msgspec.structs.replace(harness.deps, catalog=lambda: catalog), [])
        tuple_id = project.put(step(BETA))
        assert project.space.claim({"lane": "build"}, worker="lost")
        wait_until(lambda: state(project, tuple_id)[0] == "waiting" or having(project, ALPHA).work() == ["never"])
        assert state(project, tuple_id) == ("waiting", 1)
        journal = project.space.store.last_line()
        assert having(project, ALPHA).work() == []
        assert project.space.store.last_line() == journal


# Running workers announce what they can run


def test_work_that_no_running_worker_can_run_is_reported_until_one_can(shared: WorkerHarness) -> None:
    shared.put(step(ALPHA))
    oldest = shared.put(step(BETA))
    shared.put(step(BETA))
    alpha = having(shared, ALPHA)

    def unclaimed() -> list[tuple[str, int, int]]:
        found = shared.space.unclaimed_work(shared.deps.catalog())
        return [(work.yool, work.tuples, work.workers) for work in found]

    assert unclaimed() == [(f"{ALPHA}.v1", 1, 0), (f"{BETA}.v1", 2, 0)]
    with running_pools(alpha.pool()):
        wait_until(lambda: unclaimed() == [(f"{BETA}.v1", 2, 1)])
        alarm = {"lane": "alarm", "payload.0.yool": ALARM_YOOL}
        wait_until(lambda: bool(shared.space.rd_all(alarm)))
        (first,) = shared.space.rd_all(alarm)
        args = first.tuple.payload[0].args
        assert (args["lane"], args["yool"], args["tuples"]) == ("build", f"{BETA}.v1", 2)
        assert first.tuple.src_ptr == (f"tuple://{oldest}",)
        (work,) = shared.space.unclaimed_work(shared.deps.catalog())
        shared.space.raise_unclaimed_alarm(work)
        assert shared.space.rd_all(alarm) == [first]  # once, until it changes
        with running_pools(having(shared, BETA).pool()):
            wait_until(lambda: unclaimed() == [])
    assert shared.space.running_workers() == []


def test_a_yool_that_is_not_declared_any_more_is_reported_as_such(shared: WorkerHarness) -> None:
    shared.put(step("agent.work.gone"))
    shared.put()  # a note for a reader needs no worker
    (work,) = shared.space.unclaimed_work(shared.deps.catalog())
    assert (work.yool, work.is_declared) == ("agent.work.gone", False)
    assert "not in the catalog" in work.summary
    assert "engrambus cancel" in work.next_step


# YT-05
def test_a_worker_until_empty_waits_for_what_others_hand_on_to_it(shared: WorkerHarness) -> None:
    """Also while the tuple still waits for the other worker."""
    alpha, beta = having(shared, ALPHA), having(shared, BETA)
    with running_pools(alpha.pool(concurrency=1)):
        wait_until(lambda: len(shared.space.running_workers()) == 1)
        ids = [shared.put(step(ALPHA), step(BETA)) for _ in range(6)]
        assert sorted(beta.work()) == ["done"] * 6 + ["miss"] * 6
    assert {state(shared, tuple_id) for tuple_id in ids} == {("done", 1)}


# The commands


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """A project with code in two modules, which its catalog declares."""
    for name in ("alpha", "beta"):
        (repository.path / f"code_{name}.py").write_text(CODE.format(name=name))
    return open_terminal(repository, settings, tmp_path, "code_alpha", "code_beta")


def worker(*modules: str) -> tuple[str, ...]:
    """Return the command of a worker until its lane is empty."""
    return ("worker", "--lane", "build", "--until-empty", *(word for name in modules for word in ("--import", name)))


def put(terminal: Terminal, *steps: dict[str, Any]) -> str:
    """Dispatch a tuple; return its id."""
    (terminal.path / "t.json").write_bytes(msgspec.json.encode({"lane": "build", "payload": list(steps)}))
    return str(terminal.json("out", "t.json")["id"])


def test_two_workers_with_different_imports_do_everything(terminal: Terminal, tmp_path: Path) -> None:
    """The story of eight tuples for each worker, and one for both."""
    log = str(tmp_path / "log")
    for n in range(8):
        put(terminal, step(ALPHA, n=n, log=log))
        put(terminal, step(BETA, n=n, log=log))
    mixed = put(terminal, step(ALPHA, n=8, log=log), step(BETA, n=8, log=log), step(ALPHA, n=9, log=log))
    # Nobody was given code: everything waits, and nothing is lost by trying.
    out = terminal.run(*worker())
    assert "9 tuples need agent.work.alpha.v1, which no code here carries out: --import MODULE" in out
    assert "8 tuples need agent.work.beta.v1" in out
    checks = {
        check["found"]: check["next"] for check in terminal.json("doctor")["checks"] if check["check"] == "workers"
    }
    assert [text.split(" since ")[0] for text in checks] == [
        "lane build: 9 tuples need agent.work.alpha.v1",
        "lane build: 8 tuples need agent.work.beta.v1",
    ]
    assert all("engrambus worker --lane build --import MODULE" in hint for hint in checks.values())
    for command in ("board", "runs"):
        assert [row["tuples"] for row in terminal.json(command)["unclaimed"]] == [9, 8]
        assert "NO WORKER  lane build: 9 tuples need agent.work.alpha.v1" in terminal.run(command)
    workers = [terminal.start(*worker(f"code_{name}")) for name in ("alpha", "beta")]
    for process in workers:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, (out, err)
    # Whichever ended first left the rest of the mixed tuple to the other.
    terminal.run(*worker("code_beta"))
    terminal.run(*worker("code_alpha"))
    (run,) = terminal.json("runs")["runs"]
    assert run["states"] == {"done": 17}
    assert sorted(Path(log).read_text().split("\n")[:-1]) == sorted(
        [f"{name} {n}" for n in range(9) for name in ("alpha", "beta")] + ["alpha 9"]
    )
    assert terminal.json("observe", mixed)["attempts"] == 1


def test_the_worker_shows_why_a_step_failed_and_exits_with_1(terminal: Terminal) -> None:
    tuple_id = put(terminal, step("agent.fail.alpha"))
    process = terminal.start(*worker("code_alpha"))
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "    | \\x1b[31mthe reason\\x1b[0m\n" in out
    assert f"    more: engrambus why {tuple_id[7:19]}\n" in out


# YT-10
def test_a_killed_worker_neither_loses_nor_doubles_a_tuple_of_two_workers(terminal: Terminal, tmp_path: Path) -> None:
    """Each is killed in the middle of a step of its own; its announcement ends with it."""
    log = tmp_path / "log"
    terminal.environment["YOOL_TUPLE_LEASE_SECONDS"] = "1"
    for name in ("alpha", "beta"):
        slow = CODE.format(name=name) + "\nimport time\n" + SLOW.format(name=name)
        (terminal.path / f"code_{name}.py").write_text(slow)
    terminal.run("catalog", "build", "--import", "code_alpha", "--import", "code_beta")
    go = tmp_path / "go"
    tuple_id = put(
        terminal,
        step("agent.wait.alpha", log=str(log), go=str(go)),
        step("agent.wait.beta", log=str(log), go=str(go)),
    )
    for name in ("alpha", "beta"):
        process = terminal.start(*worker(f"code_{name}"))
        wait_until(lambda name=name: log.exists() and f"{name} began\n" in log.read_text())  # type: ignore[misc]
        assert [item["lane"] for item in terminal.json("board")["running"]] == ["build"]
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        finish(terminal, go, name)
    assert log.read_text().split("\n")[:-1].count("alpha ended") == 1
    assert log.read_text().split("\n")[:-1].count("beta ended") == 1
    status = terminal.json("observe", tuple_id)
    assert (status["state"], len(status["receipts"])) == ("done", 3)


SLOW = """
@yool("agent.wait.{name}", lane="build", cached=False)
def wait(log: str, go: str) -> None:
    with open(log, "a") as file:
        file.write("{name} began\\n")
    while not pathlib.Path(go + "{name}").exists():
        time.sleep(0.05)
    with open(log, "a") as file:
        file.write("{name} ended\\n")
"""


def finish(terminal: Terminal, go: Path, name: str) -> None:
    """Let the step end that a killed worker had begun: another worker runs it again."""
    Path(f"{go}{name}").touch()
    terminal.run(*worker(f"code_{name}"))


# Entry points


@pytest.fixture
def packages(terminal: Terminal, tmp_path: Path) -> Terminal:
    """The project, with installed packages that have entry points: a module, a function, and two that are broken."""
    folder = tmp_path / "site"
    info = folder / "acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[engrambus.yools]\nalpha = acme_alpha\nbeta = acme_beta:register\nabsent = acme_absent\nwrong = acme_wrong\n"
    )
    (folder / "acme_alpha.py").write_text(CODE.format(name="alpha"))
    indented = "".join(f"    {line}\n" for line in CODE.format(name="beta").splitlines())
    (folder / "acme_beta.py").write_text(f"def register():\n{indented}")
    (folder / "acme_wrong.py").write_text("x = 1\nraise RuntimeError('not today')\n")
    terminal.environment["PYTHONPATH"] += f":{folder}"
    return terminal


def test_entry_points_are_a_source_of_code_for_every_command(packages: Terminal, tmp_path: Path) -> None:  # YT-03
    """A broken one is named, and does not stop the others."""
    built = packages.start("catalog", "build")
    out, err = built.communicate(timeout=120)
    assert "from entry point alpha, entry point beta" in out
    assert "The entry point 'absent' of acme (acme_absent) registers no yools" in err
    wrong = f"The entry point 'wrong' of acme (acme_wrong) registers no yools ({tmp_path}/site/acme_wrong.py, line 2)"
    assert f"{wrong}: RuntimeError: not today" in err
    log = str(tmp_path / "log")
    first, second = (put(packages, step(ALPHA, n=n, log=log), step(BETA, n=n, log=log)) for n in range(2))
    process = packages.start(*worker())
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, (out, err)
    assert wrong in err
    third = put(packages, step(ALPHA, n=2, log=log), step(BETA, n=2, log=log))
    packages.run("resume")
    assert {packages.json("observe", tuple_id)["state"] for tuple_id in (first, second, third)} == {"done"}
