"""`capabilities.json`: one yool per line, written atomically; errors name the line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from engrambus.errors import EngramBusError, LinkInCatalog
from engrambus.space.catalog import Catalog, CatalogReader, Contract, Terms, parse_catalog, read_catalog, write_catalog
from engrambus.space.catalog.capabilities_file import print_catalog
from tests.catalog.test_names import make_entry

CATALOG = Catalog(
    [
        make_entry("agent.lint.ruff.v2", terms=Terms(budget_micros=50_000, cpu_quota_pct=30), about="Enforces style"),
        make_entry("agent.lint.ruff.v1", contract=Contract(effect="pure", inputs=("src/**/*.py",), env=("PATH",))),
        make_entry("agent.dev.python", agent="dev-agent"),
    ]
)


def test_each_yool_is_one_line_sorted_by_name() -> None:  # YT-03
    lines = print_catalog(CATALOG).splitlines()
    yools = [json.loads(line.rstrip(",")) for line in lines[3:-2]]
    assert [yool["yool_id"] for yool in yools] == ["agent.dev.python.v1", "agent.lint.ruff.v1", "agent.lint.ruff.v2"]
    assert yools[2]["agent_terms"] == {"budget_usd": 0.05, "cpu_quota_pct": 30}
    assert yools[1]["contract"] == {"effect": "pure", "env": ["PATH"], "inputs": ["src/**/*.py"]}
    changed = print_catalog(CATALOG.remove("agent.lint.ruff.v1").add(make_entry("agent.lint.ruff.v1"))).splitlines()
    assert [old == new for old, new in zip(lines, changed, strict=True)].count(False) == 1
    assert parse_catalog(print_catalog(Catalog())).root == Catalog().root


def test_an_unchanged_catalog_is_not_written_again(tmp_path: Path) -> None:  # YT-03
    file = tmp_path / "new" / "capabilities.json"
    size = write_catalog(file, CATALOG)
    assert size == file.stat().st_size
    first = file.stat().st_ino, file.stat().st_mtime_ns
    assert write_catalog(file, parse_catalog(file.read_text())) == size
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == first
    write_catalog(file, CATALOG.remove("agent.dev.python"))
    assert file.stat().st_ino != first[0], "the file is replaced, never written over"
    assert os.listdir(file.parent) == ["capabilities.json"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # YT-03
    file = tmp_path / "capabilities.json"
    write_catalog(file, CATALOG)
    original = file.read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_catalog(file, Catalog())
    assert file.read_bytes() == original
    assert os.listdir(tmp_path) == ["capabilities.json"]


def test_a_catalog_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:  # YT-03
    file = tmp_path / "capabilities.json"
    write_catalog(file, CATALOG)
    original = file.read_bytes()
    with pytest.raises(EngramBusError) as refused:
        write_catalog(file, Catalog([make_entry("net.fetch", contract=Contract(cost_tokens=1.5))]))  # type: ignore[arg-type]
    assert refused.value.code == "YOOL_CONTRACT"
    assert file.read_bytes() == original


def test_links_and_other_kinds_of_files_are_refused(tmp_path: Path) -> None:  # YT-03
    link, file = tmp_path / "link.json", tmp_path / "capabilities.json"
    link.symlink_to(file)
    for write_or_read in (lambda target: write_catalog(target, CATALOG), read_catalog):
        with pytest.raises(LinkInCatalog):
            write_or_read(link)
    assert not file.exists()
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    for path in (pipe, folder):
        for attempt in (lambda target: write_catalog(target, CATALOG), read_catalog):
            with pytest.raises(EngramBusError, match="not a regular file") as refused:
                attempt(path)
            assert refused.value.code == "CATALOG_FILE"
    assert pipe.is_fifo()


def test_the_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:  # YT-03
    reader = CatalogReader(tmp_path)
    assert reader.current().names() == ["catalog.diff", "catalog.list_by_lane", "catalog.lookup"]
    write_catalog(tmp_path / "capabilities.json", CATALOG)
    first = reader.current()
    assert first.lookup("agent.lint.ruff").version == 2
    assert reader.current() is first
    write_catalog(tmp_path / "capabilities.json", CATALOG.remove("agent.lint.ruff.v2"))
    assert reader.current().lookup("agent.lint.ruff").version == 1
    (tmp_path / "capabilities.json").unlink()
    assert reader.current().get("agent.lint.ruff") is None


@pytest.mark.parametrize("change", ["replaced by a file with the same time", "overwritten"])
def test_a_change_that_keeps_the_size_is_noticed(tmp_path: Path, change: str) -> None:  # YT-03
    file = tmp_path / "capabilities.json"
    write_catalog(file, CATALOG)
    reader = CatalogReader(tmp_path)
    assert reader.current().get("agent.lint.ruff.v3") is None
    status = file.stat()
    text = print_catalog(CATALOG).replace("agent.lint.ruff.v2", "agent.lint.ruff.v3")
    new = file if change == "overwritten" else tmp_path / "new"
    new.write_text(text)
    os.utime(new, ns=(0, status.st_mtime_ns + (change == "overwritten")))
    new.rename(file)
    assert file.stat().st_size == status.st_size
    assert reader.current().lookup("agent.lint.ruff").version == 3


def with_line(line: str) -> str:
    """Return a catalog file with this text as its fifth line."""
    first = '{"yool_id":"agent.dev.python.v1","authority":["user"],"lane":"build"}'
    return f'{{\n"schema": "yool-catalog/v1",\n"yools": [\n{first},\n{line}\n]\n}}\n'


GOOD = '"yool_id":"net.fetch","authority":["user"],"lane":"build"'
BROKEN = {
    "": ("CATALOG_FILE", None, 1),
    "[]": ("CATALOG_FILE", "schema", 1),
    '{"schema": "yool-catalog/v2",\n"yools": []}': ("CATALOG_FILE", "schema", 1),
    '{"schema": "yool-catalog/v1",\n"yools": {}}': ("CATALOG_FILE", "yools", 2),
    '{"schema": "yool-catalog/v1",\n"yools": [],\n"root": 1}': ("CATALOG_FILE", "root", 3),
    '{"schema": "yool-catalog/v1",\n"yools": [],\n"yools": []}': ("CATALOG_FILE", "yools", 3),
    with_line("<<<<<<< HEAD"): ("CATALOG_FILE", None, 5),
    with_line("7"): ("CATALOG_FILE", "yools[1]", 5),
    with_line('{"yool_id":"net.fetch","authority":["user"]}'): ("CATALOG_FILE", "yools[1].lane", 5),
    with_line('{"yool_id":7,"authority":["user"],"lane":"build"}'): ("CATALOG_FILE", "yools[1].yool_id", 5),
    with_line('{"yool_id":"net","authority":["user"],"lane":"build"}'): ("YOOL_NAME", "yools[1].yool_id", 5),
    with_line('{"yool_id":"catalog.x","authority":["user"],"lane":"b"}'): ("YOOL_RESERVED", "yools[1].yool_id", 5),
    with_line('{"yool_id":"agent.dev.python","authority":["user"],"lane":"b"}'): ("YOOL_TWICE", "yools[1].yool_id", 5),
    with_line('{"yool_id":"net.fetch","authority":[],"lane":"build"}'): ("AUTHORITY_INVALID", "yools[1].authority", 5),
    with_line('{"yool_id":"net.fetch","authority":["root"],"lane":"b"}'): (
        "AUTHORITY_INVALID",
        "yools[1].authority",
        5,
    ),
    with_line('{"yool_id":"net.fetch","authority":["user"],"lane":"A"}'): ("LANE_NAME", "yools[1].lane", 5),
    with_line(f'{{{GOOD},"command":["rm"]}}'): ("COMMAND_DECLARED", "yools[1].command", 5),
    with_line(f'{{{GOOD},"contract":{{"argv":["rm"]}}}}'): ("COMMAND_DECLARED", "yools[1].contract.argv", 5),
    with_line(f'{{{GOOD},"colour":"red"}}'): ("CATALOG_FILE", "yools[1].colour", 5),
    with_line(f'{{{GOOD},"about":"{"x" * 201}"}}'): ("CATALOG_FILE", "yools[1].about", 5),
    with_line(f'{{{GOOD},"contract":{{"effect":"both"}}}}'): ("YOOL_CONTRACT", "yools[1].contract.effect", 5),
    with_line(f'{{{GOOD},"contract":{{"inputs":["../x"]}}}}'): ("YOOL_CONTRACT", "yools[1].contract.inputs", 5),
    with_line(f'{{{GOOD},"contract":{{"cost_micros":-1}}}}'): ("YOOL_CONTRACT", "yools[1].contract.cost_micros", 5),
    with_line(f'{{{GOOD},"contract":{{"colour":1}}}}'): ("YOOL_CONTRACT", "yools[1].contract.colour", 5),
    with_line(f'{{{GOOD},"agent_terms":{{"budget_usd":-1}}}}'): ("TERMS_INVALID", "yools[1].agent_terms.budget_usd", 5),
    with_line(f'{{{GOOD},"agent_terms":{{"budget_usd":NaN}}}}'): ("CATALOG_FILE", "yools[1].agent_terms.budget_usd", 5),
    with_line(f'{{{GOOD},"agent_terms":{{"budget_usd":"1"}}}}'): (
        "TERMS_INVALID",
        "yools[1].agent_terms.budget_usd",
        5,
    ),
    with_line(f'{{{GOOD},"agent_terms":{{"max_retries":1.5}}}}'): (
        "TERMS_INVALID",
        "yools[1].agent_terms.max_retries",
        5,
    ),
    with_line(f'{{{GOOD},"agent_terms":{{"cpu_quota_pct":101}}}}'): (
        "TERMS_INVALID",
        "yools[1].agent_terms.cpu_quota_pct",
        5,
    ),
    with_line(f'{{{GOOD},"agent_terms":{{"deadline_iso":1}}}}'): (
        "TERMS_INVALID",
        "yools[1].agent_terms.deadline_iso",
        5,
    ),
    with_line(f'{{{GOOD},"agent_terms":{{"budget_usd":0.0000001}}}}'): (
        "TERMS_INVALID",
        "yools[1].agent_terms.budget_usd",
        5,
    ),
    with_line(f'{{{GOOD},"agent_terms":[]}}'): ("TERMS_INVALID", "yools[1].agent_terms", 5),
    "[" * 100: ("CATALOG_FILE", None, None),
}


@pytest.mark.parametrize("text", BROKEN, ids=lambda text: text[-70:])
def test_a_broken_file_is_refused_with_code_field_and_line(text: str) -> None:  # YT-03
    with pytest.raises(EngramBusError) as refused:
        parse_catalog(text)
    assert (refused.value.code, refused.value.field, refused.value.line) == BROKEN[text]
    assert refused.value.status == 422


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:  # YT-03
    (tmp_path / "capabilities.json").write_bytes(b"\xff\xfe")
    with pytest.raises(EngramBusError, match="not UTF-8"):
        CatalogReader(tmp_path).current()


def test_no_declared_inputs_and_no_inputs_are_written_differently() -> None:  # YT-09
    for contract, text in ((Contract(effect="reads"), '{"effect":"reads"}'), (Contract(inputs=()), '{"inputs":[]}')):
        catalog = Catalog([make_entry("agent.lint.ruff.v1", contract=contract)])
        assert f'"contract":{text}' in print_catalog(catalog)
        assert parse_catalog(print_catalog(catalog)).lookup("agent.lint.ruff").contract == contract
