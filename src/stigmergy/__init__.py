"""Shared memory and coordination bus for teams of AI agents.

from stigmergy import Bus

with Bus.open() as bus:
    bus.put_engram("Refunds over 500 need a second approval.", at=["src/refunds.py:10-20"], kind="constraint")
    for engram in bus.query_engrams("refund approval").engrams:
        print(engram.claim)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

_DOORS = {
    "Accepted": "stigmergy.edges.hooks",
    "Bus": "stigmergy.edges.client",
    "DerefAnswer": "stigmergy.operations.pointers",
    "Engram": "stigmergy.knowledge.engrams",
    "Found": "stigmergy.edges.hooks",
    "Hooks": "stigmergy.edges.hooks",
    "Kind": "stigmergy.knowledge.engrams",
    "Pointer": "stigmergy.evidence.pointers",
    "Provenance": "stigmergy.knowledge.engrams",
    "PutEngram": "stigmergy.operations.engrams",
    "QueryAnswer": "stigmergy.operations.asking",
    "Refused": "stigmergy.edges.hooks",
    "Rejected": "stigmergy.edges.hooks",
    "Retrieved": "stigmergy.edges.hooks",
    "Role": "stigmergy.policy",
    "Scope": "stigmergy.policy",
    "Sent": "stigmergy.edges.hooks",
    "Settings": "stigmergy.settings",
    "StigmergyError": "stigmergy.errors",
    "Worker": "stigmergy.edges.client",
    "init_project": "stigmergy.app",
    "yool": "stigmergy.space.catalog",
}

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


def __getattr__(name: str) -> Any:
    """Fetch a name from its room when it is first asked for, so that importing the package costs nothing."""
    if name not in _DOORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_DOORS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
