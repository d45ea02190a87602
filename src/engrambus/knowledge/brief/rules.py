"""The rules of reading a brief: at most thirty lines that say what matters now, and their versions.

A role has a brief, and each of its agents reads it in an order of its own. The versions of both are numbered together,
so that a version says what its reader was shown (decision 61).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from engrambus.core import TimeReads
from engrambus.errors import FieldValue
from engrambus.evidence.pointers import Staleness, compact_ref
from engrambus.knowledge.brief.bundles import PointerBundles, RestrictView, pointer_bundles
from engrambus.knowledge.brief.contents import (
    Candidates,
    ContentsView,
    UsedPaths,
    add_engrams_about,
    engram_sections,
    read_candidates,
    shorten,
    used_paths,
)
from engrambus.knowledge.brief.layout import MAX_LINES, BriefItem, BriefSection, BriefText, is_remainder
from engrambus.knowledge.brief.values import Brief, BriefMade, BriefReads
from engrambus.knowledge.engrams import Engram, FindStale
from engrambus.knowledge.messages import inbox_of
from engrambus.policy import ROLES, Account, Caller, Payers
from engrambus.policy.grants import balance_of, handle_of, journalled_grant
from engrambus.policy.reservations import SeenReservation, describe, overlaps

GRANTS_WEIGHT = 2
MAX_ATTEMPTS = 4
"""Times that a brief is put together without engrams that turned out to be stale, before all are compared."""
RECENT_VERSIONS = 8
"""The last versions among which the present lines are looked for."""
RESERVATION = "reservation"
NOTHING_KNOWN = "Nothing is known yet. Put what you find, with a pointer to it."
_HAVE_CHILDREN = frozenset({"architect", "director", "manager"})


class BriefView(ContentsView, TimeReads, Protocol):
    """The reads of a store that the rules of the brief need."""


class ComposedBrief(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader is shown now, and which version it is."""

    text: BriefText
    made_for: str
    """The agent, if its brief differs from its role's; else empty."""
    stale_count: int = 0
    """Engrams that are left out because their evidence is changed or gone."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines that are kept as a version."""
        return self.text.lines()


