"""The merge gate: what the team knows that speaks against a branch, and overrides of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from engrambus.core import is_hex, print_time
from engrambus.errors import PointerRevision
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, Command, Route, operation
from engrambus.gateway.ports import View
from engrambus.gateway.role_view import restrict_view
from engrambus.knowledge.engrams import Engram
from engrambus.knowledge.gate import (
    GATED_KINDS,
    GateFinding,
    GateOverridden,
    GateOverride,
    find_finding,
    find_findings,
    override_finding,
    shown_override,
    with_overrides,
)
from engrambus.policy import ADMIN, visible_spaces

MAX_FINDINGS = 500
MAX_OVERRIDES = 200
READ_SIZE = 200
_FOR_PEOPLE = {"mcp": "people and continuous integration run it before a merge"}

Base = Annotated[str, Meta(max_length=64, description="The branch it is merged into: a full commit id")]
Head = Annotated[str, Meta(max_length=64, description="The branch's last commit; the one checked out by default")]


class CheckGate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A branch that is to be merged."""

    base: Base
    head: Head | None = None


class GateAnswer(Struct, frozen=True, kw_only=True):
    passed: bool
    """True if nothing was found, or everything found was overridden."""
    base: str
    merge_base: str
    """The commit where the branch left its base."""
    head: str
    files: int
    """Files that the branch changes."""
    checked: int
    """Engrams that were compared with the branch."""
    findings: list[GateFinding]
    """What was found, those without an override first; at most 500."""
    open: int
    """Findings without an override."""
    overridden: int
    as_of: str


@operation(
    "gate.check",
    route=Route("GET", "/gate"),
    command=Command(
        "gate",
        section="knowledge",
        example="engrambus gate --base main",
        renderer="gate:gate_report",
        rank=56,
        override="gate:gate",
    ),
    absent_from=_FOR_PEOPLE,
)
def check_gate(context: Context, request: CheckGate) -> GateAnswer:
    """Fail if a branch changes lines with an open risk, or lines that a decision rests on.

    What counts are the risks, decisions, constraints and policies that people and agents have recorded about the lines
    which the branch changes since it left its base. Settle what is found, or override it with a reason, which is
    recorded.
    """
    base, head = _branch_commits(context, request.base, request.head)
    return _check(context, context.view, base, head)


class OverrideGate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finding that is let pass."""

    id: Annotated[str, Meta(min_length=4, max_length=36, description="The id of the finding's engram")]
    reason: Annotated[str, Meta(max_length=500, description="Why the branch may be merged all the same")]
    identity: (
        Annotated[str, Meta(max_length=200, description="Who answers for it; an agent answers under its own name")]
        | None
    ) = None
    base: Base
    head: Head | None = None


@operation(
    "gate.override",
    roles=PARENTS,
    writes=True,
    route=Route("POST", "/gate/override"),
    absent_from={**_FOR_PEOPLE, "cli": "`engrambus gate --override ID --reason …` does it"},
    prose=("reason", "identity"),
)
def override_gate(context: Context, request: OverrideGate) -> GateOverride:
    """Let a branch pass although the gate found something; the reason and who answers for it are recorded.

    The override holds until the branch changes the same lines again.
    """
    base, head = _branch_commits(context, request.base, request.head)
    caller = context.caller
    with context.store.read() as view:
        seen = restrict_view(view, context.role_filter)
        finding = find_finding(_check(context, seen, base, head).findings, request.id)
    identity = request.identity if caller.role == ADMIN else caller.full_name
    fact = override_finding(finding, reason=request.reason, identity=identity, base=base, head=head, caller=caller)

    def decide(view: View) -> tuple[list[GateOverridden], GateOverride]:
        return [fact], shown_override(fact, view.as_of)

    return context.commit(decide, GateOverride)


class ListGateOverrides(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    k: Annotated[int, Meta(ge=1, le=MAX_OVERRIDES, description="Maximum number of results")] = 50


class GateOverrides(Struct, frozen=True, kw_only=True):
    overrides: list[GateOverride]
    """The newest first."""
    as_of: str


@operation(
    "gate.overrides",
    route=Route("GET", "/gate/override"),
    command=Command(
        "overrides",
        section="knowledge",
        example="engrambus overrides",
        renderer="gate:override_list",
        rank=57,
    ),
    absent_from=_FOR_PEOPLE,
    roles=PARENTS,
)
def list_gate_overrides(context: Context, request: ListGateOverrides) -> GateOverrides:
    """List what was let pass at the merge gate, by whom and why."""
    overrides = context.view.newest_gate_overrides(limit=request.k)
    return GateOverrides(overrides=overrides, as_of=print_time(context.as_of))


def _branch_commits(context: Context, base: str, head: str | None) -> tuple[str, str]:
    """Return the two commits of a branch; refuse what is no full commit id."""
    for field, commit in (("base", base), ("head", head)):
        if commit is not None and not is_hex(commit, 40, 64):
            raise PointerRevision(
                "The revision is not a full lower-case object id.",
                field=field,
                hint="Write the full commit id: 40 or 64 lower-case hex digits (git rev-parse main).",
            )
    return base, head if head is not None else context.completer.head("head")


def _check(context: Context, view: View, base: str, head: str) -> GateAnswer:
    changes, branch = context.project_files.branch(base, head)
    engrams = list(_gated_engrams(view, visible_spaces(context.caller))) if changes.files else []
    found = find_findings(engrams, branch)
    findings = with_overrides(found, view.gate_overrides([finding.fingerprint for finding in found]))
    overridden = sum(finding.override is not None for finding in findings)
    return GateAnswer(
        passed=overridden == len(findings),
        base=base,
        merge_base=changes.merge_base,
        head=head,
        files=changes.files,
        checked=len(engrams),
        findings=findings[:MAX_FINDINGS],
        open=len(findings) - overridden,
        overridden=overridden,
        as_of=print_time(context.as_of),
    )


def _gated_engrams(view: View, spaces: Sequence[str]) -> Iterator[Engram]:
    """Yield the live engrams that can speak against a branch: what people and agents stated, not what was learned."""
    learned = view.learned_ordinals(spaces)  # decision 85: editing a document that was quoted is no reason to stop
    for kind in GATED_KINDS:
        older_than: int | None = None
        while ordinals := view.newest(spaces, kind=kind, limit=READ_SIZE, older_than=older_than):
            yield from view.engrams([ordinal for ordinal in ordinals if ordinal not in learned])
            older_than = ordinals[-1]
