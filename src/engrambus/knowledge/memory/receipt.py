"""The receipt of a read, and its price in tokens of the caller's turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engrambus.knowledge.memory.values import ContextPackage, MemoryRead, MemoryReadData
from engrambus.policy import ADMIN, Caller, ContentDrawn, DerefBudget, TurnReads, check_tokens, present_turn


class ReceiptView(TurnReads, Protocol):
    """The part of a store that the rule reads under the write lock."""

    @property
    def as_of(self) -> int:
        """The time of the commit in microseconds, by the project's clock."""
        ...


def record_read(
    view: ReceiptView, package: ContextPackage, store_paths: Sequence[str], *, caller: Caller, budget: DerefBudget
) -> list[MemoryRead | ContentDrawn]:
    """Charge the excerpts to the caller's turn and return the facts; the receipt holds no content of the stores."""
    turn = present_turn(view.turn(caller.run.run_id, caller.name), view.as_of)
    tokens = package.budget.used_excerpt_tokens
    if caller.role != ADMIN:
        check_tokens(turn, budget, tokens)
    receipt = MemoryRead(
        data=MemoryReadData(
            query_hash=package.query.query_hash,
            store_paths=sorted(set(store_paths)),
            selected_count=len(package.selection.selected),
            package_hash=package.package_hash,
        )
    )
    return [receipt, ContentDrawn(run=caller.run.run_id, agent=caller.name, turn=turn.number, tokens=tokens)]
