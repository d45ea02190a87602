"""What the team remembers, reads from its stores, inherits and reviews, as people read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from engrambus.edges.cli.screen import dim, pairs, safe, safe_line, table, width, wrap

if TYPE_CHECKING:
    from engrambus.knowledge.cortex import Contribution, SharedContextSnapshot
    from engrambus.knowledge.memory import ContextPackage
    from engrambus.operations.cortex import EpisodeAnswer
    from engrambus.operations.review import ContributionsAnswer

STATUS_COLOURS = {"accepted": "green", "rejected": "red", "flagged": "yellow", "duplicate": "yellow"}
INDENT = 4


def episode(answer: EpisodeAnswer) -> Iterator[str]:
    """What was remembered, and under which name."""
    pinned = "  pinned" if answer.pinned else ""
    yield f"{click.style(safe(answer.memory_id), bold=True)}{pinned}"
    yield dim(f"pointer {safe(answer.ref)}   importance {answer.importance:g}")


def snapshot(snapshot: SharedContextSnapshot) -> Iterator[str]:
    """The items by precedence, and how much of them there is."""
    import msgspec

    columns = width()
    for item in snapshot.items:
        source = item.provenance.memory_id or item.provenance.atom_id or ""
        origin = item.provenance.origin.replace("_", " ")
        yield f"{origin:<14}  {dim(safe(source))}"
        for line in wrap(safe(item.content), columns - INDENT if columns else None):
            yield " " * INDENT + line
    size = len(msgspec.json.encode(snapshot))
    left = f", {snapshot.left_out} left out" if snapshot.left_out else ""
    if snapshot.redactions:
        kinds = ", ".join(sorted({each.kind for each in snapshot.redactions}))
        yield click.style(f"{len(snapshot.redactions)} redacted: {kinds}", fg="yellow")
    yield dim(f"{len(snapshot.items)} items, {size:,} of {snapshot.limits.max_chars:,} bytes{left}")
    yield dim(f"snapshot {snapshot.snapshot_id}")


def contribution(it: Contribution) -> Iterator[str]:
    """One contribution with what was found out about it."""
    status = click.style(it.status, fg=STATUS_COLOURS.get(it.status), bold=True)
    yield f"{status}  {safe(it.contribution_id)}"
    columns = width()
    for line in it.content.splitlines():
        for part in wrap(safe(line.expandtabs(INDENT)), columns - INDENT if columns else None):
            yield " " * INDENT + part
    rows = [
        ("from", it.from_session.rpartition("/")[2]),
        ("thread", it.thread_id),
        ("confidence", f"{it.confidence:g}"),
    ]
    if it.proposed_categories:
        rows.append(("categories", ", ".join(it.proposed_categories)))
    if it.conflict_check.status != "clean":
        against = ", ".join(it.conflict_check.against)
        rows.append((it.conflict_check.status.replace("_", " "), f"with {against}"))
    if it.dedupe.duplicate_of:
        rows.append(("duplicate of", it.dedupe.duplicate_of))
    if it.dedupe.similar_to:
        rows.append(("similar to", ", ".join(it.dedupe.similar_to)))
    if it.security.redacted:
        rows.append(("redacted", ", ".join(it.security.redaction_notes)))
    for item in it.evidence:
        rows.append((item.kind.replace("_", " "), item.pointer.ref if item.pointer else item.value))
    if it.memory_id:
        rows.append(("remembered as", it.memory_id))
    if it.reason:
        rows.append(("reason", it.reason))
    if it.decided_by:
        rows.append(("decided by", it.decided_by.rpartition("/")[2]))
    yield from pairs(rows)


def contribution_list(answer: ContributionsAnswer) -> Iterator[str]:
    """The queue, a line each."""
    if not answer.contributions:
        yield "No contributions to show."
        return
    rows = [
        (
            it.contribution_id,
            it.status + ("" if it.conflict_check.status == "clean" else f" ({it.conflict_check.status})"),
            it.from_session.rpartition("/")[2],
            it.thread_id,
            " ".join(it.content.split())[:60],
        )
        for it in answer.contributions
    ]
    yield from table(("id", "status", "from", "thread", "content"), rows)
    if answer.cursor:
        yield dim(f"More: --cursor {answer.cursor}")


def memory_excerpts(package: ContextPackage) -> Iterator[str]:
    """The excerpts with their scores, and what became of the rest."""
    import msgspec

    for item in package.selection.selected:
        source = dim(f"{safe(item.memory_id)}  {safe(item.store_path)}  {item.excerpt_tokens} tokens")
        yield f"{click.style(f'{item.score:.2f}', bold=True)}  {source}"
        for line in item.excerpt.splitlines():
            yield f"    {safe_line(line)}"
    dropped = package.selection.dropped_counts
    if dropped is msgspec.UNSET:
        dropped = {}
        for each in package.selection.dropped or ():
            dropped[each.reason] = dropped.get(each.reason, 0) + 1
    rest = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in sorted(dropped.items()))
    budget = package.budget
    spent = f"{budget.used_excerpt_tokens:,} of {budget.max_excerpt_tokens:,} tokens"
    yield dim(f"{len(package.selection.selected)} selected, {spent}" + (f"; dropped: {rest}" if rest else ""))
    yield dim(f"package {package.package_hash}")
