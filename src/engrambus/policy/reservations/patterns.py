"""Patterns of paths: how a reservation names files, and whether two patterns name a file in common.

`*` and `?` stand for characters of one name, `**` for any number of names, as in git's glob pathspecs. Everything else
is literal, brackets too: frameworks call files `app/[id]/page.tsx`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar

from engrambus.core import nfc
from engrambus.errors import ReservationPath

MAX_PATH_CHARS = 900
MAX_DEPTH = 40
"""Names of one path: comparing two patterns takes time by the product of theirs."""
ANY_DEPTH = "**"
EVERYTHING_BELOW = "/**"
_WILDCARDS = frozenset("*?")
_FROM_ROOT = "Give paths from the root of the repository: src/billing/refunds.py, src/billing/**, **/*.sql."

T = TypeVar("T")


def read_path_pattern(text: str, is_folder: Callable[[str], bool], field: str = "paths") -> str:
    """Return a path or pattern in its one spelling: composed, from the root, a folder with everything below it.

    `is_folder` tells whether a path is a folder in the project.
    """
    if len(text) > MAX_PATH_CHARS:
        raise ReservationPath("The path is too long.", field=field, limit=MAX_PATH_CHARS, used=len(text))
    if text.startswith("/") or any(character < " " for character in text):
        raise ReservationPath(f"'{text}' is not a path inside the repository.", field=field, hint=_FROM_ROOT)
    names = [name for name in nfc(text).split("/") if name not in ("", ".")]
    if not text.strip() or ".." in names:
        raise ReservationPath(f"'{text}' is not a path inside the repository.", field=field, hint=_FROM_ROOT)
    if len(names) > MAX_DEPTH:
        raise ReservationPath("The path is too deep.", field=field, limit=MAX_DEPTH, used=len(names))
    # `a/**/**/b` names the same files as `a/**/b`.
    once = [name for index, name in enumerate(names) if name != ANY_DEPTH or names[index - 1 : index] != [ANY_DEPTH]]
    path = "/".join(once) or ANY_DEPTH
    return path + EVERYTHING_BELOW if not has_wildcard(path) and is_folder(path) else path


def has_wildcard(pattern: str) -> bool:
    """True if a pattern may name more than one file."""
    return not _WILDCARDS.isdisjoint(pattern)


def names_everything(pattern: str) -> bool:
    """True if a pattern has no literal part, so that it names files all over the repository."""
    return set(pattern) <= {"*", "?", "/"}


def without_depth(pattern: str) -> str:
    """Return the folder of a pattern that ends with everything below it; any other pattern as it is."""
    return pattern.removesuffix(EVERYTHING_BELOW)


@lru_cache(maxsize=4096)
def overlaps(first: str, second: str) -> bool:
    """True if some path fits both patterns.

    A file system may not tell upper case from lower (decision 73), so spellings that differ in case count as the same.
    """
    return _overlap(first.casefold().split("/"), second.casefold().split("/"), ANY_DEPTH, _names_overlap)


def _names_overlap(first: str, second: str) -> bool:
    if ("*" in first) == ("*" in second):
        return _overlap(first, second, "*", _characters_overlap)
    pattern, name = (first, second) if "*" in first else (second, first)
    if "?" in name:
        # As if its `?` were `*`: this may find an overlap where there is none, and takes no longer than reading both.
        return _overlap(pattern, name.replace("?", "*"), "*", _characters_overlap)
    return _fits(pattern, name)


def _fits(pattern: str, name: str) -> bool:
    """True if a pattern with `*` fits a name; each part between two of them is taken as early as it fits."""
    # Searched by str and re, not character by character: under the write lock, hostile patterns must not take long.
    head, *parts, tail = pattern.split("*")
    position, end = len(head), len(name) - len(tail)
    if position > end or not _equal(head, name[:position]) or not _equal(tail, name[end:]):
        return False
    for part in parts:
        found = _literal(part).search(name, position, end)
        if found is None:
            return False
        position = found.end()
    return True


def _equal(pattern: str, text: str) -> bool:
    return len(pattern) == len(text) and all(map(_characters_overlap, pattern, text))


@lru_cache(maxsize=1024)
def _literal(part: str) -> re.Pattern[str]:
    return re.compile(".".join(map(re.escape, part.split("?"))), re.DOTALL)


def _characters_overlap(first: str, second: str) -> bool:
    return first == second or "?" in (first, second)


def _overlap(first: Sequence[T], second: Sequence[T], star: T, fits: Callable[[T, T], bool]) -> bool:
    """True if two sequences, in which `star` stands for any number of items, can stand for the same items."""
    if star in first and star in second:
        # Between its first and last star each can stand for everything the other one asks for.
        return _begin_alike(first, second, star, fits) and _begin_alike(first[::-1], second[::-1], star, fits)
    if star in second:
        first, second = second, first
    if star not in first:
        return len(first) == len(second) and all(map(fits, first, second))
    return _matches(first, second, star, fits)


def _begin_alike(first: Sequence[T], second: Sequence[T], star: T, fits: Callable[[T, T], bool]) -> bool:
    return all(map(fits, first[: first.index(star)], second[: second.index(star)]))


def _matches(pattern: Sequence[T], items: Sequence[T], star: T, fits: Callable[[T, T], bool]) -> bool:
    """True if a pattern with stars fits items without any; each part between stars is taken as early as it fits."""
    position = index = 0
    retry_pattern, retry_items = -1, 0
    while index < len(items):
        if position < len(pattern) and pattern[position] == star:
            retry_pattern, retry_items = position, index
            position += 1
        elif position < len(pattern) and fits(pattern[position], items[index]):
            position, index = position + 1, index + 1
        elif retry_pattern >= 0:
            retry_items += 1
            position, index = retry_pattern + 1, retry_items
        else:
            return False
    return all(item == star for item in pattern[position:])
