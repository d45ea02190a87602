"""Test reports in JUnit's XML, as pytest and most other tools write it; read without entities and within limits."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from engrambus.errors import TestReportInvalid

Outcome = Literal["passed", "skipped", "error", "failed"]
_BEST_TO_WORST: tuple[Outcome, ...] = ("passed", "skipped", "error", "failed")
"""A case that is reported twice has the worse outcome."""
_ELEMENTS: dict[str, Outcome] = {"failure": "failed", "error": "error", "skipped": "skipped"}

MAX_REPORT_BYTES = 32 << 20
MAX_CASES = 200_000
MAX_DEPTH = 32
MAX_DETAIL_CHARS = 64 << 10
"""Characters kept of a failure's text."""
_CHUNK_BYTES = 1 << 16


class JunitCase(msgspec.Struct, frozen=True, kw_only=True):
    """One test and its outcome."""

    name: str
    classname: str = ""
    file: str = ""
    outcome: Outcome = "passed"
    message: str = ""
    detail: str = ""
    """Text of the failure, mostly the lines that failed."""
    seconds: str = ""

    @property
    def node(self) -> str:
        """Node id of this case, in pytest's form where file and classes are known."""
        if self.file:
            module = self.file.removesuffix(".py").replace("/", ".")
            classes = self.classname.removeprefix(module).strip(".").split(".") if self.classname else []
            return "::".join((self.file, *filter(None, classes), self.name))
        parts = self.classname.split(".")
        # Names of modules begin with a small letter, names of classes with a capital.
        module_length = next((index for index, part in enumerate(parts) if part[:1].isupper()), len(parts))
        module_parts, classes = parts[:module_length], parts[module_length:]
        if any(part.startswith("test") for part in module_parts):
            return "::".join(("/".join(module_parts) + ".py", *classes, self.name))
        return f"{self.classname}::{self.name}" if self.classname else self.name

    def matches(self, node: str) -> bool:
        """True if a node id names this case: in pytest's form, as `node`, or by class or file and name."""
        if node in (self.name, f"{self.classname}.{self.name}"):
            return True
        # Split before the whole name: its parameters in brackets may contain colons too.
        head, separator, suffix = node.rpartition(f"::{self.name}")
        if suffix or not separator:
            return False
        if head in (self.classname, self.file):
            return True
        path, *classes = head.split("::")
        module = path.removesuffix(".py").replace("/", ".")
        return ".".join((module, *classes)) == self.classname or node == self.node


class JunitReport(msgspec.Struct, frozen=True, kw_only=True):
    """A test report."""

    cases: tuple[JunitCase, ...]

    def count(self, outcome: Outcome) -> int:
        """Return the number of cases with an outcome."""
        return sum(case.outcome == outcome for case in self.cases)

    def find(self, node: str) -> JunitCase | None:
        """Return the case of a node id; several reports of it are merged."""
        matches = [case for case in self.cases if case.matches(node)]
        if not matches:
            return None
        worst = max(matches, key=lambda case: _BEST_TO_WORST.index(case.outcome))
        details = [case.detail for case in matches if case.detail]
        return msgspec.structs.replace(worst, detail="\n\n".join(details)[:MAX_DETAIL_CHARS])


def read_junit(data: bytes) -> JunitReport:
    """Parse a report; raise TestReportInvalid if it is not one."""
    if len(data) > MAX_REPORT_BYTES:
        raise TestReportInvalid("The report is too large.", field="report", limit=MAX_REPORT_BYTES, used=len(data))
    handler = _ReportHandler()
    from xml.parsers import expat  # loaded on first use; the dangerous features, DTDs and entities, are refused below

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = handler.begin
    parser.EndElementHandler = handler.end
    parser.CharacterDataHandler = handler.text
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.EntityDeclHandler = _refuse_doctype
    parser.ExternalEntityRefHandler = _refuse_doctype
    try:
        for start in range(0, len(data), _CHUNK_BYTES):
            parser.Parse(data[start : start + _CHUNK_BYTES], False)
        parser.Parse(b"", True)
    except expat.ExpatError as problem:
        raise TestReportInvalid(
            f"The report is not XML: {expat.ErrorString(problem.code)}.", field="report", line=problem.lineno
        ) from None
    if not handler.is_report:
        raise TestReportInvalid("The file is not a JUnit test report.", field="report", limit="testsuites or testsuite")
    return JunitReport(cases=tuple(handler.cases))


class _ReportHandler:
    """Callbacks of the XML parser, which collect the cases."""

    def __init__(self) -> None:
        self.cases: list[JunitCase] = []
        self.is_report = False
        self._depth = 0
        self._case: dict[str, Any] | None = None
        self._element: Outcome | None = None
        self._file = ""
        self._text: list[str] = []
        self._free_chars = 0

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
        elif self._case is not None and name in _ELEMENTS:
            self._element = _ELEMENTS[name]
            self._text, self._free_chars = [], MAX_DETAIL_CHARS
            if _BEST_TO_WORST.index(self._element) > _BEST_TO_WORST.index(self._case.get("outcome", "passed")):
                self._case |= {"outcome": self._element, "message": attributes.get("message", "")[:MAX_DETAIL_CHARS]}

    def end(self, name: str) -> None:
        self._depth -= 1
        if self._case is None:
            return
        if name == "testcase":
            self.cases.append(JunitCase(**self._case))
            self._case = None
        elif name in _ELEMENTS and self._element is not None:
            text = "".join(self._text).strip("\n")
            details = (self._case.get("detail", ""), text)
            self._case["detail"] = "\n\n".join(filter(None, details))[:MAX_DETAIL_CHARS]
            self._element = None

    def text(self, data: str) -> None:
        if self._element is not None and self._free_chars > 0:
            self._text.append(data[: self._free_chars])
            self._free_chars -= len(data)


def _refuse_doctype(*declaration: Any) -> int:
    raise TestReportInvalid("A test report must not contain a DOCTYPE or entities.", field="report", limit="no DOCTYPE")
