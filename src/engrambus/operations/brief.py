"""Operations on the brief: read it, and look back at its versions."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from engrambus.core import fits, print_time, take_within
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Resource, Route, Tool, operation
from engrambus.gateway.ports import View
from engrambus.gateway.role_view import restrict_view, unrestricted
from engrambus.knowledge.brief import (
    BriefMade,
    brief_diff,
    compose_brief,
    find_version,
    last_role_briefed,
    read_brief,
    visible_lines,
)
from engrambus.knowledge.messages import read_payers
from engrambus.policy import Role

MAX_VERSIONS = 50


class ReadBrief(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The brief to read."""

    role: Annotated[Role | None, Meta(description="Show this role's brief instead of your own")] = None
    since: Annotated[int, Meta(ge=1, description="Show only what changed after this version")] | None = None
    max_tokens: Annotated[int, Meta(ge=1, description="Maximum size of the answer, in tokens")] | None = None


class BriefAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    version: int
    role: str
    lines: list[str]
    """The brief, or with `since` what changed; at most 30 lines."""
    truncated: bool = False
    """True if lines were left out to stay within max_tokens."""


@operation(
    "less.brief",
    writes=True,
    route=Route("GET", "/brief"),
    command=Command(
        "brief",
        section="knowledge",
        example="engrambus brief --role programmer",
        renderer="knowledge:brief",
        rank=40,
    ),
    tool=Tool(hidden=("max_tokens", "role")),
    resource=Resource("engrambus://brief", "What matters now", "text/plain", ttl_ms=5_000),
    span="search_memory",
)
def brief(context: Context, request: ReadBrief) -> BriefAnswer:
    """Show what matters now for a role, in at most 30 lines.

    It lists the goal of the run, pinned engrams, and the newest of the kinds that matter to the role.
    """
    role = request.role or context.caller.role

    def decide(view: View) -> tuple[list[BriefMade], BriefAnswer]:
        of_role, seen = _views(context, view, role)
        facts, current = read_brief(
            of_role,
            role,
            caller=context.caller,
            payers=read_payers(view, context.policy, context.caller, context.limits),
            since=request.since,
            seen=seen,
        )
        answer = BriefAnswer(version=current.version, role=role, lines=list(current.lines))
        return facts, _within(answer, request.max_tokens)

    # A brief can be read after its run has ended, to see how things stood.
    return context.commit(decide, BriefAnswer, in_run=False)


class ListBriefs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The role and version to show, and the version to compare it with."""

    role: Annotated[Role | None, Meta(description="The role; by default the one whose brief was made last")] = None
    version: Annotated[int, Meta(ge=1, description="Show this version; by default the brief as it is now")] | None = (
        None
    )
    since: Annotated[int, Meta(ge=1, description="Show what changed after this version")] | None = None


class BriefVersion(Struct, frozen=True, kw_only=True):
    version: int
    made_at: str


class BriefsAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    role: str
    lines: list[str]
    """The brief in that version, or as it would be made now."""
    versions: list[BriefVersion]
    """The last versions, newest first."""
    as_of: str
    version: int | None = None
    """The version shown; none if the present brief has not been read yet, so that it has no version."""
    changed: list[str] | None = None
    """With `since`, the lines that changed: `- ` was removed, `+ ` was added."""


@operation(
    "brief.versions",
    route=Route("GET", "/brief/versions"),
    command=Command(
        "briefs",
        section="knowledge",
        example="engrambus briefs --role programmer --version 4 --since 3",
        renderer="knowledge:brief_versions",
        rank=42,
    ),
    absent_from={"mcp": "agents read the last one with less_brief"},
)
def list_briefs(context: Context, request: ListBriefs) -> BriefsAnswer:
    """Show the versions of a role's brief, and what changed between them.

    A brief lists what matters now for a role, in at most 30 lines; a version is kept whenever it changes.
    """
    view, run_id = context.view, context.caller.run.run_id
    role = request.role or last_role_briefed(view, run_id) or context.caller.role
    versions = view.brief_versions(run_id, role, limit=MAX_VERSIONS)
    of_role, seen = _views(context, view, role)
    present = compose_brief(of_role if seen is None else seen, role, context.caller)
    version, lines = request.version, present
    if version is not None:
        lines = visible_lines(find_version(view, run_id, role, version, "version").lines, present, seen)
    elif versions and versions[0].lines == compose_brief(of_role, role, context.caller):
        version = versions[0].version
    changed = None
    if request.since is not None:
        since = find_version(view, run_id, role, request.since, "since").lines
        changed = brief_diff(visible_lines(since, present, seen), lines)
    return BriefsAnswer(
        role=role,
        version=version,
        lines=list(lines),
        versions=[BriefVersion(version=item.version, made_at=print_time(item.made_us)) for item in versions],
        changed=changed,
        as_of=print_time(context.as_of),
    )


def _views(context: Context, view: View, role: str) -> tuple[View, View | None]:
    """Return the store as a role sees it, and as the caller sees that, if the caller's own role has a rule."""
    rule = context.policy.visible_to(role)
    of_role = unrestricted(view)
    if rule is not None:
        from engrambus.gateway.role_evidence import make_role_filter

        of_role = restrict_view(of_role, make_role_filter(rule, context.project_files.repositories))
    return of_role, restrict_view(of_role, context.role_filter) if context.role_filter is not None else None


def _within(answer: BriefAnswer, max_tokens: int | None) -> BriefAnswer:
    """Return the answer without as many of its last lines as its JSON exceeds the budget by."""
    if max_tokens is None or fits(answer, max_tokens):
        return answer
    empty = msgspec.structs.replace(answer, lines=[], truncated=True)
    return msgspec.structs.replace(empty, lines=take_within(empty, answer.lines, max_tokens))
