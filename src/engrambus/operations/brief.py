"""The shared brief, built on demand and kept in versions."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from engrambus.core import print_time
from engrambus.core.token_limit import fits, take_within
from engrambus.errors import FieldValue
from engrambus.gateway.budgets import deref_budget
from engrambus.gateway.declare import Command, Resource, Route, Tool, operation
from engrambus.gateway.gateway import Context
from engrambus.gateway.ports import View
from engrambus.knowledge.brief import Brief, BriefMade, brief_diff, kinds_for, write_brief
from engrambus.policy import ROLES, DerefBudget, Role, Turn, lineage_of, present_turn, tokens_left, visible_spaces
from engrambus.policy.grants import Spent

PER_KIND = 8
MAX_VERSIONS = 50
MAX_GRANTS = 3


class ReadBrief(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose brief, and since when."""

    role: Annotated[Role | None, Meta(description="Another role's brief; your own unless said")] = None
    since: Annotated[int, Meta(ge=1, description="Only what changed after this version")] | None = None
    max_tokens: Annotated[int, Meta(ge=1, description="The answer is never larger")] | None = None


class BriefAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    version: int
    role: str
    lines: list[str]
    """The brief, or with `since` what changed; at most thirty lines."""
    truncated: bool = False
    """Whether lines were left out to stay within max_tokens."""


@operation(
    "less.brief",
    writes=True,
    route=Route("GET", "/brief"),
    command=Command(
        "brief",
        section="knowledge",
        example="engrambus brief --role programmer",
        renderer="knowledge:brief",
    ),
    tool=Tool(hidden=("max_tokens", "role")),
    resource=Resource("engrambus://brief", "What matters now", "text/plain", ttl_ms=5_000),
    span="search_memory",
)
def brief(context: Context, request: ReadBrief) -> BriefAnswer:
    """What matters now for a role, in at most thirty lines."""
    caller = context.caller
    role = request.role or caller.role

    def decide(view: View) -> tuple[list[BriefMade], BriefAnswer]:
        lines = _written(context, view, role)
        last = view.brief(caller.run.run_id, role, None)
        facts: list[BriefMade] = []
        version = last.version if last else 0
        if last is None or last.lines != lines:
            version += 1
            facts.append(BriefMade(run=caller.run.run_id, role=role, version=version, lines=lines))
        turn = present_turn(view.turn(caller.run.run_id, caller.name), view.as_of)
        shown = [
            *_since(view, context, role, request.since, lines),
            *_budget_lines(turn, deref_budget(context, view)),
            *_grant_lines(context, view),
        ]
        return facts, _within(BriefAnswer(version=version, role=role, lines=shown), request.max_tokens)

    return context.commit(decide, BriefAnswer, in_run=False)


def _written(context: Context, view: View, role: str) -> tuple[str, ...]:
    """A role's brief as it would be made now."""
    spaces = visible_spaces(context.caller)
    newest = {
        kind: view.engrams(view.newest(spaces, kind=kind, limit=PER_KIND, before=None)) for kind in kinds_for(role)
    }
    return write_brief(role, context.caller.run.goal, newest, view.engrams(view.pinned(spaces)))


class ListBriefs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose brief, which of its versions, and what to compare it with."""

    role: Annotated[Role | None, Meta(description="The role; unless said, the one whose brief was made last")] = None
    version: Annotated[int, Meta(ge=1, description="This version; unless said, as it would be made now")] | None = None
    since: Annotated[int, Meta(ge=1, description="Show what changed after this version")] | None = None


class BriefVersion(Struct, frozen=True, kw_only=True):
    version: int
    made_at: str


class BriefsAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    role: str
    lines: list[str]
    """The brief as it was in that version, or as it would be made now."""
    versions: list[BriefVersion]
    """The last versions there are, newest first."""
    as_of: str
    version: int | None = None
    """The version shown; none for a brief that nobody has read yet as it is now."""
    changed: list[str] | None = None
    """With `since`, what changed: `- ` was there, `+ ` is there now."""


@operation(
    "brief.versions",
    route=Route("GET", "/brief/versions"),
    command=Command(
        "briefs",
        section="knowledge",
        example="engrambus briefs --role programmer --version 4 --since 3",
        renderer="knowledge:brief_versions",
    ),
    kept_off={"mcp": "agents read the last one with less_brief"},
)
def list_briefs(context: Context, request: ListBriefs) -> BriefsAnswer:
    """The versions of a role's brief, what one of them says, and what changed."""
    view, run = context.view, context.caller.run.run_id
    role = request.role or _last_made(view, run) or context.caller.role
    kept = view.brief_versions(run, role, limit=MAX_VERSIONS)
    version, lines = request.version, _written(context, view, role)
    if version is not None:
        lines = _version(view, run, role, version, "version").lines
    elif kept and kept[0].lines == lines:
        version = kept[0].version
    changed = None
    if request.since is not None:
        changed = brief_diff(_version(view, run, role, request.since, "since").lines, lines)
    return BriefsAnswer(
        role=role,
        version=version,
        lines=list(lines),
        versions=[BriefVersion(version=each.version, made_at=print_time(each.at)) for each in kept],
        changed=changed,
        as_of=print_time(context.as_of),
    )


def _last_made(view: View, run: str) -> str | None:
    """The role whose brief was made last in a run."""
    made = [(last.at, role) for role in ROLES if (last := view.brief(run, role, None)) is not None]
    return max(made)[1] if made else None


def _version(view: View, run: str, role: str, version: int, field: str) -> Brief:
    found = view.brief(run, role, version)
    if found is None:
        raise FieldValue(f"There is no version {version} of this brief.", field=field, used=version)
    return found


def _since(view: View, context: Context, role: str, since: int | None, lines: tuple[str, ...]) -> list[str]:
    if since is None:
        return list(lines)
    return brief_diff(_version(view, context.caller.run.run_id, role, since, "since").lines, lines)


def _budget_lines(turn: Turn, budget: DerefBudget) -> list[str]:
    left = {name: max(0, getattr(budget, name) - getattr(turn, name)) for name in ("repo", "artifact", "sam")}
    return [
        f"Left this turn: {left['repo']} repo, {left['artifact']} artifact and {left['sam']} sam dereferences, "
        f"{tokens_left(turn, budget)} tokens."
    ]


def _grant_lines(context: Context, view: View) -> list[str]:
    """What the caller may read besides, the newest grants first."""
    lines = []
    for grant in reversed(view.grants_for(context.caller.run.run_id, lineage_of(view, context.caller))):
        spent = view.spent([grant.block_id]).get(grant.block_id, Spent())
        open_still = grant.expires_at > view.as_of and spent.uses < grant.uses and spent.tokens < grant.cap_tokens
        if open_still and not view.revoked([grant.block_id]):
            what = grant.pointer or grant.prefix
            uses = grant.uses - spent.uses
            left = f"{grant.cap_tokens - spent.tokens} tokens, {uses} use{'s' * (uses != 1)}"
            lines.append(f"Granted: {what}, {left}.")
    return lines[:MAX_GRANTS]


def _within(answer: BriefAnswer, max_tokens: int | None) -> BriefAnswer:
    """The answer cut, last lines first, until its JSON fits the budget."""
    if max_tokens is None or fits(answer, max_tokens):
        return answer
    cut = msgspec.structs.replace(answer, lines=[], truncated=True)
    return msgspec.structs.replace(cut, lines=take_within(cut, answer.lines, max_tokens))