class BriefReading(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a brief as its reader gets it, with the lines about the reader itself."""

    version: int
    text: BriefText
    stale_count: int = 0
    """Engrams that are left out because their evidence is changed or gone."""


def read_brief(
    view: BriefView,
    reader: Caller,
    *,
    payers: Payers | None,
    restrict: RestrictView,
    find_stale: FindStale,
    since: int | None = None,
    seen: BriefView | None = None,
    reserved: Sequence[SeenReservation] = (),
    tasks: Sequence[str] = (),
) -> tuple[list[BriefMade], BriefReading]:
    """Return a brief as of now; a new version is recorded if its lines changed.

    The reader is an agent, or a role if its name is empty. With `since`, the lines are the differences to that version.
    The reader's budgets and grants follow either way; they are not part of a version, because they change with every
    read. `view` shows what the reader's role sees; `seen` what the caller sees of that, if its own role has a rule
    (decision 50): it is shown no line beyond that. Engrams that `find_stale` returns are left out (decision 84).
    `reserved` are the reservations of others that it may see, `tasks` lines about what it has to do.
    """
    run_id, role = reader.run.run_id, reader.role
    composed = compose_brief(view, reader, restrict, find_stale)
    facts: list[BriefMade] = []
    version = current_version(view, reader, composed)
    # A version is recorded only when a reader sees a change, so a run of puts does not write a brief for each.
    if version is None:
        last = view.brief(run_id, role, None)
        version = last.version + 1 if last else 1
        facts.append(BriefMade(run=run_id, role=role, version=version, lines=composed.lines, agent=composed.made_for))
    shown = composed if seen is None else compose_brief(seen, reader, restrict, find_stale)
    text = shown.text
    if since is not None:
        old = find_version(view, reader, since, "since").lines
        present = text.lines()
        text = _changes_text(visible_lines(old, present, seen), present)
    text = msgspec.structs.replace(
        text,
        closing=(
            *text.closing,
            *_stale_lines(shown.stale_count),
            *_mail_lines(view, reader),
            *map(shorten, tasks),
            *map(_budget_line, payers.accounts[:1] if payers is not None else ()),
        ),
        grants=BriefSection(
            items=[*_reserved_items(view, reader, reserved), *_grant_items(view, reader)][:MAX_LINES],
            weight=GRANTS_WEIGHT,
        ),
    )
    return facts, BriefReading(version=version, text=text, stale_count=shown.stale_count)


def compose_brief(view: BriefView, reader: Caller, restrict: RestrictView, find_stale: FindStale) -> ComposedBrief:
    """Return a brief as of now, from the engrams the reader may see and whose evidence still holds."""
    lookup = StaleLookup(find_stale)
    candidates = read_candidates(view, reader)
    bundles = pointer_bundles(view, msgspec.structs.replace(reader, name=""), restrict, lookup)
    of_role = _current_text(reader, candidates, UsedPaths(), bundles, lookup)
    if not reader.name:
        return ComposedBrief(text=of_role, made_for="", stale_count=lookup.count(candidates.engrams))
    paths, own_bundles = used_paths(view, reader), pointer_bundles(view, reader, restrict, lookup)
    if not paths.files and own_bundles == bundles:
        return ComposedBrief(text=of_role, made_for="", stale_count=lookup.count(candidates.engrams))
    if paths.files:
        candidates = add_engrams_about(view, reader, candidates, paths)
    of_agent = _current_text(reader, candidates, paths, own_bundles, lookup)
    is_same = same_lines(of_agent.lines(), of_role.lines())
    made_for = "" if is_same else reader.name
    return ComposedBrief(text=of_agent, made_for=made_for, stale_count=lookup.count(candidates.engrams))


class StaleLookup:
    """The states of the engrams of one brief, each looked up once."""

    def __init__(self, find_stale: FindStale) -> None:
        self.stale: dict[str, Staleness] = {}
        self._find_stale = find_stale
        self._compared: set[str] = set()

    def __call__(self, engrams: Sequence[Engram]) -> Mapping[str, Staleness]:
        """Look up those of these engrams that were not yet, and return all that are known to be stale."""
        unknown = [engram for engram in engrams if engram.id not in self._compared]
        if unknown:
            self._compared.update(engram.id for engram in unknown)
            self.stale |= self._find_stale(unknown)
        return self.stale

    def count(self, engrams: Sequence[Engram]) -> int:
        """Return how many of these are known to be stale."""
        return sum(engram.id in self.stale for engram in engrams) if self.stale else 0


def _current_text(
    reader: Caller, candidates: Candidates, paths: UsedPaths, bundles: PointerBundles, lookup: StaleLookup
) -> BriefText:
    """Return a brief that shows no stale engram but pinned ones, and says of these that they are."""
    # decision 84: only what would be shown is compared with the files; what takes its place is compared in turn
    for attempt in range(MAX_ATTEMPTS + 1):
        stale_before = len(lookup.stale)
        text = _text(reader, engram_sections(candidates, reader.role, paths, lookup.stale), bundles)
        if attempt == MAX_ATTEMPTS:
            break
        lookup([item.engram for item in text.parts()[0] if item.engram is not None])
        if len(lookup.stale) == stale_before:
            break
        if attempt == MAX_ATTEMPTS - 1:
            lookup(candidates.engrams)
    return text


def _text(reader: Caller, sections: Sequence[BriefSection], bundles: PointerBundles) -> BriefText:
    return BriefText(
        opening=(f"Goal: {shorten(reader.run.goal)}",),
        sections=[*sections, bundles.for_children],
        closing=bundles.own,
        if_empty=NOTHING_KNOWN,
        # Where nobody sent pointers and there are no children, the bundle is what the brief has no room for.
        adds_pointers=not bundles.own and not bundles.for_children.items,
    )


def current_version(view: BriefReads, reader: Caller, composed: ComposedBrief) -> int | None:
    """Return the version that has the lines of a composed brief; None if no recent one has."""
    run_id, role, lines = reader.run.run_id, reader.role, composed.lines
    # decision 84: an edit that is undone, and two working trees that differ, lead back to lines that have a version
    for limit in (1, RECENT_VERSIONS):
        for brief in view.brief_versions(run_id, role, composed.made_for, limit=limit):
            if same_lines(brief.lines, lines):
                return brief.version
    return None


def visible_lines(lines: Sequence[str], present: Sequence[str], seen: object | None) -> tuple[str, ...]:
    """Return the lines of an older version that the caller may see."""
    # A line of text does not tell whose rule it was made under. For a caller with a rule (`seen`), only lines that its
    # brief has now are certain to be visible.
    return tuple(lines) if seen is None else tuple(line for line in lines if line in present)


def find_version(view: BriefReads, reader: Caller, version: int, field: str) -> Brief:
    """Return one version of the reader's brief or of its role's, or refuse the request's `field`."""
    brief = view.brief(reader.run.run_id, reader.role, version)
    if brief is None or brief.agent not in ("", reader.name):
        raise FieldValue(f"This brief has no version {version}.", field=field, used=version)
    return brief


def list_versions(view: BriefReads, reader: Caller, *, limit: int) -> list[Brief]:
    """Return the last versions of the reader's brief and of its role's, newest first."""
    run_id, role = reader.run.run_id, reader.role
    readers = dict.fromkeys(("", reader.name))
    versions = [brief for agent in readers for brief in view.brief_versions(run_id, role, agent, limit=limit)]
    return sorted(versions, key=lambda brief: brief.version, reverse=True)[:limit]


def last_role_briefed(view: BriefReads, run_id: str) -> str | None:
    """Return the role whose brief was made last in a run."""
    latest = [(brief.made_us, role) for role in ROLES if (brief := view.brief(run_id, role, None)) is not None]
    return max(latest)[1] if latest else None


def brief_diff(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return the lines that changed between two versions: `- ` was removed, `+ ` was added."""
    removed, added = _removed_and_added(old, new)
    return [*removed, *added]


def same_lines(old: Sequence[str], new: Sequence[str]) -> bool:
    """True if two briefs differ at most in their order and in what they do not show."""
    # decision 61: neither tells a reader anything new, so neither makes a version
    return not any(_removed_and_added(old, new))


def _removed_and_added(old: Sequence[str], new: Sequence[str]) -> tuple[list[str], list[str]]:
    old_lines, new_lines = set(old), set(new)
    return (
        [f"- {line}" for line in old if line not in new_lines and not is_remainder(line)],
        [f"+ {line}" for line in new if line not in old_lines and not is_remainder(line)],
    )


def _changes_text(old: Sequence[str], new: Sequence[str]) -> BriefText:
    labels = ("removed line", "new line")
    return BriefText(
        opening=(),
        sections=[
            BriefSection(items=[BriefItem(text=line, label=label) for line in lines], weight=1)
            for label, lines in zip(labels, _removed_and_added(old, new), strict=True)
        ],
    )


def _stale_lines(count: int) -> list[str]:
    """Return a line that says how many engrams are left out as stale, if any are."""
    # Not a line of a version: it changes with every edit, and what left is told by the lines that are missing.
    return [f"{count} claim{'s are' if count > 1 else ' is'} stale and left out: engrambus check."] if count else []


def _mail_lines(view: BriefView, reader: Caller) -> list[str]:
    """Return a line that says how much mail the reader has not seen, if there is any."""
    count = view.unseen(inbox_of(reader.run.run_id, reader.name)).count if reader.name else 0
    return [f"{count} message{'s wait' if count > 1 else ' waits'}: less_inbox."] if count else []


def _reserved_items(view: BriefView, reader: Caller, reserved: Sequence[SeenReservation]) -> list[BriefItem]:
    """Return a line for each reservation of others: those of files that the reader works on come first."""
    files = used_paths(view, reader).files if reserved else ()

    def is_near(seen: SeenReservation) -> bool:
        return any(overlaps(path, file) for path in seen.paths for file in files)

    nearest = sorted(reserved, key=lambda seen: not is_near(seen))
    return [BriefItem(text=shorten(f"[reserved] {describe(seen, view.as_of)}"), label=RESERVATION) for seen in nearest]


def _budget_line(account: Account) -> str:
    names = ("repo", "artifact", "sam", "put_tokens")
    remaining = {name: max(0, getattr(account.budget, name) - getattr(account.turn, name)) for name in names}
    return (
        f"Left this turn: {remaining['repo']} repo, {remaining['artifact']} artifact and {remaining['sam']} sam "
        f"dereferences, {account.tokens_left()} tokens; {remaining['put_tokens']} tokens to put."
    )


def _grant_items(view: BriefView, reader: Caller) -> list[BriefItem]:
    """Return a line for each grant that was made out or passed on to the reader and is still usable, newest first."""
    items = []
    for issued in reversed(view.grants_for(reader.run.run_id, reader.name)) if reader.name else ():
        left = balance_of(view, journalled_grant(view, issued, reader.project))
        if left.state == "usable":
            # Only a parent can pass a grant on, so only a parent needs its budget token.
            token = f" ({handle_of(issued.grant_id)})" if reader.role in _HAVE_CHILDREN else ""
            remaining = f"{left.tokens} tokens, {left.uses} use{'s' * (left.uses != 1)}"
            target = compact_ref(issued.pointer or issued.prefix or "")
            items.append(BriefItem(text=f"Granted: {target}, {remaining}{token}.", label="grant", ref=target))
    return items
