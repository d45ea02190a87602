"""Hooks for orchestrators: to call when a child answers, a parent speaks, or something was looked up for an agent."""

from engrambus.edges.hooks.hooks import Hooks
from engrambus.edges.hooks.outcomes import (
    Accepted,
    ChildOutcome,
    Found,
    FoundOutcome,
    Refused,
    Rejected,
    Sent,
    SentOutcome,
)
from engrambus.edges.hooks.retrieved import Retrieved

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
