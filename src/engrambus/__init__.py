"""Shared memory and coordination bus for teams of AI agents.

from engrambus import Bus

with Bus.open() as bus:
    bus.put_engram("Refunds over 500 need a second approval.", at=["src/refunds.py:10-20"], kind="constraint")
    for engram in bus.query_engrams("refund approval").engrams:
        print(engram.claim)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports
from engrambus.version import __version__


def __dir__() -> list[str]:
    return sorted(__all__)


if TYPE_CHECKING:
    from engrambus.app import init_project
    from engrambus.edges.sdk import Bus, LimitWarning, Worker
    from engrambus.edges.sdk.hooks import Accepted, Found, Hooks, Refused, Rejected, Retrieved, Sent
    from engrambus.errors import EngramBusError
    from engrambus.evidence.pointers import DerefAnswer, Pointer
    from engrambus.knowledge.engrams import Engram, Kind, Provenance
    from engrambus.operations.engram_queries import QueryAnswer
    from engrambus.operations.engrams import PutEngram
    from engrambus.policy import Role, Scope
    from engrambus.settings import Settings
    from engrambus.space.catalog import yool
    from engrambus.space.tuples.primitive_hooks import PrimitiveCall, PrimitiveHook, PrimitiveOutcome, Veto

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "app": "init_project",
        "edges.sdk": "Bus LimitWarning Worker",
        "edges.sdk.hooks": "Accepted Found Hooks Refused Rejected Retrieved Sent",
        "errors": "EngramBusError",
        "evidence.pointers": "DerefAnswer Pointer",
        "knowledge.engrams": "Engram Kind Provenance",
        "operations.engram_queries": "QueryAnswer",
        "operations.engrams": "PutEngram",
        "policy": "Role Scope",
        "settings": "Settings",
        "space.catalog": "yool",
        "space.tuples.primitive_hooks": "PrimitiveCall PrimitiveHook PrimitiveOutcome Veto",
    })

__all__ = [
    "Accepted", "Bus", "DerefAnswer", "Engram", "EngramBusError", "Found", "Hooks", "Kind", "LimitWarning", "Pointer",
    "PrimitiveCall", "PrimitiveHook", "PrimitiveOutcome", "Provenance", "PutEngram", "QueryAnswer", "Refused",
    "Rejected", "Retrieved", "Role", "Scope", "Sent", "Settings", "Veto", "Worker", "__version__", "init_project",
    "yool",
]
