"""Shared memory and coordination bus for teams of AI agents.

from engrambus import Bus

with Bus.open() as bus:
    bus.put_engram("Refunds over 500 need a second approval.", at=["src/refunds.py:10-20"], kind="constraint")
    for engram in bus.query_engrams("refund approval").engrams:
        print(engram.claim)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engrambus.doors import opened_late
from engrambus.version import __version__

if TYPE_CHECKING:
    from engrambus.app import init_project
    from engrambus.edges.client import Bus, Worker
    from engrambus.edges.hooks import Accepted, Found, Hooks, Refused, Rejected, Retrieved, Sent
    from engrambus.errors import EngramBusError
    from engrambus.evidence.pointers import Pointer
    from engrambus.knowledge.engrams import Engram, Kind, Provenance
    from engrambus.operations.asking import QueryAnswer
    from engrambus.operations.engrams import PutEngram
    from engrambus.operations.pointers import DerefAnswer
    from engrambus.policy import Role, Scope
    from engrambus.settings import Settings
    from engrambus.space.catalog import yool
else:
    __getattr__ = opened_late(
        __name__,
        {
            "app": "init_project",
            "edges.client": "Bus Worker",
            "edges.hooks": "Accepted Found Hooks Refused Rejected Retrieved Sent",
            "errors": "EngramBusError",
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
    "EngramBusError",
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
    "Worker",
    "__version__",
    "init_project",
    "yool",
]


def __dir__() -> list[str]:
    return sorted(__all__)
