"""Lines for people: the team's memory, what agents inherit from it and contribute to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from engrambus.core import short_id
from engrambus.edges.cli.screen import counted, dim, pairs, safe, safe_id, safe_line, table, width, wrap

if TYPE_CHECKING:
    from engrambus.knowledge.cortex import Contribution, SharedContextSnapshot
    from engrambus.knowledge.memory import ContextPackage
    from engrambus.operations.contradictions import ContradictionRow, ContradictionsAnswer
    from engrambus.operations.cortex import EpisodeAnswer
    from engrambus.operations.review import ContributionsAnswer

STATUS_COLOURS = {"accepted": "green", "rejected": "red", "flagged": "yellow", "duplicate": "yellow"}
INDENT = 4
MAX_QUOTED_CHARS = 80


def episode(answer: EpisodeAnswer) -> Iterator[str]:
    """Show the name of a memory."""
    pinned = "  pinned" if answer.pinned else ""
    yield f"{click.style(safe(answer.memory_id), bold=True)}{pinned}"
    yield dim(f"pointer {safe(answer.ref)}   importance {answer.importance:g}")


def snapshot(answer: SharedContextSnapshot) -> Iterator[str]:
    """Show the inherited items by precedence, and their size."""
    import msgspec

    columns = width()
    for item in answer.items:
        source = item.provenance.memory_id or item.provenance.atom_id or ""
        origin = item.provenance.origin.replace("_", " ")
        yield f"{origin:<14}  {dim(safe_id(source))}"
        for line in wrap(safe(item.content), columns - INDENT if columns else None):
            yield " " * INDENT + line
    size = len(msgspec.json.encode(answer))
    omitted = f", {answer.left_out} left out" if answer.left_out else ""
    if answer.missing:
        yield click.style(f"no longer there: {safe(', '.join(answer.missing))}", fg="yellow")
    if answer.redactions:
        kinds = ", ".join(sorted({redaction.kind for redaction in answer.redactions}))
        yield click.style(f"{len(answer.redactions)} redacted: {kinds}", fg="yellow")
    yield dim(f"{counted(len(answer.items), 'item')}, {size:,} of {answer.limits.max_chars:,} bytes{omitted}")
    yield dim(f"snapshot {short_id(answer.snapshot_id)}")


def contribution(answer: Contribution) -> Iterator[str]:
    """Show one contribution, with the results of its checks."""
    status = click.style(answer.status, fg=STATUS_COLOURS.get(answer.status), bold=True)
    yield f"{status}  {safe_id(answer.contribution_id)}"
    columns = width()
    for line in answer.content.splitlines():
        for part in wrap(safe(line.expandtabs(INDENT)), columns - INDENT if columns else None):
            yield " " * INDENT + part
    rows = [
        ("from", answer.from_session.rpartition("/")[2]),
        ("thread", answer.thread_id),
        ("confidence", f"{answer.confidence:g}"),
    ]
    if answer.untrusted is not None:
        rows.append(("untrusted", f"from {answer.untrusted.origin}, by {answer.untrusted.by}"))
    if answer.proposed_categories:
        rows.append(("categories", ", ".join(answer.proposed_categories)))
    if answer.conflict_check.status != "clean":
        against = ", ".join(map(short_id, answer.conflict_check.against))
        rows.append((answer.conflict_check.status.replace("_", " "), f"with {against}"))
    for near in answer.nearest:
        verdict = "" if near.verdict == "clean" else f" ({near.verdict.replace('_', ' ')})"
        rows.append(("nearest pin", f"{short_id(near.id)}{verdict}: {_first_words(near.claim)}"))
    if answer.dedupe.duplicate_of:
        rows.append(("duplicate of", short_id(answer.dedupe.duplicate_of)))
    if answer.dedupe.similar_to:
        rows.append(("similar to", ", ".join(map(short_id, answer.dedupe.similar_to))))
    if answer.security.redacted:
        rows.append(("redacted", ", ".join(answer.security.redaction_notes)))
    for item in answer.evidence:
        rows.append((item.kind.replace("_", " "), item.pointer.ref if item.pointer else item.value))
    rows += [("based on", name) for name in answer.inputs_used]
    rows += [("used", short_id(engram_id)) for engram_id in answer.used]
    if answer.memory_id:
        rows.append(("remembered as", answer.memory_id))
    rows += [("engram", short_id(engram_id)) for engram_id in answer.atoms]
    if answer.reason:
        rows.append(("reason", answer.reason))
    if answer.decided_by:
        rows.append(("decided by", answer.decided_by.rpartition("/")[2]))
    rows += [("decided with", short_id(engram_id)) for engram_id in answer.review_used]
    yield from pairs(rows)


def _first_words(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= MAX_QUOTED_CHARS else plain[: MAX_QUOTED_CHARS - 1] + "…"


def contradiction_list(answer: ContradictionsAnswer) -> Iterator[str]:
    """Show pairs of claims, newest first."""
    for row in answer.contradictions:
        yield from contradiction(row)
    if not answer.contradictions:
        yield "No contradiction waits for a decision."
    if answer.cursor:
        yield dim(f"More: --cursor {answer.cursor}")


def contradiction(row: ContradictionRow) -> Iterator[str]:
    """Show two claims, and what was decided about them."""
    colour = {"waiting": "yellow", "decided": "green", "ended": None}[row.status]
    kept = f": {row.keep}" if row.keep is not None else ""
    yield f"{click.style(row.status, fg=colour, bold=True)}{kept}  {safe_id(row.contradiction_id)}"
    for side, claim in (("new", row.newer), ("old", row.older)):
        pinned = " pinned" if claim.pinned else ""
        yield f"  {side}  {safe_line(claim.claim) or 'forgotten'}"
        yield "       " + dim(f"{safe(claim.kind)}{pinned} {safe_id(claim.id)}")
    if row.decided_by is not None:
        yield "  " + dim(f"by {safe(row.decided_by)}: {safe_line(row.reason or '')}")


def contribution_list(answer: ContributionsAnswer) -> Iterator[str]:
    """Show contributions as a table."""
    if not answer.contributions:
        yield "No contributions to show."
        return
    rows = [
        (
            short_id(row.contribution_id),
            row.status
            + ("" if row.conflict_check.status == "clean" else f" ({row.conflict_check.status})")
            + (", untrusted" if row.untrusted is not None else ""),
            row.from_session.rpartition("/")[2],
            row.thread_id,
            " ".join(row.content.split())[:60],
        )
        for row in answer.contributions
    ]
    yield from table(("id", "status", "from", "thread", "content"), rows)
    for row in answer.contributions:
        for near in row.nearest:
            claim = safe_line(_first_words(near.claim))
            yield dim(f"{safe_id(row.contribution_id)} is near the pin {safe_id(near.id)}: {claim}")
    if answer.cursor:
        yield dim(f"More: --cursor {answer.cursor}")


def memory_excerpts(package: ContextPackage) -> Iterator[str]:
    """Show the excerpts with their scores, and how many records were left out."""
    import msgspec

    for item in package.selection.selected:
        source = dim(f"{safe(item.memory_id)}  {safe(item.store_path)}  {item.excerpt_tokens} tokens")
        yield f"{click.style(f'{item.score:.2f}', bold=True)}  {source}"
        for line in item.excerpt.splitlines():
            yield f"    {safe_line(line)}"
    dropped = package.selection.dropped_counts
    if dropped is msgspec.UNSET:
        dropped = {}
        for record in package.selection.dropped or ():
            dropped[record.reason] = dropped.get(record.reason, 0) + 1
    reasons = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in sorted(dropped.items()))
    if not package.selection.selected and not reasons:
        yield "Nothing is in there yet."
    budget = package.budget
    spent = f"{budget.used_excerpt_tokens:,} of {budget.max_excerpt_tokens:,} tokens"
    yield dim(f"{len(package.selection.selected)} selected, {spent}" + (f"; dropped: {reasons}" if reasons else ""))
    yield dim(f"package {package.package_hash}")
