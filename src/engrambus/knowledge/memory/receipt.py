"""The receipt of a read, and its price in tokens of the caller's turn."""

from __future__ import annotations

from collections.abc import Sequence

from engrambus.knowledge.memory.values import ContextPackage, MemoryRead, MemoryReadData
from engrambus.policy import ContentDrawn, Payers, TurnCharged, draw_content


def record_read(
    package: ContextPackage, store_paths: Sequence[str], payers: Payers
) -> list[MemoryRead | ContentDrawn | TurnCharged]:
    """Charge the excerpts to the caller's turn and return the facts; the receipt holds no content of the stores."""
    receipt = MemoryRead(
        data=MemoryReadData(
            query_hash=package.query.query_hash,
            store_paths=sorted(set(store_paths)),
            selected_count=len(package.selection.selected),
            package_hash=package.package_hash,
        )
    )
    return [receipt, *draw_content(payers, package.budget.used_excerpt_tokens)]
