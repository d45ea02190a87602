"""`test:` pointers lead into test reports: to the outcome, the message and the failing lines of a test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus import Bus, Pointer
from engrambus.errors import ReceiptNotFound, TestNotFound, TestReportInvalid
from engrambus.evidence.receipts import MAX_REPORT_BYTES, read_junit
from engrambus.gateway import LOCAL_ADMIN, Gateway
from tests.projects import make_gateway, make_repository, make_settings

MODULE = """
import pytest

def test_good():
    pass

class TestBox:
    @pytest.mark.parametrize("n", [1, 2])
    def test_holds(self, n):
        box = [1]
        assert n in box, "the box is too small"

@pytest.fixture
def broken():
    raise RuntimeError("no fixture today")

def test_breaks(broken):
    pass

@pytest.mark.skip(reason="later")
def test_later():
    pass

@pytest.mark.parametrize("n", [1, 2], ids=["a::b", "c::a::b"])
def test_named(n):
    assert n == 1, "two is not one"
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A report written by pytest."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_box.py").write_text(MODULE)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", "."]
    subprocess.run([*words, "--junit-xml", "report.xml", "tests"], cwd=folder, capture_output=True, check=False)
    return (folder / "report.xml").read_bytes()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Gateway]:
    make_repository(tmp_path / "repo")
    gateway = make_gateway(tmp_path / "repo", make_settings(tmp_path / "home"))
    yield gateway
    gateway.close()


def test_a_report_of_pytest_is_read(report: bytes) -> None:
    read = read_junit(report)
    assert [(case.node, case.outcome) for case in read.cases] == [
        ("tests/test_box.py::test_good", "passed"),
        ("tests/test_box.py::TestBox::test_holds[1]", "passed"),
        ("tests/test_box.py::TestBox::test_holds[2]", "failed"),
        ("tests/test_box.py::test_breaks", "error"),
        ("tests/test_box.py::test_later", "skipped"),
        ("tests/test_box.py::test_named[a::b]", "passed"),
        ("tests/test_box.py::test_named[c::a::b]", "failed"),
    ]
    assert all(read.find(case.node) == case for case in read.cases)


# EB-04
def test_a_pointer_leads_to_the_failing_lines(project: Gateway, report: bytes) -> None:
    bus = Bus(project, LOCAL_ADMIN)
    recorded = bus.record_tests(report.decode())
    assert (recorded.passed, recorded.failed, recorded.errors, recorded.skipped) == (3, 2, 1, 1)
    (first, _, named) = recorded.first_failed
    assert first.ref == f"test:tests/test_box.py::TestBox::test_holds[2]@{recorded.receipt_id}"
    assert "the box is too small" in first.message
    read = bus.deref_pointer(Pointer(type="test", ref=first.ref), max_tokens=600)
    assert read.excerpt.startswith("tests/test_box.py::TestBox::test_holds[2] failed in ")
    assert '>       assert n in box, "the box is too small"' in read.excerpt
    assert "test_box.py:11: AssertionError" in read.excerpt
    assert named.ref == f"test:tests/test_box.py::test_named[c::a::b]@{recorded.receipt_id}"
    assert "two is not one" in bus.deref_pointer(Pointer(type="test", ref=named.ref), max_tokens=600).excerpt


# EB-04: put stamps the digest of the pointed content.
def test_an_engram_about_a_test_is_stamped(project: Gateway, report: bytes) -> None:
    bus = Bus(project, LOCAL_ADMIN)
    ref = bus.record_tests(report.decode()).first_failed[0].ref
    put = bus.put_engram("The box takes one.", pointers=[Pointer(type="test", ref=ref)], kind="test")
    (pointer,) = bus.get_engram(put.id).pointers
    assert pointer.digest is not None
    assert bus.deref_pointer(pointer, max_tokens=600).content_digest == pointer.digest


def test_a_pointer_to_an_absent_receipt_is_neither_put_nor_read(project: Gateway) -> None:  # EB-04
    bus = Bus(project, LOCAL_ADMIN)
    pointer = Pointer(type="test", ref="test:tests/test_box.py::test_good@sha256:" + "0" * 64)
    with pytest.raises(ReceiptNotFound):
        bus.put_engram("It passed elsewhere.", pointers=[pointer], kind="test")
    assert bus.query_engrams().engrams == []
    with pytest.raises(ReceiptNotFound):
        bus.deref_pointer(pointer, max_tokens=100)
    assert not list(project.project_files.root.glob(".catalog/tuples.jsonl"))


def test_a_test_that_is_not_in_the_report_is_refused(project: Gateway, report: bytes) -> None:
    bus = Bus(project, LOCAL_ADMIN)
    receipt = bus.record_tests(report.decode()).receipt_id
    pointer = Pointer(type="test", ref=f"test:tests/test_box.py::test_other@{receipt}")
    with pytest.raises(TestNotFound):
        bus.deref_pointer(pointer, max_tokens=100)
    with pytest.raises(TestNotFound):
        bus.put_engram("There is none.", pointers=[pointer], kind="test")


