"""The values of the brief, the fact of a version in the journal, and the reads of a back end that briefs need.

This module imports little, because every command decodes the facts of the journal and so loads it.
"""

from __future__ import annotations

from typing import Protocol

import msgspec


class BriefMade(msgspec.Struct, frozen=True, kw_only=True, tag="brief.made", tag_field="fact", omit_defaults=True):
    """The brief of a role, or of one agent, changed."""

    run: str
    role: str
    version: int
    lines: tuple[str, ...]
    agent: str = ""
    """The agent whose brief differs from its role's; empty for the role's own."""


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a brief."""

    version: int
    made_us: int
    lines: tuple[str, ...]
    agent: str = ""
    """The agent it was made for; empty for every agent of the role."""


class BriefReads(Protocol):
    """The reads of a back end that briefs need."""

    # decision 61: the versions of a role and of its agents are numbered together
    def brief(self, run_id: str, role: str, version: int | None) -> Brief | None:
        """Return a version of a role's brief, made for any agent of it; the last one without a version."""
        ...

    def brief_versions(self, run_id: str, role: str, agent: str, *, limit: int) -> list[Brief]:
        """Return the last versions that were made for an agent, newest first; with an empty name, for the role."""
        ...

    def agent_paths(self, run_id: str, agent: str, *, limit: int) -> list[str]:
        """Return the paths of files that an agent read or pointed at, as refs write them, the last used first."""
        ...
