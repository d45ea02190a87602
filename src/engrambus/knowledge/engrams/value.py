"""The value of an engram: how many others used it, confirmed it, or based accepted work on it.

decision 89: others are counted by their roots of the agent hierarchy, each once, and never the author's own, so that no
agent and no team can raise the value of what it said itself. Only what everybody who sees the engram may know counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from engrambus.policy import ADMIN, UNTRUSTED_SPACE, confirmed_space

MAX_VALUE = 7
MAX_COUNTED_ROOTS = 15
"""Others of one sort that are counted: uses alone give at most 4, confirmations alone 5, accepted work alone 6."""
MAX_VALUED_USES = 256
"""Uses of one engram that are read, the newest first."""


class ValuedUse(NamedTuple):
    """One use of an engram, with what its value depends on."""

    root: str
    """Full name of the topmost ancestor of the agent that used it."""
    run_space: str
    """The space of the run in which it was used."""
    in_project: bool
    """True if what used it is an engram that is live in the project's space."""
    accepted: bool
    """True if what used it is a contribution that was accepted, or its review."""


def value_of(uses: int, votes: int, accepted: int) -> int:
    """Return the value, from 0 to 7, of an engram that so many others used, confirmed and had work accepted with.

    It grows by one each time their weighted number doubles: a confirmation weighs two uses, accepted work four.
    """
    counted = [min(max(count, 0), MAX_COUNTED_ROOTS) for count in (uses, votes, accepted)]
    return min((counted[0] + 2 * counted[1] + 4 * counted[2]).bit_length(), MAX_VALUE)


def value_in_space(space: str, author_root: str, uses: Iterable[ValuedUse], voters: Iterable[str]) -> int:
    """Return the value of an engram of a space; `voters` are the roots that confirmed it, by their full names.

    Untrusted and unconfirmed engrams have none.
    """
    if space == UNTRUSTED_SPACE or confirmed_space(space) is not None:
        return 0
    author = _person(author_root)
    counted = [use for use in uses if _is_inside(space, use) and _person(use.root) != author]
    return value_of(
        len({_person(use.root) for use in counted}),
        len({_person(root) for root in voters} - {author}),
        len({_person(use.root) for use in counted if use.accepted}),
    )


def _is_inside(space: str, use: ValuedUse) -> bool:
    """True if everybody who sees an engram of this space may know of the use.

    Inside a run that is all that happens there. The project sees its engrams, and the memories that accepted
    contributions became; a run's own engrams and messages must not change what other runs find.
    """
    if space.startswith("r"):
        return use.run_space == space
    return use.in_project or use.accepted


def _person(root: str) -> str:
    """Return the name of a root; the admin is one person in all runs."""
    return ADMIN if root.rpartition("/")[2] == ADMIN else root
