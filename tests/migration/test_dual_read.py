"""Dual-read: the program's own registry answers, and every difference from the catalog is reported. # YT-17"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from engrambus.adapters.migration import Difference, DualRead
from engrambus.space.catalog import Catalog, CatalogEntry


def entry(name: str, lane: str = "build") -> CatalogEntry:
    return CatalogEntry(name=name, version=1, authority=("user",), lane=lane)


CATALOG = Catalog([entry("agent.lint.ruff"), entry("agent.test.pytest"), entry("agent.only.there")])
REGISTRY = {"agent.lint.ruff": "build", "agent.test.pytest": "test", "agent.only.here": "build"}


def compare(lane: str, declared: CatalogEntry) -> str | None:
    return None if lane == declared.lane else f"lane {declared.lane}"


def kinds(read: DualRead[Any]) -> list[tuple[str, str, int]]:
    return [(item.key, item.kind, item.count) for item in read.report().differences]


def test_each_difference_is_told_once_and_counted() -> None:
    told: list[Difference] = []
    read = DualRead(REGISTRY, CATALOG, compare=compare, on_difference=told.append)
    for _ in range(3):
        assert read["agent.lint.ruff"] == "build"
        assert read["agent.test.pytest"] == "test"
        assert read["agent.only.here"] == "build"
        for absent in ("agent.only.there", "agent.no.where"):
            with pytest.raises(KeyError):
                read[absent]
    assert kinds(read) == [
        ("agent.only.here", "missing in catalog", 3),
        ("agent.only.there", "missing in registry", 3),
        ("agent.test.pytest", "differs", 3),
    ]
    assert [item.count for item in told] == [1, 1, 1]
    report = read.report()
    assert (report.lookups, report.different_lookups) == (15, 9)
    assert report.summary.startswith("9 of 15 look-ups differ (3 different) since 20")
    differs = report.differences[2]
    assert (differs.what, differs.registry, differs.catalog) == ("lane build", "'test'", "agent.test.pytest.v1")


def test_by_flag_the_catalog_answers() -> None:
    read = DualRead(REGISTRY, CATALOG, answer_from="catalog", value_of=lambda declared: declared.lane or "")
    assert read["agent.test.pytest"] == "build"
    assert set(read) == {"agent.lint.ruff", "agent.test.pytest", "agent.only.there"}
    assert "agent.only.here" not in read
    with pytest.raises(KeyError):
        read["agent.only.here"]
    with pytest.raises(ValueError, match="value_of"):
        DualRead(REGISTRY, CATALOG, answer_from="catalog")


def test_it_is_a_mapping_like_the_registry() -> None:
    read = DualRead(REGISTRY, CATALOG)
    assert dict(read) == REGISTRY == dict(read.items())
    assert (len(read), list(read), list(read.values())) == (3, list(REGISTRY), list(REGISTRY.values()))
    assert read.get("agent.no.where", "none") == "none"
    assert ("agent.lint.ruff" in read, cast(Any, 3) in read) == (True, False)


class Broken(Mapping[str, str]):
    """A registry that raises."""

    def __getitem__(self, key: str) -> str:
        raise ConnectionError("no registry today")

    def __iter__(self) -> Iterator[str]:
        return iter(["agent.lint.ruff"])

    def __len__(self) -> int:
        return 1


class Nameless:
    def __repr__(self) -> str:
        raise LookupError


def test_exceptions_are_differences_and_the_registrys_own_reach_the_caller() -> None:
    broken = DualRead(Broken(), CATALOG)
    with pytest.raises(ConnectionError):
        broken["agent.lint.ruff"]
    assert kinds(broken) == [("agent.lint.ruff", "registry raised", 1)]

    def no_catalog() -> Catalog:
        raise OSError("no catalog today")

    assert DualRead(REGISTRY, no_catalog)["agent.lint.ruff"] == "build"
    values = {"agent.lint.ruff": Nameless(), "not a yool": Nameless()}
    read = DualRead(values, CATALOG, compare=lambda value, declared: repr(value))
    assert list(read.values()) == list(values.values())
    assert kinds(read) == [("agent.lint.ruff", "comparison raised", 1), ("not a yool", "catalog raised", 1)]
    assert read.report().differences[0].registry == "<Nameless>"


def test_a_report_that_cannot_be_delivered_breaks_no_look_up(tmp_path: Path) -> None:
    def fail(difference: Difference) -> None:
        raise LookupError("nobody listens")

    (tmp_path / "file").touch()
    read = DualRead(REGISTRY, CATALOG, on_difference=fail, report_file=tmp_path / "file" / "below.jsonl")
    assert read["agent.only.here"] == "build"
    assert "NotADirectory" in str(read.report().trouble) or "FileExists" in str(read.report().trouble)


def test_the_file_has_a_line_for_each_difference_and_one_for_each_total(tmp_path: Path) -> None:
    file = tmp_path / "reports" / "dual.jsonl"
    read = DualRead(REGISTRY, CATALOG, report_file=file)
    for _ in range(2):
        read["agent.only.here"]
    read.write_report()
    read["agent.lint.ruff"]
    read.write_report()
    first, *totals = map(json.loads, file.read_text().splitlines())
    assert (first["difference"]["key"], first["difference"]["kind"]) == ("agent.only.here", "missing in catalog")
    assert [(line["totals"]["lookups"], line["totals"]["different"]) for line in totals] == [(2, 2), (1, 0)]
    assert totals[0]["totals"]["until"] == totals[1]["totals"]["since"]


def test_a_registry_that_changes_while_it_is_read() -> None:
    """Another thread adds and removes entries all the time: no look-up and no iteration breaks."""
    registry = {f"agent.work.n{number}": "build" for number in range(500)}
    stable = dict(registry)
    read = DualRead(registry, Catalog(map(entry, registry)))
    ending = threading.Event()

    def change() -> None:
        number = 0
        while not ending.is_set():
            number += 1
            registry[f"agent.passing.n{number}"] = "build"
            registry.pop(f"agent.passing.n{number - 50}", None)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(20):
            assert stable.keys() <= set(read.keys())
            assert stable.items() <= dict(read.items()).items()
            assert all(read[key] == "build" for key in stable)
    finally:
        ending.set()
        thread.join()
    assert {item.kind for item in read.report().differences} <= {"missing in catalog"}
    assert all(item.key.startswith("agent.passing.") for item in read.report().differences)


class Restless(dict[str, str]):
    """A registry that gains an entry at each step of an iteration, and replaces a value at each look-up."""

    def __iter__(self) -> Iterator[str]:
        for key in super().__iter__():
            yield key
            self[f"agent.new.n{len(self)}"] = "build"

    def __getitem__(self, key: str) -> str:
        value = super().__getitem__(key)
        self[key] = value + "."
        return value


def test_a_registry_that_never_stands_still_is_read_as_far_as_it_can_be() -> None:
    registry = Restless({"agent.lint.ruff": "build"})
    read = DualRead(registry, CATALOG, compare=compare)
    assert "agent.lint.ruff" in set(read)
    assert read["agent.lint.ruff"].startswith("build")
    assert read["agent.lint.ruff"].startswith("build")
    assert read.report().changes_while_read > 0
