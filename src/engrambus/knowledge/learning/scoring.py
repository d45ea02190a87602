"""How good a text is as knowledge: it says why, it limits, it is neither short nor long, and it is no routine."""

from __future__ import annotations

import re

MIN_CHARS = 24
"""A shorter text says nothing that helps without its surroundings."""

_WHY = re.compile(
    r"\b(?:because|so that|in order to|otherwise|to avoid|to prevent|prevent(?:s|ing)?|instead of|rather than|due to"
    r"|caused? by|causes|the reason|reasons?|work ?around|turns out|regression(?! (?:tests?|coverage))"
    r"|as a result|which (?:means|caused|broke)"
    r"|would (?:break|fail|be)|breaks|broken|no longer|unsafe|race|deadlock|leak(?:s|ed)?|incompatible|ambiguous"
    r"|surprising|unexpected|confusing|this (?:means|allows|fixes|avoids|ensures|makes)|previously|used to|since)\b",
    re.IGNORECASE,
)
_RULE = re.compile(
    r"\b(?:must(?:n't)?|never|always|only|should(?:n't)?|do not|don't|require[sd]?|requirement|forbidden|not allowed"
    r"|not supported|deprecated?|cannot|can't|at least|at most|by default|make sure|ensure|avoid|prefer|important"
    r"|warning|mandatory|needs? to|have to|has to|limit(?:ed)?|unless|except)\b",
    re.IGNORECASE,
)
_BREAKING = re.compile(
    r"\bBREAKING\b|\b(?:breaking|backwards?[- ]incompatib|drop(?:ped|s)? support|remove[sd]? support|deprecat"
    r"|removed?\b|renamed?\b|CVE-\d|security|vulnerab)",
    re.IGNORECASE,
)
_FIX = re.compile(r"\b(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|revert(?:s|ed)?)\b", re.IGNORECASE)
ROUTINE = re.compile(
    r"""^(?:merge\b|bump\b|release\b|prepare\b.*\brelease|version\b|v?\d+\.\d|start\ (?:version|v?\d)
    |update\ change(?:log|s)
    |\[pre-commit|pre-commit\ autoupdate|update\ (?:pre-commit|requirements|dependenc|lock|copyright|readme|authors)
    |(?:fix|correct)(?:e[sd])?\ (?:(?:a|the|some|minor|simple|few)\ )*
     (?:typos?|spelling|lint|flake8|whitespace|formatting)
    |typos?\b|wip\b|lint\b|run\ black|black\b|reformat|apply\ (?:black|ruff|pre-commit)|pep\s?8|flake8\b|whitespace
    |initial\ commit|first\ commit|cleanup\b\W*$|clean\ up\W*$|minor\b|oops|temp\b|test\W*$|tests\W*$|docs?\W*$|squash
    |fixup!|build\(deps|chore\(deps|chore:\ (?:bump|release|update)|requires?\ update|auto-?update|pyup
    |add(?:ed)?\ (?:a\ )?(?:change(?:log|s)|release\ notes?|news)\b|\w+\W*$)""",
    re.IGNORECASE | re.VERBOSE,
)
"""Subjects of commits that explain nothing."""
LICENSE = re.compile(
    r"\b(?:copyright|all rights reserved|SPDX-License|licen[cs]ed? under|permission is hereby granted"
    r"|without warranty)\b",
    re.IGNORECASE,
)


def quality(text: str) -> int:
    """Return the points of a text, roughly 0 to 60; below 0 it is not worth learning."""
    size = len(text)
    if size < MIN_CHARS or LICENSE.search(text):
        return -1
    why = min(3, len({match.group().lower() for match in _WHY.finditer(text)}))
    rules = min(3, len({match.group().lower() for match in _RULE.finditer(text)}))
    length = 6 if 60 <= size <= 400 else 2 if size < 60 else 3
    words = len(text.split())
    return 8 * why + 5 * rules + length + (5 if _BREAKING.search(text) else 0) - (10 if words < 4 else 0)


def rule_words(text: str) -> int:
    """Return how many different words of a text limit, demand or forbid something."""
    return len({match.group().lower() for match in _RULE.finditer(text)})


def why_words(text: str) -> int:
    """Return how many different words of a text introduce a reason."""
    return len({match.group().lower() for match in _WHY.finditer(text)})


def names_fix(text: str) -> bool:
    """True if a text says that something was repaired or taken back."""
    return _FIX.search(text) is not None
