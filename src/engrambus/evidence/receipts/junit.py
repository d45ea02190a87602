"""Test reports in JUnit's XML, as pytest and most others write it: read with no entities, within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from engrambus.errors import TestReportInvalid

Outcome = Literal["passed", "skipped", "error", "failed"]
ORDER: tuple[Outcome, ...] = ("passed", "skipped", "error", "failed")
"""From the best to the worst: a case told of twice is as bad as the worst of it."""
_PARTS: dict[str, Outcome] = {"failure": "failed", "error": "error", "skipped": "skipped"}

MAX_REPORT = 32 << 20
MAX_CASES = 200_000
MAX_DEPTH = 32
MAX_DETAIL = 64 << 10
"""Bytes that are kept of what a failure says."""
_CHUNK = 1 << 16


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One test, and what became of it."""

    name: str
    classname: str = ""
    file: str = ""
    outcome: Outcome = "passed"
    message: str = ""
    detail: str = ""
    """What it says of the failure: the lines that failed, most of all."""
    seconds: str = ""

    @property
    def node(self) -> str:
        """A node id that means this case: as pytest writes it where that can be told."""
        if self.file:
            module = self.file.removesuffix(".py").replace("/", ".")
            classes = self.classname.removeprefix(module).strip(".").split(".") if self.classname else []
            return "::".join((self.file, *filter(None, classes), self.name))
        parts = self.classname.split(".")
        # Modules are written small, classes are not.
        at = next((at for at, part in enumerate(parts) if part[:1].isupper()), len(parts))
        if at and any(part.startswith("test") for part in parts[:at]):
            return "::".join(("/".join(parts[:at]) + ".py", *parts[at:], self.name))
        return f"{self.classname}::{self.name}" if self.classname else self.name

    def called(self, node: str) -> bool:
        """Whether a node id means this case: as pytest writes it, as it is called here, or by the class or file and
        the name that the report has."""
        if node in (self.name, f"{self.classname}.{self.name}"):
            return True
        # By the name as the report has it: what stands in its brackets may hold colons, too.
        head, separator, rest = node.rpartition(f"::{self.name}")
        if rest or not separator:
            return False
        if head in (self.classname, self.file):
            return True
        path, *classes = head.split("::")
        module = path.removesuffix(".py").replace("/", ".")
        return ".".join((module, *classes)) == self.classname or node == self.node


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A whole test report."""

    cases: tuple[Case, ...]

    def count(self, outcome: Outcome) -> int:
        """How many cases came out so."""
        return sum(case.outcome == outcome for case in self.cases)

    def find(self, node: str) -> Case | None:
        """The case of that node id; what is told of it twice is put together."""
        found = [case for case in self.cases if case.called(node)]
        if not found:
            return None
        worst = max(found, key=lambda case: ORDER.index(case.outcome))
        details = [case.detail for case in found if case.detail]
        return msgspec.structs.replace(worst, detail="\n\n".join(details)[:MAX_DETAIL])


def read_report(data: bytes) -> Report:
    """The report in a file, or a refusal that says what is wrong with it."""
    if len(data) > MAX_REPORT:
        raise TestReportInvalid("The report is too large.", field="report", limit=MAX_REPORT, used=len(data))
    reading = _Reading()
    from xml.parsers import expat  # loaded with the first report; what makes it dangerous is refused below

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reading.begin
    parser.EndElementHandler = reading.end
    parser.CharacterDataHandler = reading.text
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.EntityDeclHandler = _refuse_doctype
    parser.ExternalEntityRefHandler = _refuse_doctype
    try:
        for piece in _pieces(data):
            parser.Parse(piece, False)
        parser.Parse(b"", True)
    except expat.ExpatError as problem:
        raise TestReportInvalid(
            f"The report is not XML: {expat.ErrorString(problem.code)}.", field="report", line=problem.lineno
        ) from None
    if not reading.is_report:
        raise TestReportInvalid("The file holds no test suite.", field="report", limit="testsuites or testsuite")
    return Report(cases=tuple(reading.cases))


class _Reading:
    """A report as it is read."""

    def __init__(self) -> None:
        self.cases: list[Case] = []
        self.is_report = False
        self._depth = 0
        self._case: dict[str, Any] | None = None
        self._part: Outcome | None = None
        self._file = ""
        self._text: list[str] = []
        self._room = 0

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TestReportInvalid("The report is nested too deep.", field="report", limit=MAX_DEPTH)
        if self._depth == 1:
            self.is_report = name in ("testsuites", "testsuite")
        if name == "testsuite":
            self._file = attributes.get("file", "")
        elif name == "testcase" and self._case is None:
            if len(self.cases) >= MAX_CASES:
                raise TestReportInvalid("The report has too many cases.", field="report", limit=MAX_CASES)
            self._case = {
                "name": attributes.get("name", ""),
                "classname": attributes.get("classname", ""),
                "file": attributes.get("file", self._file),
                "seconds": attributes.get("time", "")[:20],
            }
        elif self._case is not None and name in _PARTS:
            self._part = _PARTS[name]
            self._text, self._room = [], MAX_DETAIL
            if ORDER.index(self._part) > ORDER.index(self._case.get("outcome", "passed")):
                self._case |= {"outcome": self._part, "message": attributes.get("message", "")[:MAX_DETAIL]}

    def end(self, name: str) -> None:
        self._depth -= 1
        if self._case is None:
            return
        if name == "testcase":
            self.cases.append(Case(**self._case))
            self._case = None
        elif name in _PARTS and self._part is not None:
            said = "".join(self._text).strip("\n")
            before = self._case.get("detail", "")
            self._case["detail"] = (f"{before}\n\n{said}" if before and said else before or said)[:MAX_DETAIL]
            self._part = None

    def text(self, data: str) -> None:
        if self._part is not None and self._room > 0:
            self._text.append(data[: self._room])
            self._room -= len(data)


def _refuse_doctype(*said: Any) -> int:
    raise TestReportInvalid("A report declares no types and no entities.", field="report", limit="no DOCTYPE")


def _pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK))
