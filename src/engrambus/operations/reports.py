"""Test reports: recorded as receipts, so that pointers can lead to a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from engrambus.core import print_time
from engrambus.evidence.pointers import TestAddress, print_address
from engrambus.gateway.context import Context, check_run_goes_on
from engrambus.gateway.declare import Command, operation
from engrambus.operations.work import stamped

if TYPE_CHECKING:
    from engrambus.evidence.receipts import Receipt

_AT_THE_MACHINE = {"http": "receipts are not written over the wire", "mcp": "receipts are not written over the wire"}
MAX_TEXT = 32 << 20
MAX_FAILED = 20
RECORDED = "op.test.record"


class RecordTests(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    report: Annotated[str, Meta(max_length=MAX_TEXT, description="A test report in JUnit's XML")]
    name: Annotated[str, Meta(min_length=1, max_length=200, description="What the report is called")] = "junit.xml"


class FailedCase(Struct, frozen=True, kw_only=True):
    ref: str
    """The pointer to it."""
    outcome: str
    message: str


class TestsRecorded(Struct, frozen=True, kw_only=True):
    __test__ = False

    receipt_id: str
    """What pointers name: `test:<node id>@<receipt id>`."""
    tuple_id: str
    passed: int
    failed: int
    errors: int
    skipped: int
    first_failed: list[FailedCase]
    """Tests that failed, the first twenty."""


@operation(
    "receipt.junit",
    writes=True,
    command=Command(
        "receipt junit",
        section="work",
        example="engrambus receipt junit report.xml",
        renderer="evidence:test_report",
        rank=54,
        arguments=("report",),
        override="work:receipt_junit",
    ),
    absent_from=_AT_THE_MACHINE,
)
def record_tests(context: Context, request: RecordTests) -> TestsRecorded:
    """Record a JUnit test report as a receipt, so that test: pointers can refer to it."""
    from engrambus.evidence.receipts import JUNIT, Artifact, read_report, seal

    data = request.report.encode()
    report = read_report(data)
    with context.store.read() as view:
        check_run_goes_on(view, context.caller)
    context.tuple_space.space.check_room(context.caller.run.run_id)  # before the report is kept
    kept = Artifact(kind=JUNIT, path=request.name, sha=context.tuple_space.bodies.put(data), size=len(data))
    bad = [case for case in report.cases if case.outcome in ("failed", "error")]

    def made(tuple_id: str, at: int) -> Receipt:
        moment = print_time(at)
        return seal(
            yool=f"{RECORDED}.v1",
            tuple_id=tuple_id,
            started_at=moment,
            ended_at=moment,
            exit=1 if bad else 0,
            artifacts=(kept,),
            step=0,
            error=f"{len(bad)} of {len(report.cases)} tests failed" if bad else None,
        )

    tuple_id, receipt = context.tuple_space.space.record(
        {"lane": "tests", "payload": [{"yool": RECORDED, "args": {"report": kept.sha}}]},
        made,
        authority=stamped(context.caller, ci=context.tuple_space.ci),
        run=context.caller.run.run_id,
    )
    return TestsRecorded(
        receipt_id=receipt.id,
        tuple_id=tuple_id,
        passed=report.count("passed"),
        failed=report.count("failed"),
        errors=report.count("error"),
        skipped=report.count("skipped"),
        first_failed=[
            FailedCase(
                ref=print_address(TestAddress(node=case.node, receipt=receipt.id)),
                outcome=case.outcome,
                message=case.message.partition("\n")[0][:200],
            )
            for case in bad[:MAX_FAILED]
        ],
    )
