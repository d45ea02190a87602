"""The rules of replacing: which engram a newer one may take the place of, and who may decide that (decision 77).

Each rule takes a view of the store under the write lock and returns facts.
"""

from __future__ import annotations

from engrambus.errors import AlreadyReplaced, FieldValue, PinReplaced, RoleForbidden, ScopeForbidden
from engrambus.knowledge.engrams.approvals import check_trusted
from engrambus.knowledge.engrams.facts import EngramReplaced
from engrambus.knowledge.engrams.finding import find_engram
from engrambus.knowledge.engrams.lifecycle import every_space
from engrambus.knowledge.engrams.ports import EngramReads, EngramView, StoredEngram
from engrambus.knowledge.engrams.values import Engram
from engrambus.policy import (
    ADMIN,
    PROJECT_SPACE,
    Caller,
    IdentityReads,
    LimitChecks,
    descends,
    visible_spaces,
)


def find_older(view: EngramView, engram_id: str | None, caller: Caller, replaced: set[str]) -> StoredEngram | None:
    """Return the engram that a newer one of this caller is to replace, if it names one; or refuse.

    `replaced` are the ids that other engrams of the same commit replace; this one is added to it.
    """
    if engram_id is None:
        return None
    if engram_id.startswith("sam:"):
        raise FieldValue(
            "A memory is not replaced by an engram.",
            field="replaces",
            used=engram_id,
            hint="Keep a new version of it: `sam.keep` with the same kind and slug.",
        )
    stored = find_engram(view, every_space(visible_spaces(caller)), engram_id, "replaces")
    check_trusted(stored, "replaced", "replaces")
    if not may_decide_on(view, caller, stored.engram):
        author = stored.engram.provenance.created_by
        raise RoleForbidden(
            f"Only its author, a parent of its author or a person replaces an engram; this one is by {author}.",
            field="replaces",
            limit=author,
            used=caller.full_name,
            hint="Put your claim without `replaces`: it stands beside the other one, and a parent or a person decides.",
        )
    if stored.engram.id in replaced:
        raise AlreadyReplaced("Another engram of the same commit replaces it.", field="replaces", used=stored.engram.id)
    replaced.add(stored.engram.id)
    return stored


def may_decide_on(view: IdentityReads, caller: Caller, engram: Engram) -> bool:
    """True for the author of an engram, for its parents in the same run, and for a person."""
    if caller.role == ADMIN:
        return True
    run, _, name = engram.provenance.created_by.rpartition("/")
    return run == caller.run.run_id and name != ADMIN and descends(view, caller, name)


def replace_older(
    view: EngramReads, older: StoredEngram | None, newer: Engram, caller: Caller, limits: LimitChecks
) -> list[EngramReplaced]:
    """Return the fact that a newer engram replaces an older one; refuse if fewer would see it than the older one."""
    if older is None:
        return []
    if older.engram.id == newer.id or is_unchanged(older.engram, newer):
        raise FieldValue(
            "The engram would replace itself: claim, kind and pointers are the same.",
            field="replaces",
            used=older.engram.id,
            hint=f"`engram.confirm` says that {older.engram.id} still holds.",
        )
    # A run's claim is seen by that run alone; everybody else would lose the older one and get nothing for it.
    if older.space == PROJECT_SPACE and newer.scope == "run":
        raise ScopeForbidden(
            "An engram of the project cannot be replaced by one that only this run sees.",
            field="scope",
            limit="project",
            used=newer.scope,
            hint="Put it with scope project, or without `replaces`.",
        )
    pinned = older.ordinal in view.pinned((older.space,))
    if pinned:
        # A pin says that a person holds to exactly this claim, so it does not pass to another one.
        detail = f"The pinned engram {older.engram.id} was replaced; the newer one, {newer.id}, is not pinned."
        limits.applied(PinReplaced(detail, field="replaces", used=older.engram.id, hint="A person pins it again."))
    return [replaced_fact(older, newer.id, caller, pinned=pinned)]


def replaced_fact(older: StoredEngram, replaced_by: str, caller: Caller, *, pinned: bool) -> EngramReplaced:
    """Return the fact that something took the place of an engram."""
    return EngramReplaced(
        id=older.engram.id,
        space=older.space,
        replaced_by=replaced_by,
        by=caller.full_name,
        run=caller.run.run_id,
        pinned=pinned,
    )


def is_unchanged(older: Engram, newer: Engram) -> bool:
    """True if two engrams say the same about the same places."""
    return (older.claim, older.kind, older.pointers) == (newer.claim, newer.kind, newer.pointers)
