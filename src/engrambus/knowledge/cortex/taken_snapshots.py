"""Snapshots that were taken: who may see one again, and how it is put together again from what the journal has.

Versions of memories and claims of engrams never change, so a snapshot's recipe holds their ids, and no text is stored
twice (decision 109).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from engrambus.core import is_hex, print_time
from engrambus.errors import SnapshotNotFound
from engrambus.knowledge.cortex.ports import CortexView
from engrambus.knowledge.cortex.snapshots import (
    Redaction,
    SharedContextSnapshot,
    SnapshotItem,
    SnapshotLimits,
    SnapshotScope,
    engram_item,
    episode_item,
)
from engrambus.knowledge.cortex.values import SnapshotPart, SnapshotTaking
from engrambus.knowledge.engrams import Engram
from engrambus.policy import ADMIN, Caller, descends
from engrambus.policy.secrets import SecretRules, redact

FindEngram = Callable[[str], Engram | None]
"""Returns an engram that the caller may see, also one that was replaced; None if there is none."""


def visible_takings(view: CortexView, snapshot_id: str, caller: Caller) -> list[SnapshotTaking]:
    """Return who took a snapshot, as far as the caller may know: itself, for itself or by a parent, or a descendant."""
    return [taking for taking in view.snapshot_takings(snapshot_id) if _may_see(view, taking, caller)]


def _may_see(view: CortexView, taking: SnapshotTaking, caller: Caller) -> bool:
    if caller.role == ADMIN:
        return True
    if taking.run != caller.run.run_id:
        return False
    return taking.by == caller.full_name or descends(view, caller, taking.heir)


def find_snapshot(
    view: CortexView, snapshot_id: str, *, caller: Caller, find_engram: FindEngram, rules: SecretRules
) -> SharedContextSnapshot:
    """Return a snapshot as it was taken; one that the caller may not see looks absent.

    What was forgotten or hidden from the caller since then is left out and named in `missing`.
    """
    visible = visible_takings(view, snapshot_id, caller)
    recipe = next((taking.recipe for taking in view.snapshot_takings(snapshot_id) if taking.recipe is not None), None)
    if not visible or recipe is None:
        raise SnapshotNotFound(field="id", hint="`inherit` prints the id of the snapshot that it takes.")
    items: list[SnapshotItem] = []
    redactions: list[Redaction] = []
    missing: list[str] = []
    for part in recipe.parts:
        item = _item(view, part, find_engram)
        if item is None:
            missing.append(part.id)
            continue
        content, secrets = redact(item.content, rules)
        redactions += [Redaction(item=len(items), kind=secret.kind) for secret in secrets]
        items.append(msgspec.structs.replace(item, content=content))
    return SharedContextSnapshot(
        snapshot_id=snapshot_id,
        created_at=print_time(min(taking.taken_us for taking in visible)),
        source_session=recipe.source_session,
        scope=msgspec.convert(recipe.scope, SnapshotScope),
        items=tuple(items),
        redactions=tuple(redactions),
        limits=SnapshotLimits(max_chars=recipe.max_chars, max_items=recipe.max_items),
        left_out=recipe.left_out,
        missing=tuple(missing) or msgspec.UNSET,
    )


def _item(view: CortexView, part: SnapshotPart, find_engram: FindEngram) -> SnapshotItem | None:
    kind, separator, name = part.id.partition(":")
    if separator:
        slug, _, version = name.rpartition("@")
        episode = view.episode(kind, slug, version=int(version))
        return None if episode is None else episode_item(episode, part.origin)
    engram = find_engram(part.id)
    if engram is None:
        return None
    confidence = engram.confidence if part.confidence is None else part.confidence
    return engram_item(msgspec.structs.replace(engram, confidence=confidence, tags=part.tags), part.origin)


def names_snapshot(text: str) -> bool:
    """True if a text has the form of a snapshot's id."""
    return is_hex(text, 64)
