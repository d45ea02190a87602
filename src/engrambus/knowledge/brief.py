"""The brief: at most thirty lines that say what matters now for one role, built from the store alone.

A table says which kinds of engram a role sees and in which order. Within a kind the newest come first, and of equally
new ones the more confident. A line is one engram: its kind, its claim and its first pointer. Claims are never reworded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from engrambus.errors import FieldValue
from engrambus.knowledge.engrams import Engram, EngramReads, EngramView, has_evidence
from engrambus.policy import ROLES, Account, Caller, Payers, visible_spaces
from engrambus.policy.grants import GrantReads, balance_of, handle_of, journalled_grant

MAX_LINES = 30
LINES_FOR_BUDGETS = 5
"""Lines of the thirty that are left for budgets and grants, which follow the engrams."""
MAX_CLAIM_CHARS = 160
PER_KIND = 8
"""Newest engrams of each kind that are considered."""
MAX_GRANTS = 3
_HAVE_CHILDREN = frozenset({"architect", "director", "manager"})


class BriefSection(NamedTuple):
    """One part of the brief: the kinds it shows, and how many lines it may take."""

    title: str
    kinds: tuple[str, ...]
    max_lines: int


_LEADING = (
    BriefSection("Constraints", ("constraint", "policy"), 5),
    BriefSection("Risks", ("risk",), 6),
    BriefSection("Now", ("decision", "diff", "fact"), 6),
)
_BUILDING = (
    BriefSection("Constraints", ("constraint", "policy"), 6),
    BriefSection("Risks", ("risk",), 4),
    BriefSection("Now", ("todo", "decision", "test", "diff", "fact", "perf"), 7),
)
SECTIONS: dict[str, tuple[BriefSection, ...]] = {
    "admin": _LEADING,
    "architect": _LEADING,
    "director": _LEADING,
    "manager": _BUILDING,
    "programmer": _BUILDING,
    "tool": _BUILDING,
}
"""The sections of each role: roles that lead see risks and decisions first, roles that build see what is to be done."""


class BriefMade(msgspec.Struct, frozen=True, kw_only=True, tag="brief.made", tag_field="fact"):
    """The brief of a role changed."""

    run: str
    role: str
    version: int
    lines: tuple[str, ...]


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a role's brief."""

    version: int
    made_us: int
    lines: tuple[str, ...]


class BriefReads(Protocol):
    """The reads of a back end that briefs need."""

    def brief(self, run_id: str, role: str, version: int | None) -> Brief | None:
        """Return a version of a role's brief; the last one without a version."""
        ...

    def brief_versions(self, run_id: str, role: str, *, limit: int) -> list[Brief]:
        """Return the last versions of a role's brief, newest first."""
        ...


class BriefView(EngramView, GrantReads, BriefReads, Protocol):
    """The reads of a store that the rules of the brief need."""


def read_brief(
    view: BriefView,
    role: str,
    *,
    caller: Caller,
    payers: Payers,
    since: int | None = None,
    seen: EngramReads | None = None,
) -> tuple[list[BriefMade], Brief]:
    """Return a role's brief as of now; a new version is recorded if its lines changed.

    With `since`, the lines are the differences to that version. The caller's budgets and grants follow either way; they
    are not part of a version, because they change with every read. `view` shows what the role sees;
    `seen` what the caller sees of that, if its own role has a rule (decision 50): it is shown no line beyond that.
    """
    run = caller.run.run_id
    lines = compose_brief(view, role, caller)
    last = view.brief(run, role, None)
    version = last.version if last else 0
    # A version is recorded only when a reader sees a change, so a run of puts does not write a brief for each.
    facts: list[BriefMade] = []
    if last is None or last.lines != lines:
        version += 1
        facts.append(BriefMade(run=run, role=role, version=version, lines=lines))
    shown = lines if seen is None else compose_brief(seen, role, caller)
    if since is not None:
        old = find_version(view, run, role, since, "since").lines
        shown = tuple(brief_diff(visible_lines(old, shown, seen), shown))
    shown_lines = (
        *shown,
        *map(_budget_line, payers.accounts[:1]),  # the caller's own; a person has none
        *_grant_lines(view, caller),
    )
    return facts, Brief(version=version, made_us=view.as_of, lines=shown_lines)


def compose_brief(view: EngramReads, role: str, caller: Caller) -> tuple[str, ...]:
    """Return the lines of a role's brief as of now, from the engrams the caller may see."""
    spaces = visible_spaces(caller)
    newest = {
        kind: view.engrams(view.newest(spaces, kind=kind, limit=PER_KIND, older_than=None))
        for section in SECTIONS[role]
        for kind in section.kinds
    }
    return _compose(role, caller.run.goal, newest, view.engrams(view.pinned(spaces)))


