"""Operations on receipts: show one, verify what it names, record a test report as one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from engrambus.core import print_time
from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import TestAddress, print_address
from engrambus.gateway.context import Context, check_run_goes_on
from engrambus.gateway.declare import Command, Resource, Route, Tool, operation
from engrambus.operations.tuples import LOCAL_ONLY
from engrambus.space.tuples import stamp_authority, visible_receipt

if TYPE_CHECKING:
    from engrambus.evidence.receipts import JunitReport, Receipt, RestoredFile

MAX_REPORT_BYTES = 32 << 20
MAX_FAILED_CASES = 20
MAX_SUMMARIES, MAX_SUMMARISED_BYTES = 8, 8 << 20
"""Number and size of the test reports that are summarised when a receipt is shown."""
RECORD_TESTS = "op.test.record"
"""The yool that a recorded test report is a receipt of."""


class ReceiptGet(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=80, description="The receipt's id, or its first digits")]
    intoto: Annotated[bool, Meta(description="Return an in-toto statement instead")] = False


class FailedCase(Struct, frozen=True, kw_only=True):
    ref: str
    """The pointer to it."""
    outcome: str
    message: str


class ReportSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    path: str
    """The artifact."""
    tests: int = 0
    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    first_failed: list[FailedCase] = []
    """The first twenty tests that failed."""
    problem: str | None = None
    """Why it could not be read, if so."""


class ReceiptAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    receipt: dict[str, Any] | None = None
    statement: dict[str, Any] | None = None
    """The receipt as an in-toto Statement v1, if `intoto` was set."""
    gone: dict[str, str] = {}
    """Bodies of the receipt that were deleted to free disk space, with the time."""
    reports: list[ReportSummary] = []
    """What the test reports among its artifacts say."""
    file: str | None = None
    """What was wrong with the file of the receipt, a copy; left out if it is as the journal has it."""


@operation(
    "receipt.get",
    route=Route("GET", "/receipt/{id}", conditional=True),
    command=Command(
        "receipt get",
        section="work",
        example="engrambus receipt get sha256:61a6ffdddafeee3fc081cfbe189306b35a39fc01b3438d0917016f00ec9f16b9",
        renderer="work:receipt",
        rank=50,
        arguments=("id",),
    ),
    tool=Tool(about="Show the record of an executed step.", hidden=("intoto",), needs_yools=True),
    resource=Resource("engrambus://receipt/{id}", "What one execution did", "application/json", ttl_ms=3_600_000),
    is_hashed=True,
)
def receipt_get(context: Context, request: ReceiptGet) -> ReceiptAnswer:
    """Show a receipt: the record of one executed step."""
    from engrambus.evidence.receipts import in_toto_statement

    receipt = _visible_receipt(context, request.id)
    if request.intoto:
        return ReceiptAnswer(statement=in_toto_statement(receipt))
    restored = _restore_file(context, receipt)
    return ReceiptAnswer(
        receipt=msgspec.to_builtins(receipt),
        gone=_purged(context, [sha for _, sha in _bodies(receipt)]),
        reports=list(_summaries(context, receipt)),
        file=None if restored is None else restored.problem,
    )


def _restore_file(context: Context, receipt: Receipt) -> RestoredFile | None:
    """Write the file of a receipt again if it was edited or deleted; return what was wrong with it."""
    with context.tuple_space.space.store.read() as view:
        return context.project_files.receipts.restore(
            receipt, lambda after, limit: view.list_receipts(None, limit=limit, after=after)
        )


def _summaries(context: Context, receipt: Receipt) -> Iterator[ReportSummary]:
    """Yield what the first test reports among the artifacts of a receipt say."""
    from engrambus.evidence.receipts import JUNIT_KIND, read_junit

    reports = [artifact for artifact in receipt.artifacts if artifact.kind == JUNIT_KIND]
    for artifact in reports[:MAX_SUMMARIES]:
        try:
            report = read_junit(context.tuple_space.bodies.get(artifact.sha, MAX_SUMMARISED_BYTES, renew=False))
        except EngramBusError as problem:
            yield ReportSummary(path=artifact.path, problem=problem.detail)
            continue
        yield ReportSummary(
            path=artifact.path,
            tests=len(report.cases),
            passed=report.count("passed"),
            failed=report.count("failed"),
            errors=report.count("error"),
            skipped=report.count("skipped"),
            first_failed=_first_failed(report, receipt.id),
        )


def _first_failed(report: JunitReport, receipt_id: str) -> list[FailedCase]:
    failures = (case for case in report.cases if case.outcome in ("failed", "error"))
    return [
        FailedCase(
            ref=print_address(TestAddress(node=case.node, receipt=receipt_id)),
            outcome=case.outcome,
            message=case.message.partition("\n")[0][:200],
        )
        for case in islice(failures, MAX_FAILED_CASES)
    ]


def _visible_receipt(context: Context, id_or_prefix: str) -> Receipt:
    with context.tuple_space.space.store.read() as view:
        return visible_receipt(view, context.caller, id_or_prefix)


def _bodies(receipt: Receipt) -> list[tuple[str, str]]:
    """Return name and digest of each body a receipt names."""
    printed = [("stdout", receipt.stdout_sha), ("stderr", receipt.stderr_sha)]
    return printed + [(artifact.path, artifact.sha) for artifact in receipt.artifacts]


def _purged(context: Context, digests: list[str]) -> dict[str, str]:
    """Return the digests of bodies that were deleted to free disk space, with the time."""
    from engrambus.evidence.receipts import EMPTY_DIGEST

    absent = [sha for sha in digests if sha != EMPTY_DIGEST and not context.tuple_space.bodies.exists(sha)]
    if not absent:
        return {}
    # A deletion is journalled before the body is deleted, so the journal already knows of every absent body.
    with context.tuple_space.space.store.read() as view:
        purged = {sha: view.purged_at_us(sha) for sha in absent}
    return {sha: print_time(purged_us) for sha, purged_us in purged.items() if purged_us is not None}


class ReceiptId(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=80, description="The receipt's id, or its first digits")]


class BodyState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    sha: str
    name: str
    intact: bool = msgspec.field(name="whole")
    """True if it is stored and has that digest."""
    gone_at: str | None = None
    """When it was deleted to free disk space, if it was and is not stored again."""


class ReceiptCheck(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    sound: bool
    """True if its id matches its content, every body is intact or was deleted to free disk space, and its file is right
    or was written again."""
    id_matches: bool
    bodies: list[BodyState]
    file: str | None = None
    """What was wrong with the file of the receipt, a copy; left out if it is as the journal has it."""


@operation(
    "receipt.verify",
    command=Command(
        "receipt verify",
        section="work",
        example="engrambus receipt verify sha256:61a6ffdddafeee3fc081cfbe189306b35a39fc01b3438d0917016f00ec9f16b9",
        renderer="work:receipt_check",
        rank=52,
        arguments=("id",),
        override="work:receipt_verify",
    ),
    absent_from=LOCAL_ONLY,
)
def receipt_verify(context: Context, request: ReceiptId) -> ReceiptCheck:
    """Check a receipt: recompute its id and the digest of everything it names."""
    from engrambus.evidence.receipts import receipt_id

    receipt = _visible_receipt(context, request.id)
    named = _bodies(receipt)
    intact = {sha: context.tuple_space.bodies.is_intact(sha) for _, sha in named}
    gone = _purged(context, [sha for sha, is_intact in intact.items() if not is_intact])
    bodies = [BodyState(sha=sha, name=name, intact=intact[sha], gone_at=gone.get(sha)) for name, sha in named]
    matches = receipt_id(receipt) == receipt.id
    restored = _restore_file(context, receipt)
    is_file_right = restored is None or restored.is_written
    return ReceiptCheck(
        id=receipt.id,
        sound=matches and is_file_right and all(body.intact or body.gone_at is not None for body in bodies),
        id_matches=matches,
        bodies=bodies,
        file=None if restored is None else restored.problem,
    )


class RecordTests(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    report: Annotated[str, Meta(max_length=MAX_REPORT_BYTES, description="A test report in JUnit's XML")]
    name: Annotated[str, Meta(min_length=1, max_length=200, description="The report's file name")] = "junit.xml"


class TestReportAnswer(Struct, frozen=True, kw_only=True):
    __test__ = False

    receipt_id: str
    """The receipt that pointers name: `test:<node id>@<receipt id>`."""
    tuple_id: str
    passed: int
    failed: int
    errors: int
    skipped: int
    first_failed: list[FailedCase]
    """The first twenty tests that failed."""


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
    absent_from={"http": "receipts are not written over the wire", "mcp": "receipts are not written over the wire"},
    prose=("name",),
    raw_fields=("report",),
)
def record_tests(context: Context, request: RecordTests) -> TestReportAnswer:
    """Record a JUnit test report as a receipt, so that test: pointers can refer to it."""
    from engrambus.evidence.receipts import JUNIT_KIND, Artifact, new_receipt, read_junit

    data = request.report.encode()
    report = read_junit(data)
    space = context.tuple_space.space
    with context.store.read() as view:
        check_run_goes_on(view, context.caller)
    space.check_disk_space()  # a full disk is refused before the report is stored
    stored = Artifact(kind=JUNIT_KIND, path=request.name, sha=context.tuple_space.bodies.put(data), size=len(data))
    failures = [case for case in report.cases if case.outcome in ("failed", "error")]

    def seal_receipt(tuple_id: str, now_us: int) -> Receipt:
        now = print_time(now_us)
        return new_receipt(
            yool=f"{RECORD_TESTS}.v1",
            tuple_id=tuple_id,
            started_at=now,
            ended_at=now,
            exit=1 if failures else 0,
            artifacts=(stored,),
            step=0,
            error=f"{len(failures)} of {len(report.cases)} tests failed" if failures else None,
        )

    tuple_id, receipt = space.record_finished(
        {"lane": "tests", "payload": [{"yool": RECORD_TESTS, "args": {"report": stored.sha}}]},
        seal_receipt,
        authority=stamp_authority(context.caller, ci=context.tuple_space.ci),
        run=context.caller.run.run_id,
    )
    return TestReportAnswer(
        receipt_id=receipt.id,
        tuple_id=tuple_id,
        passed=report.count("passed"),
        failed=report.count("failed"),
        errors=report.count("error"),
        skipped=report.count("skipped"),
        first_failed=_first_failed(report, receipt.id),
    )
