"""The cache: what a step's result is found by, and whether what was found is still whole."""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from engrambus.core import digest_of
from engrambus.errors import LinkRefused, YoolArguments
from engrambus.evidence.receipts import BodyStore, Receipt, bodies_of, cache_key, input_hash
from engrambus.space.catalog import CatalogEntry

_PLACE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_CHUNK = 1 << 20
KEPT_ASIDE = frozenset({".git", ".catalog"})
"""What is nobody's input: the history, and what the product keeps."""


def step_key(
    entry: CatalogEntry, args: Mapping[str, Any], *, root: Path, env: Mapping[str, str], salt: str = ""
) -> str | None:
    """What a step's result is found by; none when its yool may not be answered from the cache."""
    contract = entry.contract
    if not contract.cached:
        return None
    shas = [sha for pattern in contract.inputs for sha in file_shas(pattern, args, root)]
    seen = {name: env[name] for name in contract.env if name in env}
    return cache_key(entry.full_name, input_hash(entry.full_name, args, shas, seen, salt))


def file_shas(pattern: str, args: Mapping[str, Any], root: Path) -> list[str]:
    """A digest for each file a pattern names, over where it lies and what it holds: files that swap places differ.

    A folder means every file in it, and a link to a folder where that lies and every file in it. What git and the
    product keep is left out, unless the pattern itself names it: it changes with every step.
    """
    real = os.path.realpath(root)
    held = _held(real, _named(real, _filled(pattern, args)))
    return [digest_of([_spelled(name), held[name]]) for name in sorted(held)]


def _named(root: str, wanted: str) -> set[str]:
    """What a pattern names. `**` goes through no links: packages that link to each other have no end of ways."""
    parts = [part for part in wanted.split("/") if part not in ("", ".")]
    left_out = KEPT_ASIDE.difference(parts)
    names = {"."}
    for part in parts:
        if part == "**":
            names = {each for name in names for each in _folders(root, name, left_out)}
        elif glob.has_magic(part):
            matching = ((name, fnmatch.filter(_inside(root, name), part)) for name in names)
            names = {os.path.normpath(os.path.join(name, each)) for name, some in matching for each in some}
        else:
            names = {os.path.normpath(os.path.join(name, part)) for name in names}
    return {name for name in names if left_out.isdisjoint(name.split("/"))}


def _folders(root: str, name: str, left_out: frozenset[str]) -> Iterator[str]:
    """A folder and those below it."""
    for place, inside, _ in os.walk(os.path.join(root, name)):
        inside[:] = [each for each in inside if each not in left_out]
        yield os.path.relpath(place, root)


def _inside(root: str, name: str) -> list[str]:
    try:
        return os.listdir(os.path.join(root, name))
    except OSError:  # nothing, or no folder
        return []


def _held(root: str, names: set[str]) -> dict[str, str]:
    """What lies under the names and in the folders they mean: what a file holds, and where a link to a folder leads."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        path = os.path.join(root, name)
        target = os.path.realpath(path)
        if os.path.commonpath([root, target]) != root:
            raise LinkRefused("A file a step reads lies outside the project.", field="inputs", used=ascii(name)[:200])
        with suppress(FileNotFoundError):  # somebody took it away as we looked
            if os.path.isfile(path):
                found[name] = _content(path)
            elif os.path.isdir(path):
                place = os.path.relpath(target, root)
                if place != name:
                    found[name] = _spelled(place)
                if place not in seen:
                    seen.add(place)
                    inside = (each for each in os.listdir(target) if each not in KEPT_ASIDE)
                    left.extend(os.path.normpath(os.path.join(place, each)) for each in inside)
    return found


def _spelled(name: str) -> str:
    """A name as a text; one that is no Unicode by its bytes, behind what no name holds."""
    raw = os.fsencode(name)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return f"\0{raw.hex()}"


def _filled(pattern: str, args: Mapping[str, Any]) -> str:
    def put_in(place: re.Match[str]) -> str:
        value = args.get(place[1])
        if not isinstance(value, str) or value.startswith("/") or ".." in value.split("/"):
            raise YoolArguments("The argument is not a path beneath the project.", field=f"args.{place[1]}")
        return glob.escape(value)

    return _PLACE.sub(put_in, pattern)


def _content(path: str) -> str:
    running = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            running.update(chunk)
    return running.hexdigest()


def damaged_body(receipt: Receipt, bodies: BodyStore) -> str | None:
    """The digest of the first body that is not there or not what it was."""
    return next((sha for sha in bodies_of(receipt) if not bodies.holds(sha)), None)
