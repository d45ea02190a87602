"""Hooks for orchestrators: to call when a child answers, a parent speaks, or something was looked up for an agent."""

from stigmergy.edges.hooks.hooks import Hooks
from stigmergy.edges.hooks.outcomes import (
    Accepted,
    ChildOutcome,
    Found,
    FoundOutcome,
    Refused,
    Rejected,
    Sent,
    SentOutcome,
)
from stigmergy.edges.hooks.retrieved import Retrieved

__all__ = [
    "Accepted",
    "ChildOutcome",
    "Found",
    "FoundOutcome",
    "Hooks",
    "Refused",
    "Rejected",
    "Retrieved",
    "Sent",
    "SentOutcome",
]
