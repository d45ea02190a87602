"""The engrams that a decision, a message, a contribution or a review is based on, and what used an engram."""

from __future__ import annotations

from collections.abc import Sequence

from engrambus.errors import EngramBusError, UsedUnresolved, UsedUntrusted
from engrambus.knowledge.engrams.facts import EngramsUsed
from engrambus.knowledge.engrams.finding import find_visible
from engrambus.knowledge.engrams.ports import EngramUse, UseReads, VisibleStore
from engrambus.knowledge.engrams.values import UserKind, has_evidence
from engrambus.policy import ADMIN, UNTRUSTED_SPACE, Caller, LimitChecks, confirmed_space

MAX_COUNTED = 50
"""Uses of one engram that are looked at, the newest first."""


def find_used(
    stores: Sequence[VisibleStore], ids: Sequence[str], limits: LimitChecks, field: str = "used"
) -> tuple[str, ...]:
    """Return the whole ids of the engrams that an author used; refuse one that is not there or not visible.

    The author is warned of one without evidence or confirmation: a conclusion may not rest on it alone.
    """
    # decision 62: what has expired or was forgotten cannot be read, so nobody can base anything on it now
    found = []
    for position, engram_id in enumerate(ids):
        try:
            stored = find_visible(stores, engram_id, f"{field}[{position}]")[1]
        except EngramBusError as refusal:
            refusal.used = engram_id
            refusal.hint = refusal.hint or "Name engrams as `less.query_engrams` shows them, or leave it out."
            raise
        engram = stored.engram
        if engram.id in found:
            continue
        if stored.space == UNTRUSTED_SPACE:
            detail = f"{engram.id} came from elsewhere and no person here has confirmed it."
            hint = "Check its evidence and put the claim yourself with `at`, or ask a person to confirm it."
            limits.applied(UsedUntrusted(detail, field=f"{field}[{position}]", used=engram.id, hint=hint))
        elif confirmed_space(stored.space) is not None:
            detail = f"{engram.id} was taken from an agent's prose and is not confirmed."
            hint = "Check its evidence and put the claim yourself with `at`, which confirms it."
            limits.applied(UsedUntrusted(detail, field=f"{field}[{position}]", used=engram.id, hint=hint))
        elif not has_evidence(engram):
            detail = f"Nothing was found behind the pointers of {engram.id}, so it is no evidence."
            hint = "Confirm it with lines that show it: put the claim again with `at`."
            limits.applied(UsedUnresolved(detail, field=f"{field}[{position}]", used=engram.id, hint=hint))
        found.append(engram.id)
    return tuple(found)


def used_facts(caller: Caller, kind: UserKind, item: str, engram_ids: Sequence[str]) -> list[EngramsUsed]:
    """Return the fact that something used engrams; none if it named none."""
    if not engram_ids:
        return []
    return [
        EngramsUsed(kind=kind, item=item, run=caller.run.run_id, agent=caller.name, engrams=tuple(engram_ids)),
    ]


def visible_uses(view: UseReads, stores: Sequence[VisibleStore], caller: Caller, engram_id: str) -> list[EngramUse]:
    """Return what used an engram, the newest first, as far as the caller may know of it.

    An engram that used it is shown to those who see that engram; everything else to agents of the same run.
    """

    def is_visible(use: EngramUse) -> bool:
        if use.kind == "engram":
            return any(store.reads.find(store.spaces, use.item) is not None for store in stores)
        return caller.role == ADMIN or use.run == caller.run.run_id

    return [use for use in view.uses(engram_id, limit=MAX_COUNTED) if is_visible(use)]