def visible_lines(lines: Sequence[str], present: Sequence[str], seen: EngramReads | None) -> tuple[str, ...]:
    """Return the lines of an older version that the caller may see."""
    # A line of text does not tell whose rule it was made under. For a caller with a rule (`seen`), only lines that its
    # brief has now are certain to be visible.
    return tuple(lines) if seen is None else tuple(line for line in lines if line in present)


def find_version(view: BriefReads, run_id: str, role: str, version: int, field: str) -> Brief:
    """Return one version of a role's brief, or refuse the request's `field`."""
    brief = view.brief(run_id, role, version)
    if brief is None:
        raise FieldValue(f"This brief has no version {version}.", field=field, used=version)
    return brief


def last_role_briefed(view: BriefReads, run_id: str) -> str | None:
    """Return the role whose brief was made last in a run."""
    latest = [(brief.made_us, role) for role in ROLES if (brief := view.brief(run_id, role, None)) is not None]
    return max(latest)[1] if latest else None


def brief_diff(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return the lines that changed between two versions: `- ` was removed, `+ ` was added."""
    old_lines, new_lines = set(old), set(new)
    removed = [f"- {line}" for line in old if line not in new_lines]
    return removed + [f"+ {line}" for line in new if line not in old_lines]


def _compose(role: str, goal: str, newest: Mapping[str, Sequence[Engram]], pinned: Sequence[Engram]) -> tuple[str, ...]:
    lines = [f"Goal: {_shorten(goal)}"]
    for section in SECTIONS[role]:
        engrams = _pick(section, newest, pinned)
        if engrams:
            lines.append(f"{section.title}:")
            lines += [f"- [{engram.kind}] {_shorten(engram.claim)} ({_pointer_text(engram)})" for engram in engrams]
    if len(lines) == 1:
        lines.append("Nothing is known yet. Put what you find, with a pointer to it.")
    # The lines for budgets and grants come on top of these.
    return tuple(lines[: MAX_LINES - LINES_FOR_BUDGETS])


def _pick(section: BriefSection, newest: Mapping[str, Sequence[Engram]], pinned: Sequence[Engram]) -> list[Engram]:
    # decision 17: a person pins what everybody must read first
    first = [engram for engram in pinned if engram.kind in section.kinds and has_evidence(engram)]
    pinned_ids = {engram.id for engram in first}
    candidates = [engram for kind in section.kinds for engram in newest.get(kind, ()) if engram.id not in pinned_ids]
    candidates = [engram for engram in candidates if has_evidence(engram)]  # decision 55
    candidates.sort(key=lambda engram: (engram.provenance.created_at, engram.confidence, engram.id), reverse=True)
    return [*first, *candidates][: section.max_lines]


def _pointer_text(engram: Engram) -> str:
    """Return the first pointer's ref, and how many more there are."""
    extra = f" +{len(engram.pointers) - 1}" if len(engram.pointers) > 1 else ""
    return f"{engram.pointers[0].ref}{extra}"


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_CLAIM_CHARS else text[: MAX_CLAIM_CHARS - 1].rstrip() + "…"


def _budget_line(account: Account) -> str:
    names = ("repo", "artifact", "sam", "put_tokens")
    remaining = {name: max(0, getattr(account.budget, name) - getattr(account.turn, name)) for name in names}
    return (
        f"Left this turn: {remaining['repo']} repo, {remaining['artifact']} artifact and {remaining['sam']} sam "
        f"dereferences, {account.tokens_left()} tokens; {remaining['put_tokens']} tokens to put."
    )


def _grant_lines(view: BriefView, caller: Caller) -> list[str]:
    """Return a line for each grant that was made out or passed on to the caller and is still usable, newest first."""
    lines = []
    for issued in reversed(view.grants_for(caller.run.run_id, caller.name)):
        left = balance_of(view, journalled_grant(view, issued, caller.project))
        if left.state == "usable":
            # Only a parent can pass a grant on, so only a parent needs its budget token.
            token = f" ({handle_of(issued.grant_id)})" if caller.role in _HAVE_CHILDREN else ""
            remaining = f"{left.tokens} tokens, {left.uses} use{'s' * (left.uses != 1)}"
            lines.append(f"Granted: {issued.pointer or issued.prefix}, {remaining}{token}.")
    return lines[:MAX_GRANTS]
