"""The command `check`: compares the evidence of every engram with the files on disk, or with a revision."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from engrambus.edges.cli.command import Values, override
from engrambus.edges.cli.session import Session

if TYPE_CHECKING:
    from engrambus.gateway import Operation
    from engrambus.operations.evidence_check import EvidenceReport


class _FormerArgument(click.Argument):
    """The message that `check` took before `message --dry-run`; it is taken to say so, and help does not show it."""

    def get_help_record(self, ctx: click.Context) -> None:  # type: ignore[override]
        return None


@override(
    _FormerArgument(["file"], required=False, metavar=""),
    click.Option(["--against"], metavar="REV", help="Compare with this revision instead of the files on disk."),
    click.Option(["--kind"], help="Only engrams of this kind."),
    click.Option(["--path"], help="Only what points at this file, into this folder or at what this pattern matches."),
    click.Option(["--all", "all"], is_flag=True, help="List all engrams, also those whose lines are the same."),
    with_fields=False,
)
def check(session: Session, operation: Operation[Any, Any], values: Values) -> None:
    """Compare all engrams, page by page, and print one report."""
    if "file" in values:
        raise click.UsageError(
            "`check` compares evidence with the files and takes no argument. To check a message: "
            f"engrambus message {values['file']} --dry-run"
        )
    if "against" in values:
        values["against"] = _commit(session, values["against"])
    session.print_answer(operation, _all_pages(session, operation, values))


def _commit(session: Session, revision: str) -> str:
    """Return the full commit id of a revision, as git understands it where the command was started."""
    from engrambus.core import is_hex
    from engrambus.errors import EngramBusError, NoRepository
    from engrambus.evidence.pointers import GitRepository

    if is_hex(revision, 40, 64):
        return revision
    if session.worktree is None:
        raise NoRepository
    try:
        return GitRepository(session.worktree).expand(revision, session.worktree)
    except EngramBusError as refusal:
        refusal.field = "against"
        raise


def _all_pages(session: Session, operation: Operation[Any, Any], values: Values) -> EvidenceReport:
    import msgspec

    from engrambus.edges.cli.progress import StatusLine
    from engrambus.gateway import to_request
    from engrambus.operations.evidence_check import worst_first

    status = StatusLine()
    request = to_request(values, operation.request)  # first: a wrong value should not cost the opening of a project
    with session.bus() as bus:
        try:
            answer = bus.call(operation, request)
            counts = Counter(answer.counts)
            engrams, about, last = [*answer.engrams], {**answer.about}, answer
            while last.cursor is not None:
                status.update(f"{counts.total():,} engrams compared")
                last = bus.call(operation, msgspec.structs.replace(request, cursor=last.cursor))
                counts.update(last.counts)
                engrams += last.engrams
                about |= last.about
        finally:
            status.close()
    report: EvidenceReport = msgspec.structs.replace(
        answer, engrams=worst_first(engrams, about), about=about, counts=dict(counts), cursor=None
    )
    return report
