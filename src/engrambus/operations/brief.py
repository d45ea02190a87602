"""Operations on the brief: read it, and look back at its versions."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct

from engrambus.core import fits, print_time, take_within
from engrambus.errors import FieldValue
from engrambus.evidence.pointers import Pointer, Staleness
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Resource, Route, Tool, operation
from engrambus.gateway.ports import View
from engrambus.gateway.role_view import restrict_view, unrestricted
from engrambus.knowledge.brief import (
    MAX_LINES,
    BriefMade,
    BriefReading,
    BriefText,
    brief_diff,
    compose_brief,
    current_version,
    find_version,
    last_role_briefed,
    list_versions,
    read_brief,
    visible_lines,
)
from engrambus.knowledge.messages import read_payers
from engrambus.operations.evidence_about import EvidenceLookup
from engrambus.policy import ADMIN, Caller, Role, find_agent, with_article

if TYPE_CHECKING:
    from engrambus.policy.reservations import SeenReservation

MAX_VERSIONS = 50
MAX_TASK_LINES = 3
MAX_READ_AHEAD = 8
"""Pointers of a brief that are read before its reader asks for them; a turn reads fewer."""


class ReadBrief(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The brief to read."""

    role: Annotated[Role | None, Meta(description="Show this role's brief instead of your own")] = None
    for_agent: Annotated[str, Meta(max_length=96, description="Show what this descendant of yours gets")] | None = None
    since: Annotated[int, Meta(ge=1, description="Show only what changed after this version")] | None = None
    max_tokens: Annotated[int, Meta(ge=1, description="Maximum size of the answer, in tokens")] | None = None


class BriefAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    version: int
    role: str
    lines: list[str]
    """The brief, or with `since` what changed; at most 30 lines."""
    own_lines: int = 0
    """How many of the last lines are about its reader: pointers and mail for it, what is left of the turn, grants."""
    stale: int = 0
    """Engrams that are left out because the lines they point at are changed or gone."""
    truncated: bool = False
    """True if it has fewer lines than it could, to stay within max_tokens."""


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
        option_names={"for_agent": "--for"},
    ),
    tool=Tool(about="Show what matters now.", hidden=("max_tokens", "role", "for_agent")),
    resource=Resource("engrambus://brief", "What matters now", "text/plain", ttl_ms=5_000),
    span="search_memory",
    agent_fields=("for_agent",),
)
def brief(context: Context, request: ReadBrief) -> BriefAnswer:
    """Show what matters now for a role, in at most 30 lines.

    It lists the goal of the run, pinned engrams, and the newest of the kinds that matter to the role. Engrams whose
    lines have changed since are left out until they are confirmed; pinned ones are marked.
    """

    lookup = EvidenceLookup(context)
    shown: list[BriefText] = []

    def decide(view: View) -> tuple[list[BriefMade], BriefAnswer]:
        reader = _reader(context, view, request.role, request.for_agent)
        of_role, seen = _views(context, view, reader.role)
        facts, reading = read_brief(
            of_role,
            reader,
            find_stale=lookup.find_stale,
            payers=read_payers(view, context.policy, reader, context.limits) if reader.name else None,
            restrict=partial(_restrict, context),
            since=request.since,
            seen=seen,
            reserved=_reserved(context, view, reader),
            tasks=_task_lines(context, reader),
        )
        shown[:] = [reading.text] if reader.name else []
        return facts, _answer(reading, reader.role, request.max_tokens)

    # decision 84: what became of the lines is looked up without the write lock, and most reads make no version
    if context.idempotency is None:
        with context.store.read() as view:
            made, answer = decide(view)
            if not made:
                _read_ahead(context, shown)
                return answer
    # A brief can be read after its run has ended, to see how things stood.
    answer = context.commit(decide, BriefAnswer, in_run=False)
    _read_ahead(context, shown)
    return answer


class ListBriefs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The role and version to show, and the version to compare it with."""

    role: Annotated[Role | None, Meta(description="The role; by default the one whose brief was made last")] = None
    for_agent: Annotated[str, Meta(max_length=96, description="Show what this descendant of yours gets")] | None = None
    version: Annotated[int, Meta(ge=1, description="Show this version; by default the brief as it is now")] | None = (
        None
    )
    since: Annotated[int, Meta(ge=1, description="Show what changed after this version")] | None = None


class BriefVersion(Struct, frozen=True, kw_only=True):
    version: int
    made_at: str


class BriefedEngram(Struct, frozen=True, kw_only=True, omit_defaults=True):
    line: int
    """Position in `lines`, from 0."""
    ref: str
    """Its first pointer."""
    by: str
    """The author's full name."""
    created_at: str
    id: str = ""
    """The engram's id; empty for a memory."""
    pinned: bool = False
    state: Staleness | None = None
    """`changed` or `gone`, if it is pinned and the lines it points at are."""


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
    stale: int = 0
    """Engrams that the present brief leaves out because the lines they point at are changed or gone."""
    engrams: list[BriefedEngram] = []
    """Of the present brief, the author and time of each engram and memory."""