def test_the_receipt_of_the_tuple_leads_to_the_report_too(project: Gateway, report: bytes) -> None:
    bus = Bus(project, LOCAL_ADMIN)
    recorded = bus.record_tests(report.decode())
    terminal = bus.tuple_observe(recorded.tuple_id).terminal
    pointer = Pointer(type="test", ref=f"test:tests/test_box.py::test_later@{terminal}")
    assert "skipped" in bus.deref_pointer(pointer, max_tokens=200).excerpt


# YT-15
def test_the_outcome_of_a_report_is_shown_with_its_tuple(project: Gateway, report: bytes) -> None:
    bus = Bus(project, LOCAL_ADMIN)
    recorded = bus.record_tests(report.decode())
    observed = bus.tuple_observe(recorded.tuple_id)
    (step,) = observed.steps
    assert (step.receipt, step.exit, step.hit) == (recorded.receipt_id, 1, False)
    assert observed.error == "3 of 7 tests failed"
    (row,) = bus.work_board().ended
    assert (row.steps, row.error) == (observed.steps, observed.error)
    good = bus.record_tests('<testsuite><testcase classname="tests.test_box" name="test_good"/></testsuite>')
    passed = bus.tuple_observe(good.tuple_id)
    assert ([step.exit for step in passed.steps], passed.error) == ([0], None)


JAVA = (
    '<testsuite name="s"><testcase classname="com.acme.BoxTest" name="holds" time="0.1">'
    '<failure message="expected 2" type="X">at com.acme.BoxTest.holds(BoxTest.java:12)</failure>'
    "</testcase><testcase name='alone'/></testsuite>"
)


@pytest.mark.parametrize("node", ["com.acme.BoxTest::holds", "com.acme.BoxTest.holds"])
def test_cases_of_a_java_report_are_found_by_class_and_name(node: str) -> None:
    case = read_junit(JAVA.encode()).find(node)
    assert case is not None
    assert (case.outcome, case.message) == ("failed", "expected 2")
    assert "BoxTest.java:12" in case.detail


JAVASCRIPT = (
    '<testsuites><testsuite file="spec/box.test.js"><testcase classname="box" name="holds one"/></testsuite>'
    '<testsuite><testcase classname="bag holds one" name="bag holds one" file="./spec/bag.test.js">'
    '<failure message="too small">at bag.test.js:7</failure></testcase></testsuite></testsuites>'
)


@pytest.mark.parametrize(
    ("node", "outcome"),
    [
        ("spec/box.test.js::holds one", "passed"),
        ("spec/box.test.js::box::holds one", "passed"),
        ("./spec/bag.test.js::bag holds one", "failed"),
        ("spec/box.test.js::bag holds one", None),
        ("spec/other.test.js::holds one", None),
        ("spec/box.test.js::holds two", None),
    ],
)
def test_cases_of_a_javascript_report_are_found_by_file_and_name(node: str, outcome: str | None) -> None:
    case = read_junit(JAVASCRIPT.encode()).find(node)
    assert (case.outcome if case else None) == outcome


def test_cases_of_any_report_are_found_by_their_node_id(project: Gateway) -> None:
    for read in map(read_junit, (JAVA.encode(), JAVASCRIPT.encode())):
        assert [read.find(case.node) for case in read.cases] == list(read.cases)
    bus = Bus(project, LOCAL_ADMIN)
    (failed,) = bus.record_tests(JAVASCRIPT).first_failed
    assert "bag.test.js:7" in bus.deref_pointer(Pointer(type="test", ref=failed.ref), max_tokens=200).excerpt


def test_two_entries_of_a_test_are_merged() -> None:
    twice = (
        '<testsuite><testcase classname="t" name="a"><failure message="m">one</failure></testcase>'
        '<testcase classname="t" name="a"><error message="n">two</error></testcase></testsuite>'
    )
    case = read_junit(twice.encode()).find("t::a")
    assert case is not None
    assert (case.outcome, case.message, case.detail) == ("failed", "m", "one\n\ntwo")


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    "<testsuite><testcase name='x'><failure>&b;</failure></testcase></testsuite>"
)
OUTSIDE = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><testsuite><testcase name="&a;"/></testsuite>'


@pytest.mark.parametrize(
    "bad",
    [
        BOMB,
        OUTSIDE,
        "",
        "not xml",
        "<testsuite>",
        "<html/>",
        "<testsuite>&unknown;</testsuite>",
        "<testsuite>" + "<a>" * 40,
        "\0",
    ],
)
def test_malformed_and_hostile_reports_are_refused(bad: str) -> None:
    with pytest.raises(TestReportInvalid) as refused:
        read_junit(bad.encode())
    assert refused.value.field == "report"


def test_a_report_that_is_too_large_is_refused() -> None:
    with pytest.raises(TestReportInvalid) as refused:
        read_junit(b" " * (MAX_REPORT_BYTES + 1))
    assert refused.value.limit == MAX_REPORT_BYTES


@given(st.binary(max_size=200) | st.text(alphabet="<>/&;testcasuifr \"'=", max_size=200).map(str.encode))
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(TestReportInvalid):  # any other exception fails the test
        assert read_junit(data).cases is not None
