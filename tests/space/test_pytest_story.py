"""A story with real pytest: its report is recognised, summarised, and pointed at. # YT-08 # YT-21"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from engrambus.settings import Settings
from tests.projects import Repository
from tests.space.terminal import Terminal, open_terminal

YOOL = f"""
import json, subprocess, sys
from engrambus import yool
from engrambus.space.work import step_context

@yool("agent.test.pytest", lane="build", authority=("user",), artifacts={{"raw.xml": "file"}})
def test(path: str) -> int:
    out = step_context.artifacts()
    words = [{sys.executable!r}, "-m", "pytest", "-q", "-p", "no:cacheprovider", path]
    subprocess.run([*words, f"--junit-xml={{out}}/results.out"], check=False)
    (out / "raw.xml").write_bytes((out / "results.out").read_bytes())
    coverage = {{"meta": {{"version": "7"}}, "files": {{}}, "totals": {{"covered": 1}}}}
    (out / "cover.out").write_text(json.dumps(coverage))
"""
MODULE = """
class TestMoney:
    def test_sum(self):
        assert 1 + 1 == 2

    def test_refund(self):
        assert 40 == 42, "the refund is short"

def test_later():
    import pytest
    pytest.skip("later")
"""


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """Open a project in which pytest has run as a step."""
    terminal = open_terminal(repository, settings, tmp_path)
    (terminal.path / "checks.py").write_text(YOOL)
    (terminal.path / "test_money.py").write_text(MODULE)
    terminal.run("catalog", "build", "--import", "checks")
    terminal.run("out", "--lane", "build", "--yool", "agent.test.pytest", "--arg", "path=test_money.py")
    terminal.run("worker", "--lane", "build", "--until-empty", "--import", "checks")
    return terminal


def test_what_pytest_reported_is_shown_and_can_be_pointed_at(terminal: Terminal) -> None:
    (row,) = terminal.json("receipt", "list", "--yool", "agent.test")["receipts"]
    assert row["artifacts"] == {"coverage": 1, "file": 1, "junit": 1}
    assert "1 coverage, 1 file, 1 junit" in terminal.run("receipt", "list")
    answer = terminal.json("receipt", "get", row["id"])
    kinds = {artifact["path"]: artifact["kind"] for artifact in answer["receipt"]["artifacts"]}
    assert kinds == {"cover.out": "coverage", "raw.xml": "file", "results.out": "junit"}
    (report,) = answer["reports"]
    assert {name: report.get(name, 0) for name in ("path", "tests", "passed", "failed", "skipped")} == {
        "path": "results.out",
        "tests": 3,
        "passed": 1,
        "failed": 1,
        "skipped": 1,
    }
    (failed,) = report["first_failed"]
    assert failed["ref"] == f"test:test_money.py::TestMoney::test_refund@{row['id']}"
    printed = terminal.run("receipt", "get", row["id"][7:19])
    assert "results.out: 3 tests, 1 failed, 1 skipped" in printed
    assert "AssertionError: the refund is short" in printed
    read = terminal.run("deref", failed["ref"])
    assert "test_refund failed" in read
    assert "the refund is short" in read
    tuple_receipt = terminal.json("observe", row["tuple_id"])["terminal"]
    assert "test_sum passed" in terminal.run("deref", f"test:test_money.py::TestMoney::test_sum@{tuple_receipt}")
    put = terminal.json("put", "The refund is short by two.", "--pointer", failed["ref"])
    assert json.dumps(put).count(row["id"]) >= 1