@operation(
    "brief.versions",
    route=Route("GET", "/brief/versions"),
    command=Command(
        "briefs",
        section="knowledge",
        example="engrambus briefs --role programmer --version 4 --since 3",
        renderer="knowledge:brief_versions",
        rank=42,
        option_names={"for_agent": "--for"},
    ),
    agent_fields=("for_agent",),
    absent_from={"mcp": "agents read the last one with less_brief"},
)
def list_briefs(context: Context, request: ListBriefs) -> BriefsAnswer:
    """Show the versions of a role's brief, and what changed between them.

    A brief lists what matters now for a role, in at most 30 lines; a version is kept whenever it changes.
    """
    view, run_id = context.view, context.caller.run.run_id
    role: str | None = request.role
    if role is None and request.for_agent is None:
        role = last_role_briefed(view, run_id)
    reader = _reader(context, view, role, request.for_agent)
    versions = list_versions(view, reader, limit=MAX_VERSIONS)
    of_role, seen = _views(context, view, reader.role)
    restrict = partial(_restrict, context)
    find_stale = EvidenceLookup(context).find_stale
    composed = compose_brief(of_role, reader, restrict, find_stale)
    shown = composed if seen is None else compose_brief(seen, reader, restrict, find_stale)
    lines = shown.lines
    if request.version is not None:
        version: int | None = request.version
        lines = visible_lines(find_version(view, reader, request.version, "version").lines, shown.lines, seen)
    else:
        version = current_version(view, reader, composed)
    changed = None
    if request.since is not None:
        since = find_version(view, reader, request.since, "since").lines
        changed = brief_diff(visible_lines(since, shown.lines, seen), lines)
    return BriefsAnswer(
        role=reader.role,
        version=version,
        lines=list(lines),
        versions=[BriefVersion(version=item.version, made_at=print_time(item.made_us)) for item in versions],
        changed=changed,
        stale=shown.stale_count,
        engrams=_briefed_engrams(shown.text) if request.version is None else [],
        as_of=print_time(context.as_of),
    )


def _reader(context: Context, view: View, role: str | None, for_agent: str | None) -> Caller:
    """Return whose brief is read: an agent; or a role, as a caller without a name."""
    caller = context.caller
    if for_agent is not None:
        agent = find_agent(view, caller, for_agent, "for_agent")
        if role not in (None, agent.role):
            raise FieldValue(
                f"'{agent.name}' is {with_article(agent.role)}.", field="role", hint="Leave out `role` or `for_agent`."
            )
        return msgspec.structs.replace(caller, name=agent.name, role=agent.role)
    if caller.role != ADMIN and role in (None, caller.role):
        return caller
    return msgspec.structs.replace(caller, name="", role=role or caller.role)


def _reserved(context: Context, view: View, reader: Caller) -> list[SeenReservation]:
    """Return the reservations of others that both the reader's role and the caller's may see."""
    if not view.reservations():
        return []
    from engrambus.operations.reservations import live_reservations
    from engrambus.policy.reservations import foreign_reservations, visible_reservations

    rules = [context.policy.visible_to(role) for role in (reader.role, context.caller.role)]
    return visible_reservations(foreign_reservations(view, reader, live_reservations(view)), rules)


def _task_lines(context: Context, reader: Caller) -> list[str]:
    """Return what the reader has claimed and which task is ready for it, in a few lines."""
    if not reader.name or not context.tuple_space.has_journal():
        return []
    from engrambus.operations.task_rows import task_lines

    return task_lines(context, reader, limit=MAX_TASK_LINES)


def _restrict(context: Context, view: View, role: str) -> View:
    """Return a view without what a role may not see."""
    rule = context.policy.visible_to(role)
    if rule is None:
        return view
    from engrambus.gateway.role_evidence import make_role_filter

    return restrict_view(view, make_role_filter(rule, context.project_files.repositories))


def _views(context: Context, view: View, role: str) -> tuple[View, View | None]:
    """Return the store as a role sees it, and as the caller sees that, if the caller's own role has a rule."""
    of_role = _restrict(context, unrestricted(view), role)
    return of_role, restrict_view(of_role, context.role_filter) if context.role_filter is not None else None


def _answer(reading: BriefReading, role: str, max_tokens: int | None) -> BriefAnswer:
    """Return the brief in as many lines as `max_tokens` allows."""

    def in_lines(max_lines: int, *, truncated: bool = True) -> BriefAnswer:
        shared, own = reading.text.parts(max_lines)
        lines = [item.text for item in (*shared, *own)]
        return BriefAnswer(
            version=reading.version,
            role=role,
            lines=lines,
            own_lines=len(own),
            stale=reading.stale_count,
            truncated=truncated,
        )

    answer = in_lines(MAX_LINES, truncated=False)
    if max_tokens is None:
        return answer
    fewer = (in_lines(count) for count in range(len(answer.lines) - 1, reading.text.min_lines - 1, -1))
    for candidate in chain([answer], fewer):
        if fits(candidate, max_tokens):
            return candidate
    # Too few tokens for a line about everything: the first lines matter most.
    empty = BriefAnswer(version=reading.version, role=role, lines=[], truncated=True)
    return msgspec.structs.replace(empty, lines=take_within(empty, candidate.lines, max_tokens))


def _read_ahead(context: Context, shown: list[BriefText]) -> None:
    """Let a long-lived process read what the first lines of an agent's brief point at."""
    if context.ahead is not None:
        refs = [item.ref for text in shown for item in text.parts()[0] if item.ref][:MAX_READ_AHEAD]
        context.ahead.add(Pointer(type=ref.partition(":")[0], ref=ref) for ref in refs)


def _briefed_engrams(text: BriefText) -> list[BriefedEngram]:
    shared, _ = text.parts()
    return [
        BriefedEngram(
            line=line,
            ref=item.ref,
            by=item.author,
            created_at=item.created_at,
            id=item.id,
            pinned=item.is_pinned,
            state=item.state,
        )
        for line, item in enumerate(shared)
        if item.ref
    ]
