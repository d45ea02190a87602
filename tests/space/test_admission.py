"""The catalog decides which yools a worker runs and with which limits. # YT-01 # YT-03 # YT-06"""

from __future__ import annotations

import msgspec

from engrambus.space.catalog import Catalog, CatalogEntry, Contract, Registry, Terms
from engrambus.space.work import Progress
from tests.space.worker_harness import WorkerHarness, step


def code(*names: str, authority: tuple[str, ...] = ("user", "ci")) -> Registry:
    """Return code for these names; each prints its name."""
    registry = Registry()
    for name in names:
        registry.yool(name, lane="build", effect="pure", authority=authority, terms={"cpu_quota_pct": 40})(
            ["echo", name]
        )
    return registry


def entry(version: int, **fields: object) -> CatalogEntry:
    """Return a version of a yool as a catalog declares it."""
    declared = {"name": "agent.say.name", "version": version, "authority": ("user", "ci"), "lane": "build"}
    return msgspec.convert({**declared, **fields}, CatalogEntry)


def with_code(harness: WorkerHarness, registry: Registry, *declared: CatalogEntry) -> WorkerHarness:
    """Return the harness with this code and a catalog of these entries."""
    catalog = Catalog(declared)
    return WorkerHarness(
        msgspec.structs.replace(harness.deps, registry=registry, catalog=lambda: catalog), harness.progress
    )


def refusal(harness: WorkerHarness) -> str:
    """Return why a step was refused."""
    progress: list[Progress] = harness.progress
    assert [event.kind for event in progress] == ["refused", "dead"]
    return progress[0].error or ""


def test_a_catalog_does_not_widen_the_authority_of_the_code(harness: WorkerHarness) -> None:
    """The catalog says user, but the code runs for builds only. # YT-03"""
    project = with_code(harness, code("agent.say.name", authority=("ci",)), entry(1, authority=("user", "ci")))
    project.put(step("agent.say.name"))
    project.work()
    assert refusal(project).startswith("YOOL_FORBIDDEN")
    project = with_code(harness, code("agent.say.name", authority=("ci",)), entry(1, authority=("user",)))
    project.put(step("agent.say.name"))
    project.work()
    assert refusal(project).startswith("YOOL_FORBIDDEN")


def test_the_newest_version_is_the_newest_in_the_catalog(harness: WorkerHarness) -> None:
    """The worker's code is ahead of the catalog. # YT-01 # YT-06"""
    project = with_code(harness, code("agent.say.name.v1", "agent.say.name.v2"), entry(1))
    tuple_id = project.put(step("agent.say.name"))
    assert project.work() == ["miss", "done"]
    assert project.receipts(tuple_id)[0].yool == "agent.say.name.v1"
    assert project.printed(tuple_id) == "agent.say.name.v1\n"
    undeclared = project.put(step("agent.say.name.v2"))
    assert project.work() == []
    assert waits_untouched(project, undeclared)


def waits_untouched(project: WorkerHarness, tuple_id: str) -> bool:
    """True if a tuple waits as it was put."""
    record = project.space.get(tuple_id)
    return (record.state, record.attempts) == ("waiting", 0)


def test_a_worker_without_code_for_the_newest_version_leaves_the_tuple(harness: WorkerHarness) -> None:
    """The name means v2, and only code for v1 is there: v1 must not run instead. # YT-01 # YT-22"""
    project = with_code(harness, code("agent.say.name.v1"), entry(1), entry(2))
    tuple_id = project.put(step("agent.say.name"))
    assert project.work() == []
    assert waits_untouched(project, tuple_id)


def test_a_yool_that_is_not_in_the_catalog_is_not_run(harness: WorkerHarness) -> None:
    """It was removed after the tuple was put, alone or with all others; declared again, it runs. # YT-03 # YT-22"""
    for declared in ((), (entry(1, name="agent.say.nothing"),)):
        project = with_code(harness, code("agent.say.name"), *declared)
        tuple_id = project.put(step("agent.say.name"))
        assert project.work() == []
        assert waits_untouched(project, tuple_id)
    assert sorted(with_code(harness, code("agent.say.name"), entry(1)).work()) == ["done", "done", "miss", "miss"]


def test_a_yool_has_the_terms_of_the_catalog_and_the_contract_of_the_code(harness: WorkerHarness) -> None:
    """Terms that the catalog leaves open are those of the code. # YT-03"""
    declared = entry(1, terms=Terms(memory_mb=64), contract=Contract(effect="writes"))
    _, combined = with_code(harness, code("agent.say.name"), declared).deps.resolve("agent.say.name")
    assert combined.terms == Terms(memory_mb=64, cpu_quota_pct=40)
    assert combined.contract == Contract(effect="pure")


def test_a_built_in_yool_needs_no_entry_in_the_catalog(harness: WorkerHarness) -> None:
    """Garbage is collected also in a project that declares nothing. # YT-06"""
    yool, resolved = with_code(harness, Registry()).deps.resolve("fs.gc.run")
    assert (yool.entry, resolved.full_name) == (resolved, "fs.gc.run.v1")
