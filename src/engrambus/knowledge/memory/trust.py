"""What a trust snapshot denies, and nothing that it does not say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from engrambus.core import read_json
from engrambus.errors import EngramBusError, TrustSnapshotInvalid

MAX_SNAPSHOT = 64 * 1024 * 1024


class Denied(msgspec.Struct, frozen=True):
    """Which records are left out."""

    ids: frozenset[str] = frozenset()
    hashes: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.ids or self.hashes)

    def denies(self, memory_id: str, record_hash: str) -> bool:
        """Whether a record is left out."""
        return memory_id in self.ids or record_hash in self.hashes


def read_denied(content: bytes, classifications: Iterable[str]) -> Denied:
    """The records a snapshot puts in one of these classes."""
    field = "trust_filter.trust_snapshot_path"
    try:
        said = read_json(content, max_bytes=MAX_SNAPSHOT)
    except EngramBusError as problem:
        raise TrustSnapshotInvalid(f"The trust snapshot cannot be read: {problem.detail}", field=field) from None
    items = said.get("items") if isinstance(said, dict) else None
    if not isinstance(items, list):
        raise TrustSnapshotInvalid("The trust snapshot has no list `items`.", field=field)
    classes = frozenset(classifications)
    ids: set[str] = set()
    hashes: set[str] = set()
    for position, item in enumerate(items):
        named, kind = _item(item)
        if not named or not isinstance(kind, str):
            raise TrustSnapshotInvalid(
                f"items[{position}] of the trust snapshot names no record, or no classification.", field=field
            )
        if kind in classes:
            ids.update(named.get("memory_id", ()))
            hashes.update(named.get("record_hash", ()))
    return Denied(frozenset(ids), frozenset(hashes))


def _item(item: Any) -> tuple[dict[str, tuple[str]], Any]:
    if not isinstance(item, dict):
        return {}, None
    named = {name: (item[name],) for name in ("memory_id", "record_hash") if isinstance(item.get(name), str)}
    return named, item.get("classification")
