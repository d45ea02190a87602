"""The cache: what a step's result is found by, and whether what was found is still whole."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stigmergy.core import digest_of
from stigmergy.errors import LinkRefused, YoolArguments
from stigmergy.evidence.receipts import BodyStore, Receipt, bodies_of, cache_key, input_hash
from stigmergy.space.catalog import CatalogEntry

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

    A folder means every file in it. What git and the product keep is left out, unless the pattern itself names it: it
    changes with every step.
    """
    real, wanted = os.path.realpath(root), _filled(pattern, args)
    left_out = KEPT_ASIDE - set(wanted.split("/"))
    names: set[str] = set()
    for name in glob.glob(wanted, root_dir=real, recursive=True, include_hidden=True):
        if left_out.isdisjoint(name.split("/")):
            names |= _files(real, os.path.normpath(name), frozenset())
    return [digest_of([name, _content(os.path.join(real, name))]) for name in sorted(names)]


def _files(root: str, name: str, above: frozenset[str]) -> set[str]:
    """The files a name means: itself, or those of a folder, however deep; a folder that leads back up is left there."""
    path = os.path.join(root, name)
    target = os.path.realpath(path)
    if os.path.commonpath([root, target]) != root:
        raise LinkRefused("A file a step reads lies outside the project.", field="inputs", used=name[:200])
    if not os.path.isdir(path):
        return {name} if os.path.isfile(path) else set()
    if target in above:
        return set()
    inside = (each for each in os.listdir(path) if each not in KEPT_ASIDE)
    found = (_files(root, os.path.normpath(os.path.join(name, each)), above | {target}) for each in inside)
    return set().union(*found)


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
