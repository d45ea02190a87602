"""Lines for people: the report of the merge gate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from engrambus.core import age, short_id
from engrambus.edges.cli.screen import counted, dim, kind, safe, width, wrap

if TYPE_CHECKING:
    from engrambus.knowledge.gate import GateFinding, GateOverride
    from engrambus.operations.gate import GateAnswer, GateOverrides

INDENT = "  "
SHORT_COMMIT = 12
_FAILED = {"open-risk": "open risk", "stale-decision": "stale claim"}


def gate_report(answer: GateAnswer) -> Iterator[str]:
    """Show what speaks against a branch, and what to do about it."""
    for finding in answer.findings:
        yield from _finding(finding, answer)
        yield ""
    branch = f"{answer.merge_base[:SHORT_COMMIT]}..{answer.head[:SHORT_COMMIT]}"
    about = f"{branch} changes {counted(answer.files, 'file')}; {counted(answer.checked, 'claim')} compared"
    overridden = f", {answer.overridden} overridden" if answer.overridden else ""
    if answer.passed:
        yield click.style("passed", fg="green", bold=True) + f": nothing open{overridden}. {about}."
        return
    yield click.style("failed", fg="red", bold=True) + f": {answer.open} open{overridden}. {about}."
    if answer.open + answer.overridden > len(answer.findings):
        yield dim(f"Only the first {len(answer.findings)} are listed.")
    yield dim("Let one pass, with a reason that is recorded: engrambus gate --base … --override ID --reason …")


def _finding(finding: GateFinding, answer: GateAnswer) -> Iterator[str]:
    lines = f"{finding.first}-{finding.last}" if finding.last != finding.first else str(finding.first)
    place = f"{finding.path} (deleted)" if finding.deleted else f"{finding.path}:{lines}"
    label = click.style(_FAILED[finding.rule], fg="green" if finding.override is not None else "red", bold=True)
    yield f"{label}  {safe(place)}"
    columns = width()
    for line in wrap(safe(finding.claim), columns - len(INDENT) if columns else None):
        yield INDENT + line
    author = finding.by.rpartition("/")[2]
    parts = [finding.kind, author, age(finding.created_at, answer.as_of), short_id(finding.engram)]
    yield INDENT + dim("  ".join(map(safe, parts)))
    if finding.override is not None:
        yield INDENT + f"overridden by {safe(finding.override.identity)}: {safe(finding.override.reason)}"
    elif finding.rule == "open-risk":
        yield (
            INDENT
            + f"Settled? engrambus forget {short_id(finding.engram)}, or put … --replaces {short_id(finding.engram)}."
        )
    else:
        lines_now = safe(finding.evidence.now) if finding.evidence and finding.evidence.now else "PATH:LINES"
        yield (
            INDENT + f"Still true? Read its lines, then engrambus confirm {short_id(finding.engram)} --at {lines_now}."
        )


def override_list(answer: GateOverrides) -> Iterator[str]:
    """Show what was let pass, the newest first."""
    for override in answer.overrides:
        yield from _override(override, answer.as_of)
    if not answer.overrides:
        yield "Nothing was overridden."


def _override(override: GateOverride, as_of: str) -> Iterator[str]:
    yield f"{kind(override.rule)}  {safe(override.reason)}"
    parts = [override.identity, age(override.at, as_of), override.head[:SHORT_COMMIT], short_id(override.engram)]
    yield INDENT + dim("  ".join(map(safe, parts)))
