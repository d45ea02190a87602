"""The check of all evidence: what became of the lines behind every engram the caller may see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from engrambus.core import is_hex, print_time
from engrambus.errors import EngramBusError, PointerRevision
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, operation
from engrambus.knowledge.engrams import Engram, EngramFilter, Kind, VisibleStore
from engrambus.operations.engram_about import EngramAbout, about_engrams, list_spaces, read_cursor, without_keys
from engrambus.operations.engram_filters import MAX_PATH_CHARS, filter_stores
from engrambus.operations.evidence_about import EvidenceLookup
from engrambus.policy import MEMORY_SPACE

WORST_FIRST = ("gone", "changed", "unresolved", "moved", "same", "uncompared")
"""The states of an engram's evidence; `uncompared` if its pointers lead to no file of the project's repository."""
DEFAULT_PAGE = 200
MAX_PAGE = 500


class CheckEvidence(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of the engrams whose evidence is compared."""

    against: (
        Annotated[str, Meta(max_length=64, description="Compare with this commit instead of the files on disk")] | None
    ) = None
    kind: Annotated[Kind | None, Meta(description="Only engrams of this kind")] = None
    path: (
        Annotated[
            str,
            Meta(
                max_length=MAX_PATH_CHARS,
                description="Only what points at this file, into this folder or at what this pattern matches",
            ),
        ]
        | None
    ) = None
    all: Annotated[bool, Meta(description="List all that were compared, also those whose lines are the same")] = False
    k: Annotated[int, Meta(ge=1, le=MAX_PAGE, description="How many engrams one answer compares")] = DEFAULT_PAGE
    cursor: Annotated[str, Meta(max_length=20, description="Continue where the previous answer ended")] | None = None


class EvidenceReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    engrams: list[Engram]
    """Those whose evidence is gone, changed, unresolved or moved, the worst first; with `all`, every one."""
    about: dict[str, EngramAbout] = {}
    """What is known now, by the engram's id; `evidence` has the state, the share that is left and the place now."""
    counts: dict[str, int] = {}
    """How many engrams were compared, by the state of their evidence; `uncompared` if no pointer leads to a file."""
    as_of: str
    against: str | None = None
    """The commit they were compared with; none for the files on disk."""
    cursor: str | None = None
    """Send it to compare the next ones."""


@operation(
    "engram.check",
    route=Route("GET", "/engram/check"),
    command=Command(
        "check",
        section="knowledge",
        example="engrambus check --against main",
        renderer="check:check_report",
        rank=58,
        override="check:check",
    ),
    absent_from={"mcp": "every engram that is shown says what became of its evidence"},
    span="search_memory",
)
def check_evidence(context: Context, request: CheckEvidence) -> EvidenceReport:
    """List the engrams whose lines are gone, have changed or moved.

    The lines behind every engram you may see are compared with the files on disk, or with a commit. What is gone or has
    changed is in no brief until it is confirmed with the lines that show it now.
    """
    _check_revision(context, request.against)
    with context.visible_stores() as stores:
        reads, spaces = list_spaces(stores)
        spaces = tuple(space for space in spaces if space != MEMORY_SPACE)
        (store,) = filter_stores(context, [VisibleStore(reads, spaces)], EngramFilter(path=request.path))
        older_than = read_cursor(request.cursor)
        ordinals = store.reads.newest(spaces, kind=request.kind, limit=request.k + 1, older_than=older_than)
        engrams = store.reads.engrams(ordinals[: request.k])
        lookup = EvidenceLookup(context, request.against, is_patient=True)
        about = about_engrams(context, stores, engrams, lookup=lookup)
    states = {engram.id: state_of(about[engram.id]) for engram in engrams}
    listed = [engram for engram in engrams if request.all or states[engram.id] not in ("same", "uncompared")]
    counts = Counter(states.values())
    return EvidenceReport(
        engrams=[without_keys(engram) for engram in worst_first(listed, about)],
        about={engram.id: about[engram.id] for engram in listed},
        counts={state: counts[state] for state in WORST_FIRST if counts[state]},
        as_of=print_time(context.as_of),
        against=request.against,
        cursor=str(ordinals[request.k - 1]) if len(ordinals) > request.k else None,
    )


def worst_first(engrams: Sequence[Engram], about: dict[str, EngramAbout]) -> list[Engram]:
    """Return engrams by the state of their evidence; of equal ones, those first of which less is left."""

    def order(engram: Engram) -> tuple[int, float]:
        evidence = about[engram.id].evidence
        share = evidence.share if evidence is not None and evidence.share is not None else 0.0
        return WORST_FIRST.index(state_of(about[engram.id])), share

    return sorted(engrams, key=order)


def state_of(about: EngramAbout) -> str:
    """Return the state of an engram's evidence."""
    return (about.evidence.state if about.evidence is not None else None) or "uncompared"


def _check_revision(context: Context, revision: str | None) -> None:
    if revision is None:
        return
    if not is_hex(revision, 40, 64):
        raise PointerRevision(
            "The revision is not a full lower-case object id.",
            field="against",
            used=revision,
            hint="Write the full commit id: 40 or 64 lower-case hex digits (git rev-parse main).",
        )
    try:
        context.project_files.repositories.select().check_commit(revision)
    except EngramBusError as refusal:
        refusal.field = "against"
        raise
