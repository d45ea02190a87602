"""Artifacts are recognised by their content; what a yool declares wins. # YT-08"""

from __future__ import annotations

import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engrambus.errors import YoolContract
from engrambus.evidence.receipts import artifact_kind
from engrambus.space.catalog import Registry

JUNIT = b'<?xml version="1.0" encoding="utf-8"?>\n<testsuites name="pytest tests"><testsuite/></testsuites>'
COBERTURA = b'<?xml version="1.0" ?>\n<coverage version="7.6" line-rate="0.9"><packages/></coverage>'
DTD = b'<!DOCTYPE coverage SYSTEM "http://cobertura.sourceforge.net/xml/coverage-04.dtd">'
ENTITY = b'<!DOCTYPE testsuites [<!ENTITY a "aaaa">]>'
COVERAGE_JSON = {"meta": {"format": 3, "version": "7.6"}, "files": {"a.py": {"summary": {}}}, "totals": {"covered": 1}}
ISTANBUL = {"/a.js": {"path": "/a.js", "statementMap": {"0": {}}, "s": {"0": 1}, "f": {}, "b": {}}}


def kind(data: bytes, path: str = "out.bin", **declared: str) -> str:
    """Return the kind of an artifact with that content."""
    return artifact_kind(path, io.BytesIO(data), len(data), {name.replace("_", "."): k for name, k in declared.items()})


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (JUNIT, "junit"),
        (b"\xef\xbb\xbf" + JUNIT, "junit"),
        (b"<!-- made by hand -->\n<testsuite tests='1'>", "junit"),
        (JUNIT.decode().replace("utf-8", "utf-16").encode("utf-16"), "file"),
        (COBERTURA, "coverage"),
        (COBERTURA.replace(b"\n", DTD), "coverage"),
        (JUNIT.replace(b"\n", ENTITY), "file"),
        (ENTITY + b"<testsuites>&a;</testsuites>", "file"),
        (b"<!DOCTYPE testsuites SYSTEM 'http://x/y.dtd'><testsuites/>", "file"),
        (b"<html><testsuites/></html>", "file"),
        (b"<" + b"a" * 100_000, "file"),
        (json.dumps(COVERAGE_JSON).encode(), "coverage"),
        (json.dumps(COVERAGE_JSON, indent=2).encode() + b" " * 200_000, "coverage"),
        (json.dumps(ISTANBUL).encode(), "coverage"),
        (b'{"meta": {"version": "7"}}', "file"),
        (b"{}", "file"),
        (b"[" * 100_000, "file"),
        (b"{" + b'"a":{' * 100_000, "file"),
        (b"SQLite format 3\0 and nothing else", "file"),
        (b"", "file"),
        (b"\xff\xfe\x00", "file"),
    ],
)
def test_a_kind_is_seen_in_the_content(data: bytes, expected: str) -> None:
    assert kind(data) == expected
    assert kind(data, "junit.xml") == kind(data, "coverage.json") == expected, "a name alone says nothing"


def test_the_database_of_coverage_is_recognised(tmp_path: Path) -> None:
    for name, table, expected in ((".coverage", "coverage_schema", "coverage"), ("notes.db", "notes", "file")):
        path = tmp_path / name
        with closing(sqlite3.connect(path)) as database:
            database.execute(f"CREATE TABLE {table} (\n    version integer\n)")
            database.execute("CREATE TABLE file (id integer primary key, path text, unique (path))")
            database.commit()
        assert kind(path.read_bytes(), name) == expected


def test_what_is_declared_wins() -> None:
    assert kind(JUNIT, "out/report.xml", report_xml="file") == "file"
    assert kind(b"anything", "report.xml", report_xml="junit") == "junit"
    assert artifact_kind("out/a.xml", io.BytesIO(JUNIT), 1, {"out/*.xml": "coverage", "*.xml": "file"}) == "coverage"
    assert kind(JUNIT, "other.xml", report_xml="file") == "junit"


def test_only_known_kinds_can_be_declared() -> None:
    registry = Registry()
    registry.yool("agent.test.one", lane="build", artifacts={"*.xml": "junit"})(["true"])
    assert registry.lookup("agent.test.one").entry.contract.artifacts == {"*.xml": "junit"}
    with pytest.raises(YoolContract) as refused:
        registry.yool("agent.test.two", lane="build", artifacts={"*.xml": "html"})(["true"])
    assert (refused.value.field, refused.value.limit, refused.value.used) == (
        "contract.artifacts",
        "junit, coverage, file",
        "html",
    )
