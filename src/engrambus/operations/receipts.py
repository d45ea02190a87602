"""Operations on receipts: show one, verify what it names, record a test report as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from engrambus.core import print_time
from engrambus.errors import ReceiptNotFound
from engrambus.evidence.pointers import TestAddress, print_address
from engrambus.gateway.context import Context, check_run_goes_on
from engrambus.gateway.declare import Command, Resource, Route, Tool, operation
from engrambus.operations.short_ids import meant
from engrambus.operations.work import AT_THE_MACHINE, stamped
from engrambus.policy import ADMIN

if TYPE_CHECKING:
    from engrambus.evidence.receipts import Receipt

MAX_REPORT_BYTES = 32 << 20
MAX_FAILED_CASES = 20
RECORD_TESTS = "op.test.record"
"""The yool that a recorded test report is a receipt of."""


class ReceiptGet(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=80, description="The receipt's id, or how it begins")]
    intoto: Annotated[bool, Meta(description="As an in-toto statement")] = False


class ReceiptAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    receipt: dict[str, Any] | None = None
    statement: dict[str, Any] | None = None
    """The receipt as an in-toto Statement v1, when asked for."""
    gone: dict[str, str] = {}
    """Bodies the receipt names that were taken away to make room, and when."""


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
    tool=Tool(hidden=("intoto",)),
    resource=Resource("engrambus://receipt/{id}", "What one execution did", "application/json", ttl_ms=3_600_000),
)
def receipt_get(context: Context, request: ReceiptGet) -> ReceiptAnswer:
    """Show a receipt: the record of one executed step."""
    from engrambus.evidence.receipts import in_toto_statement

    receipt = _receipt(context, request.id)
    if request.intoto:
        return ReceiptAnswer(statement=in_toto_statement(receipt))
    gone = _gone(context, [sha for _, sha in _named(receipt)])
    return ReceiptAnswer(receipt=msgspec.to_builtins(receipt), gone=gone)


def _receipt(context: Context, given: str) -> Receipt:
    with context.tuple_space.space.store.read() as view:

        def see(receipt_id: str) -> Receipt | None:
            receipt = view.receipt(receipt_id)
            if receipt is None:
                return None
            one = view.find(receipt.tuple_id)
            ours = context.caller.role == ADMIN or (one is not None and one.run == context.caller.run.run_id)
            # What the cache gives to every run, every run may read; whoever knows its whole id was given it.
            return receipt if ours or (receipt.key is not None and receipt_id == given) else None

        receipt = meant(given, view.receipt_ids_starting, see)
    if receipt is None:
        raise ReceiptNotFound(field="id", used=given)
    return receipt


def _named(receipt: Receipt) -> list[tuple[str, str]]:
    """What a receipt calls the bodies it names, and their digests."""
    printed = [("stdout", receipt.stdout_sha), ("stderr", receipt.stderr_sha)]
    return printed + [(artifact.path, artifact.sha) for artifact in receipt.artifacts]


def _gone(context: Context, named: list[str]) -> dict[str, str]:
    """Of some bodies, those that are not here because they were taken away to make room, and when."""
    from engrambus.evidence.receipts import EMPTY_DIGEST

    absent = [sha for sha in named if sha != EMPTY_DIGEST and not context.tuple_space.bodies.exists(sha)]
    if not absent:
        return {}
    # It is written down before a body goes: what was seen to be absent is known by now.
    with context.tuple_space.space.store.read() as view:
        found = {sha: view.purged_at_us(sha) for sha in absent}
    return {sha: print_time(at) for sha, at in found.items() if at is not None}


class ReceiptId(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=80, description="The receipt's id, or how it begins")]


class BodyState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    sha: str
    name: str
    whole: bool
    gone_at: str | None = None
    """When it was taken away to make room, if it was and is not here again."""


class ReceiptVerified(Struct, frozen=True, kw_only=True):
    id: str
    sound: bool
    """Whether it has the id its content gives, and everything it names is there and whole, or was taken away."""
    id_matches: bool
    bodies: list[BodyState]


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
    absent_from=AT_THE_MACHINE,
)
def receipt_verify(context: Context, request: ReceiptId) -> ReceiptVerified:
    """Check a receipt: recompute its id and the digest of everything it names."""
    from engrambus.evidence.receipts import receipt_id

    receipt = _receipt(context, request.id)
    named = _named(receipt)
    whole = {sha: context.tuple_space.bodies.is_intact(sha) for _, sha in named}
    gone = _gone(context, [sha for sha, is_whole in whole.items() if not is_whole])
    bodies = [BodyState(sha=sha, name=name, whole=whole[sha], gone_at=gone.get(sha)) for name, sha in named]
    matches = receipt_id(receipt) == receipt.id
    sound = matches and all(body.whole or body.gone_at is not None for body in bodies)
    return ReceiptVerified(id=receipt.id, sound=sound, id_matches=matches, bodies=bodies)


class RecordTests(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    report: Annotated[str, Meta(max_length=MAX_REPORT_BYTES, description="A test report in JUnit's XML")]
    name: Annotated[str, Meta(min_length=1, max_length=200, description="The report's file name")] = "junit.xml"


class FailedCase(Struct, frozen=True, kw_only=True):
    ref: str
    """The pointer to it."""
    outcome: str
    message: str


class TestsRecorded(Struct, frozen=True, kw_only=True):
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
)
def record_tests(context: Context, request: RecordTests) -> TestsRecorded:
    """Record a JUnit test report as a receipt, so that test: pointers can refer to it."""
    from engrambus.evidence.receipts import JUNIT_KIND, Artifact, new_receipt, read_junit

    data = request.report.encode()
    report = read_junit(data)
    space = context.tuple_space.space
    with context.store.read() as view:
        check_run_goes_on(view, context.caller)
    space.check_disk_space(context.caller.run.run_id)  # a full disk is refused before the report is stored
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
            for case in failures[:MAX_FAILED_CASES]
        ],
    )
