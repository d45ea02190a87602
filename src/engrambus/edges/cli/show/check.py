"""Lines for people: what became of the evidence of all engrams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from engrambus.core import age, short_id
from engrambus.edges.cli.screen import counted, dim, kind, safe, safe_line
from engrambus.edges.cli.show.knowledge import KIND_COLUMN, untrusted
from engrambus.evidence.pointers import describe_state, short_ref

if TYPE_CHECKING:
    from engrambus.operations.evidence_check import EvidenceReport

_COLOURS = {"gone": "red", "changed": "red", "unresolved": "yellow", "moved": "cyan"}
_STILL_TRUE = "If one still holds:  engrambus confirm ID --at PATH:10-20"
_NO_LONGER = "If it does not:      engrambus put CLAIM --at PATH:10-20 --replaces ID, or engrambus forget ID"
_MOVED = "Lines that moved:    engrambus confirm ID follows them"


def check_report(answer: EvidenceReport) -> Iterator[str]:
    """Show each engram with what became of its lines, then how many there are of each state, and what to do."""
    from engrambus.operations.evidence_check import state_of

    for engram in answer.engrams:
        about = answer.about[engram.id]
        state = state_of(about)
        extra = f" +{len(engram.pointers) - 1}" if len(engram.pointers) > 1 else ""
        author = engram.provenance.created_by.rpartition("/")[2]
        words = safe(describe_state(about.evidence) or state)
        yield kind(engram.kind) + " " * (KIND_COLUMN - len(engram.kind)) + safe_line(engram.claim)
        parts = [short_ref(engram.pointers[0]) + extra, author, age(engram.provenance.created_at, answer.as_of)]
        yield (
            " " * KIND_COLUMN
            + click.style(words, fg=_COLOURS.get(state))
            + dim("  " + "  ".join(map(safe, [*parts, *untrusted(about), short_id(engram.id)])))
        )
    total = sum(answer.counts.values())
    if not total:
        yield "There are no engrams to compare."
        return
    target = f"commit {answer.against[:12]}" if answer.against else "the files on disk"
    states = ", ".join(f"{count:,} {_NAMES.get(state, state)}" for state, count in answer.counts.items())
    yield f"{counted(total, 'engram')} compared with {target}: {states}."
    if answer.counts.keys() & {"gone", "changed"}:
        yield dim(_STILL_TRUE)
        yield dim(_NO_LONGER)
    if "moved" in answer.counts:
        yield dim(_MOVED)


_NAMES = {"uncompared": "about no file here"}
