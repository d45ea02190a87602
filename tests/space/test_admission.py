"""What the catalog says holds where a step runs, whatever code its worker has. # YT-01 # YT-03 # YT-06"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from engrambus.space.catalog import Catalog, CatalogEntry, Contract, Registry, Terms
from engrambus.space.work import Progress
from tests.space.shop import Shop, open_shop, step


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path / "project") as shop:
        yield shop


def code(*names: str, authority: tuple[str, ...] = ("user", "ci")) -> Registry:
    """Code for these names: each prints its own."""
    registry = Registry()
    for name in names:
        registry.yool(name, lane="build", effect="pure", authority=authority, terms={"cpu_quota_pct": 40})(
            ["echo", name]
        )
    return registry


def entry(version: int, **more: object) -> CatalogEntry:
    """A version of one yool as a file declares it."""
    said = {"name": "agent.say.name", "version": version, "authority": ("user", "ci"), "lane": "build"}
    return msgspec.convert({**said, **more}, CatalogEntry)


def stocked(shop: Shop, registry: Registry, *declared: CatalogEntry) -> Shop:
    """The shop with this code, in a project that declares this."""
    catalog = Catalog(declared)
    return Shop(msgspec.structs.replace(shop.shop, registry=registry, catalog=lambda: catalog), shop.told)


def refusal(shop: Shop) -> str:
    """Why a step was not carried out."""
    told: list[Progress] = shop.told
    assert [each.kind for each in told] == ["refused", "dead"]
    return told[0].error or ""


def test_a_file_does_not_widen_what_the_code_admits(shop: Shop) -> None:
    """The file says user; its code runs for builds only. # YT-03"""
    project = stocked(shop, code("agent.say.name", authority=("ci",)), entry(1, authority=("user", "ci")))
    project.put(step("agent.say.name"))
    project.work()
    assert refusal(project).startswith("YOOL_FORBIDDEN")
    project = stocked(shop, code("agent.say.name", authority=("ci",)), entry(1, authority=("user",)))
    project.put(step("agent.say.name"))
    project.work()
    assert refusal(project).startswith("YOOL_FORBIDDEN")


def test_the_newest_is_the_newest_the_catalog_has(shop: Shop) -> None:
    """The worker's code is ahead of the catalog. # YT-01 # YT-06"""
    project = stocked(shop, code("agent.say.name.v1", "agent.say.name.v2"), entry(1))
    one = project.put(step("agent.say.name"))
    assert project.work() == ["miss", "done"]
    assert project.receipts(one)[0].yool == "agent.say.name.v1"
    assert project.printed(one) == "agent.say.name.v1\n"
    project.put(step("agent.say.name.v2"))
    project.work()
    assert "YOOL_NOT_FOUND: 'agent.say.name' has no version 2." in refusal(project)


def test_a_worker_behind_its_catalog_says_so(shop: Shop) -> None:
    """v2 is meant, and only code for v1 is there: v1 must not pass for it. # YT-01"""
    project = stocked(shop, code("agent.say.name.v1"), entry(1), entry(2))
    project.put(step("agent.say.name"))
    project.work()
    assert "YOOL_NOT_FOUND: No imported code implements 'agent.say.name.v2', only v1." in refusal(project)


def test_what_the_catalog_does_not_have_is_not_carried_out(shop: Shop) -> None:
    """Taken out after it was put, or with the whole file. # YT-03"""
    for declared in ((), (entry(1, name="agent.say.nothing"),)):
        project = stocked(shop, code("agent.say.name"), *declared)
        project.put(step("agent.say.name"))
        project.work()
        assert "YOOL_NOT_FOUND: There is no yool 'agent.say.name' in the catalog." in refusal(project)


def test_a_yool_has_the_terms_of_the_file_and_the_contract_of_the_code(shop: Shop) -> None:
    """As in a build that knows both; what the file leaves open is the code's. # YT-03"""
    declared = entry(1, terms=Terms(memory_mb=64), contract=Contract(effect="writes"))
    _, known = stocked(shop, code("agent.say.name"), declared).shop.resolve("agent.say.name")
    assert known.terms == Terms(memory_mb=64, cpu_quota_pct=40)
    assert known.contract == Contract(effect="pure")


def test_the_products_own_code_needs_no_catalog(shop: Shop) -> None:
    """Room is made also in a project that declares nothing. # YT-06"""
    yool, known = stocked(shop, Registry()).shop.resolve("fs.gc.run")
    assert (yool.entry, known.full_name) == (known, "fs.gc.run.v1")
