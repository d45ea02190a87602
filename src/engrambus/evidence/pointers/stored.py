"""Resolvers of stored bodies: `artifact:sha256:` names one, `test:` a case of a report that a receipt keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from engrambus.core import LruCache
from engrambus.errors import ContentTooLarge, ReceiptNotFound, TestNotFound, TestReportInvalid
from engrambus.evidence.pointers.addresses import BodyAddress, TestAddress
from engrambus.evidence.pointers.git import MAX_CONTENT_BYTES
from engrambus.evidence.pointers.read_spans import FileLines
from engrambus.evidence.pointers.resolve import Content
from engrambus.evidence.receipts import JUNIT_KIND, MAX_REPORT_BYTES, JunitCase, JunitReport, Receipt, read_junit

EXCERPT_BYTES = 512 * 1024
"""Bytes read of each end of a body that is too large: more than any answer may have."""

FindReceipt = Callable[[str], Receipt | None]
"""Finds a receipt by its id."""


class Bodies(Protocol):
    """The store of bodies."""

    def get(self, digest: str, limit: int | None = None) -> bytes:
        """Return the body of that digest, its hash checked."""
        ...

    def touch(self, digest: str) -> None:
        """Protect a body from collection for a while; refuse if it is gone."""
        ...


class LargeBodies(Bodies, Protocol):
    """A store of bodies that may be too large for memory."""

    def get_lines(self, digest: str, first: int, last: int, limit: int) -> bytes:
        """Return some lines of the body of that digest, its hash checked."""
        ...

    def get_ends(self, digest: str, size: int) -> tuple[bytes, bytes, int]:
        """Return the first and the last bytes of the body of that digest, its hash checked, and its number of lines."""
        ...


class BodyResolver:
    """Reads `artifact:sha256:` addresses."""

    def __init__(self, bodies: LargeBodies, *, max_bytes: int = MAX_CONTENT_BYTES) -> None:
        self._bodies = bodies
        self._max_bytes = max_bytes

    def resolve(self, address: BodyAddress) -> Content:
        """Return the pointed lines or the whole body; of a body that is too large, both its ends."""
        if address.lines is not None:
            data = self._bodies.get_lines(address.digest, *address.lines, self._max_bytes)
            return Content.of(data, place=self.locate(address))
        try:
            return Content.of(self._bodies.get(address.digest, self._max_bytes), place=self.locate(address))
        except ContentTooLarge:  # the output of a failed step: its end says why it failed
            first, last, lines = self._bodies.get_ends(address.digest, min(EXCERPT_BYTES, self._max_bytes))
        return Content(
            data=_first_lines(first),
            end=_last_lines(last),
            digest=address.digest,
            place=self.locate(address),
            line_count=lines,
        )

    def locate(self, address: BodyAddress) -> FileLines:
        """Return the body and the lines of it that an address names."""
        first, last = address.lines or (1, None)
        return FileLines(file=f"cas:{address.digest}", first=first, last=last)


def _first_lines(data: bytes) -> bytes:
    """Return the complete lines of a beginning, or the complete characters where it is all one line."""
    lines = data[: data.rfind(b"\n") + 1]
    return lines if lines.strip() else next((data[:-n] for n in range(1, 5) if _starts_character(data[-n])), data)


def _last_lines(data: bytes) -> bytes:
    """Return the complete lines of an end, or the complete characters where it is all one line."""
    lines = data[data.find(b"\n") + 1 or len(data) :]
    return lines if lines.strip() else next((data[n:] for n in range(4) if _starts_character(data[n])), data)


def _starts_character(byte: int) -> bool:
    """True if a byte is the first of a UTF-8 character."""
    return byte & 0xC0 != 0x80


class TestResolver:
    """Reads `test:` addresses out of the reports that receipts keep."""

    __test__ = False

    def __init__(self, find_receipt: FindReceipt, bodies: Bodies) -> None:
        self._find_receipt = find_receipt
        self._bodies = bodies
        self._reports: LruCache[str, JunitReport] = LruCache(50_000)

    def resolve(self, address: TestAddress) -> Content:
        """Return a test's outcome, message and failing lines."""
        receipt = self._find_receipt(address.receipt)
        if receipt is None:
            raise ReceiptNotFound(
                "There is no receipt of that id here.",
                used=address.receipt,
                hint="Record the test report with `receipt.junit` first; its answer has the pointers.",
            )
        shas = list(self._reports_of(receipt))
        invalid: TestReportInvalid | None = None
        for sha in shas:
            try:
                case = self._report(sha).find(address.node)
            except TestReportInvalid as problem:  # a report that was cut short hides no other
                invalid = problem
                continue
            if case is not None:
                return Content.of(_describe(address.node, case).encode())
        if invalid is not None:
            raise invalid
        raise TestNotFound(
            "The receipt's report contains no such test." if shas else "The receipt has no test report.",
            used=address.node,
        )

    def _reports_of(self, receipt: Receipt) -> Iterator[str]:
        """Yield the digests of the receipt's own reports and, if it is a tuple's, those of its steps."""
        for artifact in receipt.artifacts:
            if artifact.kind == JUNIT_KIND:
                yield artifact.sha
        for step_id in receipt.receipts:
            step = self._find_receipt(step_id)
            if step is not None and not step.receipts:
                yield from self._reports_of(step)

    def _report(self, sha: str) -> JunitReport:
        report = self._reports.get(sha)
        if report is None:
            report = read_junit(self._bodies.get(sha, MAX_REPORT_BYTES))
            self._reports.put(sha, report, weight=len(report.cases) + 1)
        else:
            self._bodies.touch(sha)  # refuses a report that was collected after it was remembered
        return report


def _describe(node: str, case: JunitCase) -> str:
    duration = f" in {case.seconds} s" if case.seconds else ""
    parts = [f"{node} {case.outcome}{duration}", case.message, case.detail]
    return "\n\n".join(part for part in parts if part) + "\n"
