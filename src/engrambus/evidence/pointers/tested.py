"""Cases of test receipts: what became of a test, what it said, and the lines that failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from engrambus.core import Memo
from engrambus.errors import ReceiptNotFound, TestNotFound
from engrambus.evidence.pointers.addresses import TestAddress
from engrambus.evidence.pointers.artifact import Bodies
from engrambus.evidence.pointers.resolve import Content
from engrambus.evidence.receipts import JUNIT, MAX_REPORT, Case, Receipt, Report, read_report

Receipts = Callable[[str], Receipt | None]
"""Finds a receipt by its id."""


class TestResolver:
    """Reads `test:` addresses out of the reports that receipts keep."""

    __test__ = False

    def __init__(self, receipts: Receipts, bodies: Bodies) -> None:
        self._receipts = receipts
        self._bodies = bodies
        self._reports: Memo[str, Report] = Memo(50_000)

    def resolve(self, address: TestAddress) -> Content:
        """What became of the test, in a few lines."""
        receipt = self._receipts(address.receipt)
        if receipt is None:
            raise ReceiptNotFound("There is no receipt of that id here.", used=address.receipt)
        reports = list(self._reports_of(receipt))
        for report in reports:
            case = report.find(address.node)
            if case is not None:
                return Content.of(_told(address.node, case).encode())
        raise TestNotFound(
            "The receipt's report tells of no such test." if reports else "The receipt keeps no test report.",
            used=address.node,
        )

    def _reports_of(self, receipt: Receipt) -> Iterator[Report]:
        """Its own reports, and, for a whole tuple, those of its steps."""
        for artifact in receipt.artifacts:
            if artifact.kind == JUNIT:
                yield self._report(artifact.sha)
        for each in receipt.receipts:
            step = self._receipts(each)
            if step is not None and not step.receipts:
                yield from self._reports_of(step)

    def _report(self, sha: str) -> Report:
        known = self._reports.get(sha)
        if known is None:
            known = read_report(self._bodies.get(sha, MAX_REPORT))
            self._reports.put(sha, known, weight=len(known.cases) + 1)
        else:
            self._bodies.touch(sha)
        return known


def _told(node: str, case: Case) -> str:
    took = f" in {case.seconds} s" if case.seconds else ""
    parts = [f"{node} {case.outcome}{took}", case.message, case.detail]
    return "\n\n".join(part for part in parts if part) + "\n"
