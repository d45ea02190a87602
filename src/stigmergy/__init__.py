"""Shared memory and coordination bus for teams of AI agents.

from stigmergy import Bus

with Bus.open() as bus:
    bus.put_engram("Refunds over 500 need a second approval.", at=["src/refunds.py:10-20"], kind="constraint")
    for engram in bus.query_engrams("refund approval").engrams:
        print(engram.claim)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stigmergy.doors import opened_late
from stigmergy.version import __version__

if TYPE_CHECKING:
    from stigmergy.app import init_project
    from stigmergy.edges.client import Bus, Worker
    from stigmergy.edges.hooks import Accepted, Found, Hooks, Refused, Rejected, Retrieved, Sent
    from stigmergy.errors import StigmergyError
    from stigmergy.evidence.pointers import Pointer
    from stigmergy.knowledge.engrams import Engram, Kind, Provenance
    from stigmergy.operations.asking import QueryAnswer
    from stigmergy.operations.engrams import PutEngram
    from stigmergy.operations.pointers import DerefAnswer
    from stigmergy.policy import Role, Scope
    from stigmergy.settings import Settings
    from stigmergy.space.catalog import yool
else:
    __getattr__ = opened_late(
        __name__,
        {
            "app": "init_project",
            "edges.client": "Bus Worker",
            "edges.hooks": "Accepted Found Hooks Refused Rejected Retrieved Sent",
            "errors": "StigmergyError",
            "evidence.pointers": "Pointer",
            "knowledge.engrams": "Engram Kind Provenance",
            "operations.asking": "QueryAnswer",
            "operations.engrams": "PutEngram",
            "operations.pointers": "DerefAnswer",
            "policy": "Role Scope",
            "settings": "Settings",
            "space.catalog": "yool",
        },
    )

__all__ = [
    "Accepted",
    "Bus",
    "DerefAnswer",
    "Engram",
    "Found",
    "Hooks",
    "Kind",
    "Pointer",
    "Provenance",
    "PutEngram",
    "QueryAnswer",
    "Refused",
    "Rejected",
    "Retrieved",
    "Role",
    "Scope",
    "Sent",
    "Settings",
    "StigmergyError",
    "Worker",
    "__version__",
    "init_project",
    "yool",
]


def __dir__() -> list[str]:
    return sorted(__all__)
